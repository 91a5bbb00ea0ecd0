"""The time index of a filter: range R and singletons S of its timestamps, bounded ([Tracking] sections 3.1 and 4.3).

Deviation from the paper: a singleton is a span that begins as one timestamp. Adjacent milliseconds merge, so that a
stretch of old messages costs one singleton; a late history, which has singletons only, joins the closest ones when
there are too many.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["Span", "TimeIndex", "united_spans"]

Span = tuple[int, int]
"""First and last timestamp, in milliseconds."""


class TimeIndex:
    """The range and the singletons of one filter."""

    __slots__ = ("range", "singletons")

    def __init__(self, range_: Span | None = None, singletons: Iterable[Span] = ()) -> None:
        self.range = range_
        """R: first and last timestamp, or None if there is none yet."""
        self.singletons = tuple(singletons)
        """S: disjoint spans, in order."""

    def __repr__(self) -> str:
        return f"TimeIndex({self.range}, {self.singletons})"

    def widen(self, first_ms: int, last_ms: int) -> None:
        """Extend R to include these timestamps."""
        assert first_ms <= last_ms, f"span {first_ms} to {last_ms} is empty"
        self.range = (first_ms, last_ms) if self.range is None else _hull(self.range, (first_ms, last_ms))

    def add_singletons(self, timestamps_ms: Iterable[int], singletons_max: int) -> bool:
        """Add these timestamps to S unless that makes too many spans; returns whether it did."""
        united = united_spans([*self.singletons, *((each, each) for each in timestamps_ms)])
        if len(united) > singletons_max:
            return False
        self.singletons = united
        return True

    def join_singletons(self, timestamps_ms: Iterable[int], singletons_max: int) -> None:
        """Add these timestamps to S, joining the closest spans if there are too many."""
        united = united_spans([*self.singletons, *((each, each) for each in timestamps_ms)])
        self.singletons = _joined(united, singletons_max)

    def __contains__(self, timestamp_ms: object) -> bool:
        assert isinstance(timestamp_ms, int)
        spans = self.singletons if self.range is None else (self.range, *self.singletons)
        return any(first <= timestamp_ms <= last for first, last in spans)

    def hull(self) -> Span | None:
        """The first and the last of all its timestamps."""
        spans = self.singletons if self.range is None else (self.range, *self.singletons)
        return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None

    def union(self, other: TimeIndex, singletons_max: int) -> TimeIndex:
        """The index of the union of two filters."""
        ranges = [each for each in (self.range, other.range) if each is not None]
        range_ = None if not ranges else (min(first for first, _ in ranges), max(last for _, last in ranges))
        return TimeIndex(range_, _joined(united_spans([*self.singletons, *other.singletons]), singletons_max))


def united_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """These timestamps as disjoint spans, in order; adjacent milliseconds are merged."""
    united: list[Span] = []
    for first, last in sorted(spans):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(last, united[-1][1]))
        else:
            united.append((first, last))
    return tuple(united)


def _joined(spans: tuple[Span, ...], spans_max: int) -> tuple[Span, ...]:
    """Joins spans until there are no more than allowed; the widest gaps stay."""
    if len(spans) <= spans_max:
        return spans
    gaps = sorted(range(1, len(spans)), key=lambda place: spans[place - 1][1] - spans[place][0])
    cuts = [0, *sorted(gaps[: spans_max - 1]), len(spans)]
    return tuple((spans[start][0], spans[end - 1][1]) for start, end in pairwise(cuts))


def _hull(one: Span, other: Span) -> Span:
    return min(one[0], other[0]), max(one[1], other[1])
