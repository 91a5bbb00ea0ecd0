"""A map from ranges of ticks to values: what is known of ticks, and on whose authority.

It is three flat lists: two as in `TickRanges`, and one for the values. Ranges are disjoint; neighbours that touch have
different values. Where a range is put over others, the values are combined, so no knowledge gets lost. Growing the map
at its end costs O(1), anything else a binary search and the ranges touched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Generic, TypeVar

from penstock.model.tick import TickRange

__all__ = ["RangeMap"]

_V = TypeVar("_V")

_range = TickRange._make


class RangeMap(Generic[_V]):
    """Maps disjoint, inclusive ranges of ticks to values."""

    __slots__ = ("_combine", "_firsts", "_lasts", "_values", "_weigh", "weight")

    def __init__(self, combine: Callable[[_V, _V], _V], weigh: Callable[[_V], int] = lambda _: 1) -> None:
        """Make an empty map; `combine` is given the old and the new value of ticks, `weigh` the value of a range."""
        self._combine, self._weigh = combine, weigh
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._values: list[_V] = []
        self.weight = 0
        """Total weight of all ranges; by default, their number."""

    def put(self, first: int, last: int, value: _V) -> None:
        """Give the ticks from first to last this value, combined with the values they have."""
        assert first <= last, f"range {first} to {last} is empty"
        lasts = self._lasts
        if lasts and first <= lasts[-1]:
            self._put_over(first, last, value)
        elif lasts and first == lasts[-1] + 1 and _same(self._values[-1], value):
            lasts[-1] = last
            # Keep the newer object: the next value is likely to be the same one, and identity is quicker to check.
            self._values[-1] = value
        else:
            self._firsts.append(first)
            lasts.append(last)
            self._values.append(value)
            self.weight += self._weigh(value)

    def drop(self, from_tick: int, doomed: Callable[[_V], bool]) -> list[TickRange]:
        """Remove the ticks from this one on whose value is doomed; returns their ranges."""
        low = bisect_left(self._lasts, from_tick)
        dropped: list[TickRange] = []
        kept: list[tuple[int, int, _V]] = []
        for first, last, value in self._triples(low, len(self._lasts)):
            if not doomed(value):
                kept.append((first, last, value))
                continue
            if first < from_tick:
                kept.append((first, from_tick - 1, value))
            dropped.append(_range((max(first, from_tick), last)))
        if dropped:
            self._replace(low, len(self._lasts), kept)
        return dropped

    def remove_below(self, tick: int) -> None:
        """Remove all ticks that are less than this one."""
        gone = bisect_left(self._lasts, tick)
        if gone:
            self.weight -= sum(map(self._weigh, self._values[:gone]))
            del self._firsts[:gone], self._lasts[:gone], self._values[:gone]
        if self._firsts and self._firsts[0] < tick:
            self._firsts[0] = tick

    def first_missing(self, from_tick: int) -> int:
        """The first tick without a value, looking from this one upwards."""
        for at in range(bisect_left(self._lasts, from_tick), len(self._lasts)):
            if self._firsts[at] > from_tick:
                break
            from_tick = self._lasts[at] + 1
        return from_tick

    def end_of(self, tick: int) -> int:
        """The last tick of the range that contains this one; there must be such a range."""
        at = bisect_left(self._lasts, tick)
        assert self._firsts[at] <= tick, f"tick {tick} is in no range"
        return self._lasts[at]

    def within(self, first: int, last: int) -> list[tuple[int, int, _V]]:
        """The ranges between first and last with their values, clipped to these."""
        low = bisect_left(self._lasts, first)
        high = bisect_right(self._firsts, last, low)
        found = self._triples(low, high)
        if found:
            found[0] = (max(first, found[0][0]), *found[0][1:])
            found[-1] = (found[-1][0], min(last, found[-1][1]), found[-1][2])
        return found

    def gaps(self, first: int, last: int) -> list[TickRange]:
        """The ranges between first and last that have no value."""
        found = []
        for low, high, _ in self.within(first, last):
            if low > first:
                found.append(_range((first, low - 1)))
            first = high + 1
        if first <= last:
            found.append(_range((first, last)))
        return found

    def __iter__(self) -> Iterator[tuple[int, int, _V]]:
        """The ranges in order, with their values; do not change the map meanwhile."""
        return zip(self._firsts, self._lasts, self._values, strict=True)

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self._lasts)

    def check_invariants(self) -> None:
        """Assert that the ranges are in order and disjoint, and that no two could be merged."""
        assert len(self._firsts) == len(self._lasts) == len(self._values), "lists of one length"
        assert self.weight == sum(map(self._weigh, self._values)), "the weights add up"
        triples = self._triples(0, len(self._lasts))
        for first, last, _ in triples:
            assert first <= last, f"range {first} to {last} is empty"
        for (_, last, value), (following, _, other) in pairwise(triples):
            assert last < following, f"the range up to {last} overlaps the one from {following}"
            assert last + 1 < following or value != other, f"the range up to {last} continues at {following}"

    def _put_over(self, first: int, last: int, value: _V) -> None:
        """Put a range over others: combine shared ticks, and join neighbours with equal values."""
        low, high = bisect_left(self._lasts, first - 1), bisect_right(self._firsts, last + 1)
        made: list[tuple[int, int, _V]] = []
        start = first
        for old_first, old_last, old in self._triples(low, high):
            if old_first < first:
                _append(made, old_first, min(old_last, first - 1), old)
            _append(made, start, min(old_first - 1, last), value)
            shared, end = max(old_first, first), min(old_last, last)
            if shared <= end:
                _append(made, shared, end, self._combine(old, value))
            start = max(start, end + 1)
            if old_last > last:
                _append(made, max(old_first, last + 1), old_last, old)
        _append(made, start, last, value)
        self._replace(low, high, made)

    def _replace(self, low: int, high: int, made: list[tuple[int, int, _V]]) -> None:
        values = [value for _, _, value in made]
        self.weight += sum(map(self._weigh, values)) - sum(map(self._weigh, self._values[low:high]))
        self._firsts[low:high] = [first for first, _, _ in made]
        self._lasts[low:high] = [last for _, last, _ in made]
        self._values[low:high] = values

    def _triples(self, low: int, high: int) -> list[tuple[int, int, _V]]:
        return list(zip(self._firsts[low:high], self._lasts[low:high], self._values[low:high], strict=True))


def _append(made: list[tuple[int, int, _V]], first: int, last: int, value: _V) -> None:
    """Append a range unless it is empty, joined with the one before if they touch and their values are equal."""
    if first > last:
        return
    if made and made[-1][1] + 1 == first and _same(made[-1][2], value):
        first = made.pop()[0]
    made.append((first, last, value))


def _same(one: _V, other: _V) -> bool:
    """Whether two values are equal; mostly they are the same object, which is cheaper to check than mappings are."""
    return one is other or one == other
