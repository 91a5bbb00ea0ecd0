"""Cuts the range of a pubend into parts that tasks read side by side; every tick is in exactly one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

__all__ = ["TickSplit", "is_wide", "split_evenly"]


@dataclass(frozen=True)
class TickSplit(InputPartition):
    """What one task reads: the ticks of one pubend from first to last, both included."""

    pubend: str
    first: int
    last: int

    def __repr__(self) -> str:
        return f"TickSplit({self.pubend}, {self.first}, {self.last})"


def is_wide(whole: TickSplit, *, split_ms_min: int) -> bool:
    """Whether a range is long enough to be split at all."""
    return whole.last - whole.first + 1 >= 2 * _ticks(split_ms_min)


def split_evenly(
    whole: TickSplit, occupied: tuple[int, int] | None, *, splits_max: int, split_ms_min: int
) -> list[TickSplit]:
    """Parts of equal time between the first and the last message, and the silence around them with the outer ones.

    Ticks follow the clock, and nobody knows beforehand how many messages are between two of them: parts of equal time
    are parts of equal size only as far as the rate is even.
    """
    if occupied is None:
        return [whole]
    low, high = occupied
    assert whole.first <= low <= high <= whole.last
    ticks = high - low + 1
    count = max(1, min(splits_max, ticks // _ticks(split_ms_min)))
    cuts = [whole.first, *(low + ticks * place // count for place in range(1, count)), whole.last + 1]
    return list(_between(whole.pubend, cuts))


def _between(pubend: str, cuts: list[int]) -> Iterator[TickSplit]:
    for first, after in pairwise(cuts):
        yield TickSplit(pubend, first, after - 1)


def _ticks(ms: int) -> int:
    return ms << 16
