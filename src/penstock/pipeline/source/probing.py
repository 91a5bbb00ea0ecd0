"""Looks into logs before anything is planned: where messages begin and end, and how far so many rows reach.

A broker cannot count ahead. So where a number of rows matters they are read, once here to count them and once again by
the task that wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from penstock.client.reading import LogPart, Survey
from penstock.pipeline.source.splits import TickSplit
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["LogClient", "Reached", "first_message", "occupied_range", "parts_of", "reach"]

_PEEK_BYTES: Final = 16 * 1024
_COUNT_BYTES: Final = 1024 * 1024
_HALVINGS_MAX: Final = 40


class LogClient(Protocol):
    """What the source needs of a client; the blocking client has it."""

    def survey(self) -> Survey:
        """From where to where all logs go."""
        ...

    def read(
        self, pubend: str, first: int, last: int, selector: str | Selector = EVERYTHING, *, bytes_max: int = ...
    ) -> Iterator[LogPart]:
        """The log of a pubend from one tick to another, in parts that cover all of it."""
        ...


class Reached(NamedTuple):
    """How far a number of rows reaches."""

    tick: int
    """The first tick behind them."""
    rows: int


@contextmanager
def parts_of(client: LogClient, whole: TickSplit, selector: Selector, *, bytes_max: int) -> Iterator[Iterator[LogPart]]:
    """The parts of a range for as long as the block lasts; what the client still fetches is given up then."""
    parts = client.read(whole.pubend, whole.first, whole.last, selector, bytes_max=bytes_max)
    try:
        yield parts
    finally:
        if isinstance(parts, Generator):
            parts.close()


def first_message(client: LogClient, whole: TickSplit, selector: Selector = EVERYTHING) -> int | None:
    """The tick of the first message in a range."""
    with parts_of(client, whole, selector, bytes_max=_PEEK_BYTES) as parts:
        for part in parts:
            if part.ticks:
                return part.ticks[0]
    return None


def occupied_range(client: LogClient, whole: TickSplit, *, near_ticks: int) -> tuple[int, int] | None:
    """From the first message to near the last one: the end is halved away as long as there is nothing in it."""
    low = first_message(client, whole)
    if low is None:
        return None
    known, end = low, whole.last
    for _ in range(_HALVINGS_MAX):
        if end - known <= near_ticks:
            break
        middle = (known + end) // 2 + 1
        found = first_message(client, TickSplit(whole.pubend, middle, end))
        if found is None:
            end = middle - 1
        else:
            known = found
    return low, end


def reach(
    client: LogClient, whole: TickSplit, *, selector: Selector, rows_max: int, is_over: Callable[[], bool]
) -> Reached:
    """How far at most so many rows reach, silence behind them included; less far if the time for it is over."""
    assert rows_max > 0
    rows, tick = 0, whole.first
    with parts_of(client, whole, selector, bytes_max=_COUNT_BYTES) as parts:
        for part in parts:
            left = rows_max - rows
            if len(part.ticks) > left:
                return Reached(part.ticks[left - 1] + 1 if left else tick, rows_max)
            rows, tick = rows + len(part.ticks), part.last + 1
            if is_over():
                break
    return Reached(tick, rows)
