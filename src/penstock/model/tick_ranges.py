"""A set of ticks kept as ranges: small where the ticks are dense.

The set is two flat lists, the first and the last ticks of its ranges, in order. The ranges are disjoint and never
adjacent, so equal sets have equal lists. Growing the set at its end, as a live stream does, costs O(1); anything else
is a binary search, the ranges touched, and at worst a move of the lists' tails in memory, which is cheap below some
hundred thousand ranges. The window of the set's owner bounds the number of ranges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from penstock.model.tick import TickRange

__all__ = ["TickRanges"]

# `_make` takes plain integers; the constructor would want each of them wrapped as a Tick first.
_range = TickRange._make

_MERGE_RATIO: Final = 8
"""A set with at least this many times fewer ranges is applied range by range, any other in one pass over both."""
_FEW: Final = 2
"""Up to this many ranges are applied one by one, however small the set they are applied to."""
_SHOWN_MAX: Final = 8


class TickRanges:
    """A set of integers, kept as disjoint, non-adjacent, inclusive ranges.

    There is no ``len()``, since it would be ambiguous: `tick_count` counts the ticks and `range_count` the ranges.
    Iterators run over the state at the time of the call, so the set may be changed meanwhile.
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        """Make an empty set."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @classmethod
    def of(cls, *pairs: tuple[int, int]) -> TickRanges:
        """Make a set from ranges, which may overlap and come in any order."""
        made = cls()
        for first, last in sorted(pairs):
            made.add(first, last)
        return made

    def copy(self) -> TickRanges:
        """An independent copy of the set."""
        made: TickRanges = TickRanges()
        made._firsts, made._lasts = self._firsts.copy(), self._lasts.copy()
        return made

    def add(self, first: int, last: int) -> None:
        """Add all ticks from first to last."""
        assert first <= last, f"range {first} to {last} is empty"
        firsts, lasts = self._firsts, self._lasts
        if not lasts or first > lasts[-1] + 1:
            firsts.append(first)
            lasts.append(last)
        elif first >= firsts[-1]:
            lasts[-1] = max(last, lasts[-1])
        else:
            # Neighbours that only touch the range are merged into it as well.
            low, high = bisect_left(lasts, first - 1), bisect_right(firsts, last + 1)
            if low < high:
                first, last = min(first, firsts[low]), max(last, lasts[high - 1])
            firsts[low:high] = [first]
            lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> None:
        """Remove whatever ticks the set has from first to last."""
        assert first <= last, f"range {first} to {last} is empty"
        low, high = self._touched(first, last)
        if low == high:
            return
        firsts, lasts = self._firsts, self._lasts
        # The outermost ranges may keep a part before first and a part after last.
        left, right = firsts[low], lasts[high - 1]
        before, behind = left < first, right > last
        firsts[low:high] = [left][:before] + [last + 1][:behind]
        lasts[low:high] = [first - 1][:before] + [right][:behind]

    def remove_below(self, tick: int) -> None:
        """Remove all ticks that are less than this one."""
        gone = bisect_left(self._lasts, tick)
        del self._firsts[:gone], self._lasts[:gone]
        if self._firsts and self._firsts[0] < tick:
            self._firsts[0] = tick
        assert not self._firsts or self._firsts[0] >= tick

    def clear(self) -> None:
        """Remove all ticks."""
        self._firsts.clear()
        self._lasts.clear()

    def update(self, other: TickRanges) -> None:
        """Add all ticks of the other set."""
        if other.range_count * _MERGE_RATIO <= self.range_count:
            for first, last in zip(other._firsts, other._lasts, strict=True):
                self.add(first, last)
        else:
            self._become(self.union(other))

    def difference_update(self, other: TickRanges) -> None:
        """Remove all ticks of the other set."""
        if other is self:
            self.clear()
        elif other.range_count <= _FEW or other.range_count * _MERGE_RATIO <= self.range_count:
            for first, last in zip(other._firsts, other._lasts, strict=True):
                self.remove(first, last)
        else:
            self._become(self.difference(other))

    def union(self, other: TickRanges) -> TickRanges:
        """A new set of the ticks that are in either set."""
        pairs = [*zip(self._firsts, self._lasts, strict=True), *zip(other._firsts, other._lasts, strict=True)]
        # Both halves are in order, so the sort just merges them. Each range is then added at the end.
        return TickRanges.of(*pairs)

    def intersection(self, other: TickRanges) -> TickRanges:
        """A new set of the ticks that are in both sets."""
        found = TickRanges()
        if not self or not other:
            return found
        if self.range_count == 1:
            return other._clipped(self._firsts[0], self._lasts[0])
        if other.range_count == 1:
            return self._clipped(other._firsts[0], other._lasts[0])
        # Skip the ranges before the other set begins: one of the sets is often small.
        mine, theirs = bisect_left(self._lasts, other._firsts[0]), bisect_left(other._lasts, self._firsts[0])
        while mine < len(self._lasts) and theirs < len(other._lasts):
            first = max(self._firsts[mine], other._firsts[theirs])
            last = min(self._lasts[mine], other._lasts[theirs])
            if first <= last:
                found.add(first, last)
            if self._lasts[mine] == last:
                mine += 1
            else:
                theirs += 1
        return found

    def difference(self, other: TickRanges) -> TickRanges:
        """A new set of the ticks that are in this set and not in the other."""
        found = TickRanges()
        firsts, lasts, start = found._firsts, found._lasts, 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            start = bisect_left(other._lasts, first, start)
            end = bisect_right(other._firsts, last, start)
            for other_first, other_last in zip(other._firsts[start:end], other._lasts[start:end], strict=True):
                # Only the first of these can begin at or before ours; then nothing is left in front of it.
                if first < other_first:
                    firsts.append(first)
                    lasts.append(other_first - 1)
                first = other_last + 1  # noqa: PLW2901 - what is left of the range
            if first <= last:
                firsts.append(first)
                lasts.append(last)
        return found

    def contains(self, tick: int) -> bool:
        """Whether the tick is in the set."""
        return self.contains_range(tick, tick)

    def contains_range(self, first: int, last: int) -> bool:
        """Whether all ticks from first to last are in the set."""
        assert first <= last, f"range {first} to {last} is empty"
        at = bisect_left(self._lasts, first)
        return at < len(self._lasts) and self._firsts[at] <= first and last <= self._lasts[at]

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any tick from first to last is in the set."""
        assert first <= last, f"range {first} to {last} is empty"
        at = bisect_left(self._lasts, first)
        return at < len(self._lasts) and self._firsts[at] <= last

    def first_missing(self, from_tick: int) -> int:
        """The first tick not in the set, from this one upwards (this is how a doubt horizon advances).

        It is one above the last possible tick if all of them are in the set.
        """
        at = bisect_left(self._lasts, from_tick)
        return self._lasts[at] + 1 if at < len(self._lasts) and self._firsts[at] <= from_tick else from_tick

    def within(self, first: int, last: int) -> Iterator[TickRange]:
        """The set's ranges between first and last, clipped to these."""
        assert first <= last, f"range {first} to {last} is empty"
        return iter(self._clipped(first, last))

    def gaps(self, first: int, last: int) -> Iterator[TickRange]:
        """The ranges between first and last that the set lacks."""
        assert first <= last, f"range {first} to {last} is empty"
        low, high = self._touched(first, last)
        return _between(first, self._firsts[low:high], self._lasts[low:high], last)

    @property
    def first(self) -> int | None:
        """The first tick in the set, if it has any."""
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        """The last tick in the set, if it has any."""
        return self._lasts[-1] if self._lasts else None

    @property
    def range_count(self) -> int:
        """Number of ranges."""
        return len(self._firsts)

    @property
    def tick_count(self) -> int:
        """Number of ticks; counted on request, range by range."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __iter__(self) -> Iterator[TickRange]:
        """The ranges in order."""
        return map(_range, zip(self._firsts.copy(), self._lasts.copy(), strict=True))

    def __bool__(self) -> bool:
        """Whether there is any tick in the set."""
        return bool(self._firsts)

    # A mutable set cannot be a key.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Whether both sets have the same ticks."""
        if not isinstance(other, TickRanges):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    def __repr__(self) -> str:
        """The call that makes the set; for a set with many ranges, the first few and the number of the others."""
        shown = [f"({first}, {last})" for first, last in zip(self._firsts[:_SHOWN_MAX], self._lasts, strict=False)]
        if self.range_count > _SHOWN_MAX:
            shown.append(f"... {self.range_count - _SHOWN_MAX:,} more")
        return f"TickRanges.of({', '.join(shown)})"

    def check_invariants(self) -> None:
        """Assert that the ranges are in order, not empty, disjoint and not adjacent."""
        assert len(self._firsts) == len(self._lasts), "as many first ticks as last ones"
        for first, last in zip(self._firsts, self._lasts, strict=True):
            assert first <= last, f"range {first} to {last} is empty"
        for last, following in zip(self._lasts, self._firsts[1:], strict=False):
            assert last + 1 < following, f"the range up to {last} is not apart from the one from {following}"

    def _touched(self, first: int, last: int) -> tuple[int, int]:
        """The slice of the lists whose ranges share ticks with first to last."""
        low = bisect_left(self._lasts, first)
        return low, bisect_right(self._firsts, last, low)

    def _clipped(self, first: int, last: int) -> TickRanges:
        """A new set of this set's ticks from first to last."""
        low, high = self._touched(first, last)
        made = TickRanges()
        made._firsts, made._lasts = self._firsts[low:high], self._lasts[low:high]
        if low < high:
            made._firsts[0], made._lasts[-1] = max(made._firsts[0], first), min(made._lasts[-1], last)
        return made

    def _become(self, other: TickRanges) -> None:
        """Take over the lists of a set that nobody else uses."""
        assert other is not self
        self._firsts, self._lasts = other._firsts, other._lasts


def _between(first: int, firsts: list[int], lasts: list[int], last: int) -> Iterator[TickRange]:
    """The gaps that the ranges leave from first to last; every range shares ticks with that."""
    start = first
    for range_first, range_last in zip(firsts, lasts, strict=True):
        # Only the first of the ranges can begin at or before the start; then nothing is left in front of it.
        if start < range_first:
            yield _range((start, range_first - 1))
        start = range_last + 1
    if start <= last:
        yield _range((start, last))
