"""Finds which spans cover a timestamp, for many timestamps at once: spans cut time into segments ([Tracking] 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.tracking.spans import Span

__all__ = ["TIME_MAX", "Timeline"]

TIME_MAX: Final = 1 << 60
"""Later than any timestamp: endless spans are cut here."""


class Timeline:
    """The time between two timestamps, cut wherever one of the given spans begins or ends."""

    def __init__(self, spans: Iterable[Span], *, first_ms: int, last_ms: int) -> None:
        assert first_ms <= last_ms
        self._first_ms, self._last_ms = first_ms, last_ms
        ends = {edge for first, last in spans for edge in (first, min(last, TIME_MAX) + 1)}
        self._cuts = np.array(sorted(each for each in ends if first_ms < each <= last_ms), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._cuts) + 1

    def segments(self, times: NDArray[np.int64]) -> NDArray[np.intp]:
        """The segment of each timestamp, all of which must lie between the two."""
        return np.searchsorted(self._cuts, times, side="right")

    def starts(self) -> list[int]:
        """The first timestamp of each segment."""
        return [self._first_ms, *self._cuts.tolist()]

    def slices(self, spans: Iterable[Span]) -> list[slice]:
        """The segments that each span covers; all spans must be among those the timeline was made from."""
        return [
            slice(
                int(np.searchsorted(self._cuts, first, side="right")),
                int(np.searchsorted(self._cuts, min(last, TIME_MAX), side="right")) + 1,
            )
            for first, last in spans
            if self._first_ms <= last and first <= min(last, self._last_ms)
        ]

    def masks(self, spans: Sequence[Iterable[Span]]) -> NDArray[np.uint64]:
        """A word for each segment, whose bits say which items have a span that covers it."""
        assert len(spans) <= 64
        words = np.zeros(len(self), dtype=np.uint64)
        for place, each in enumerate(spans):
            for covered in self.slices(each):
                words[covered] |= np.uint64(1 << place)
        return words

    def sums(self, items: Iterable[tuple[Iterable[Span], float]]) -> NDArray[np.float64]:
        """For each segment, the sum of the amounts of the items that cover it."""
        total = np.zeros(len(self))
        for spans, amount in items:
            is_covered = np.zeros(len(self), dtype=np.bool_)
            for covered in self.slices(spans):
                is_covered[covered] = True
            total[is_covered] += amount
        return total
