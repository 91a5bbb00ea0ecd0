"""Probes logs before planning: where messages begin and end, and how far a number of rows reaches.

A broker cannot count ahead. So where the number of rows matters, they are read twice: here to count them, and again by
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
    """The client methods that the source needs; the blocking client has them."""

    def survey(self) -> Survey:
        """The extent of all logs."""
        ...

    def read(
        self, pubend: str, first: int, last: int, selector: str | Selector = EVERYTHING, *, bytes_max: int = ...
    ) -> Iterator[LogPart]:
        """Read the log of a pubend from one tick to another, in parts that cover all of it."""
        ...


class Reached(NamedTuple):
    """How far a number of rows reaches."""

    tick: int
    """The first tick after them."""
    rows: int


@contextmanager
def parts_of(client: LogClient, whole: TickSplit, selector: Selector, *, bytes_max: int) -> Iterator[Iterator[LogPart]]:
    """Read the parts of a range for as long as the block lasts; leaving it cancels what is still being fetched."""
    parts = client.read(whole.pubend, whole.first, whole.last, selector, bytes_max=bytes_max)
    try:
        yield parts
    finally:
        if isinstance(parts, Generator):
            parts.close()


def first_message(client: LogClient, whole: TickSplit, selector: Selector = EVERYTHING) -> int | None:
    """The tick of the first message in a range; None if there is none."""
    with parts_of(client, whole, selector, bytes_max=_PEEK_BYTES) as parts:
        for part in parts:
            if part.ticks:
                return part.ticks[0]
    return None


def occupied_range(client: LogClient, whole: TickSplit, *, near_ticks: int) -> tuple[int, int] | None:
    """The range from the first message to near the last one, found by bisecting away the empty end."""
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
    """How far up to ``rows_max`` rows reach, including silence after them; stops early if ``is_over``."""
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
