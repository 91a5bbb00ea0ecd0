"""Splits the range of a pubend into parts that tasks read in parallel; every tick is in exactly one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

__all__ = ["TickSplit", "is_wide", "split_evenly"]


@dataclass(frozen=True)
class TickSplit(InputPartition):
    """The ticks of one pubend that one task reads, from first to last inclusive."""

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
    """Split into parts of equal time between the first and last message; the outer parts include the silence around.

    Ticks follow the clock, and nobody knows in advance how many messages lie between two of them: parts of equal time
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
