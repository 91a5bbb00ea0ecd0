"""Sorted thresholds with the subscriptions that have them, in blocks: one bisection finds all that match.

The members of a chain differ only in their thresholds. Those of ``volume > x`` that match volume 500 are the ones
with x below 500: the first part of the chain. Blocks bound the cost of an insertion, whatever the length of the chain.
Members with equal thresholds are ordered by subscription, so that each is found again by bisection.

A chain may have *columns*: further thresholds of each member, in the same order, for bounds beyond the first.
A chain without thresholds of its own (all members alike) keeps 0 for each: the same code, eight bytes a member.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.matching.plan import Threshold

__all__ = ["BLOCK_MAX", "Bisect", "Chain", "Columns", "Ids"]

BLOCK_MAX: Final = 8192
"""Members in a block before it is split; larger blocks make lookups cheaper and insertions dearer."""

Ids: TypeAlias = npt.NDArray[np.uint32]
Columns: TypeAlias = tuple[npt.NDArray[np.float64], ...]

Bisect: TypeAlias = Callable[[list[Threshold], Threshold], int]
"""``bisect_left`` or ``bisect_right``: whether an equal threshold lies after or before the place."""


class _Block:
    """A stretch of a chain: thresholds, members and columns side by side.

    Members and columns are kept in plain arrays, which take insertions well; searches want numpy arrays. Those are
    copies, made when a search first needs them after a change: a burst of subscriptions pays for none of them.
    """

    __slots__ = ("_columns", "_members", "columns", "ids", "thresholds")

    def __init__(self, thresholds: list[Threshold], members: array[int], columns: tuple[array[float], ...]) -> None:
        self.thresholds = thresholds
        self._members = members
        self._columns = columns
        self.ids: Ids | None = None
        """The members, or None if the copy is stale: see ``fresh``."""
        self.columns: Columns = ()

    def fresh(self) -> Ids:
        """The current members; also refreshes the columns."""
        if self.ids is None:
            self.ids = np.frombuffer(self._members.tobytes(), np.uint32)
            self.columns = tuple([np.frombuffer(column.tobytes()) for column in self._columns])
        return self.ids

    @property
    def last(self) -> int:
        """The last member."""
        return self._members[-1]

    def place_of(self, threshold: Threshold, subscription: int) -> int:
        """Where the member is, or would be."""
        thresholds = self.thresholds
        first = bisect_left(thresholds, threshold)
        if first == len(thresholds) or thresholds[first] != threshold:
            return first
        return bisect_left(self._members, subscription, first, bisect_right(thresholds, threshold, first))

    def is_at(self, place: int, threshold: Threshold, subscription: int) -> bool:
        """Whether the member is there."""
        if place == len(self.thresholds):
            return False
        return self.thresholds[place] == threshold and self._members[place] == subscription

    def insert(self, place: int, threshold: Threshold, subscription: int, extra: tuple[float, ...]) -> None:
        self.thresholds.insert(place, threshold)
        self._members.insert(place, subscription)
        if extra:
            for column, value in zip(self._columns, extra, strict=True):
                column.insert(place, value)
        self.ids = None

    def delete(self, place: int) -> None:
        del self.thresholds[place], self._members[place]
        for column in self._columns:
            del column[place]
        self.ids = None

    def split(self) -> _Block:
        """Moves the second half into a new block."""
        half = len(self.thresholds) // 2
        second = _Block(self.thresholds[half:], self._members[half:], tuple(column[half:] for column in self._columns))
        del self.thresholds[half:], self._members[half:]
        for column in self._columns:
            del column[half:]
        self.ids = None
        return second


class Chain:
    """Members in the order of their thresholds."""

    __slots__ = ("_parts", "_tops", "blocks", "maxima", "size")

    def __init__(self, columns: int = 0) -> None:
        self.blocks = [_Block([], array("I"), tuple(array("d") for _ in range(columns)))]
        self._parts: list[Ids] | None = None
        self.maxima: list[Threshold] = []
        """The last threshold of each block, if there are several."""
        self._tops: list[tuple[Threshold, int]] = []
        self.size = 0

    def insert(self, threshold: Threshold, subscription: int, extra: tuple[float, ...] = ()) -> None:
        """Adds a member; one that is added twice must be deleted twice."""
        self._parts = None
        number = self._block_for(threshold, subscription)
        block = self.blocks[number]
        block.insert(block.place_of(threshold, subscription), threshold, subscription, extra)
        self.size += 1
        if len(block.thresholds) > BLOCK_MAX:
            self.blocks.insert(number + 1, block.split())
            self._note_all()
        elif self.maxima:
            self._note(number)

    def delete(self, threshold: Threshold, subscription: int) -> None:
        """Removes a member, which must be there."""
        self._parts = None
        number = self._block_for(threshold, subscription)
        block = self.blocks[number]
        place = block.place_of(threshold, subscription)
        assert block.is_at(place, threshold, subscription), f"{subscription} is not in the chain"
        block.delete(place)
        self.size -= 1
        if self.maxima and not block.thresholds:
            del self.blocks[number]
            self._note_all()
        elif self.maxima:
            self._note(number)

    def before(self, threshold: Threshold, bisect: Bisect, found: list[Ids]) -> None:
        """Appends the members below a threshold (``bisect_left``), or up to and including it (``bisect_right``)."""
        number = 0
        if self.maxima:
            number = bisect(self.maxima, threshold)
            found += self._all_parts()[:number]
            if number == len(self.blocks):
                return
        block = self.blocks[number]
        place = bisect(block.thresholds, threshold)
        if place:
            found.append(block.fresh()[:place])

    def after(self, threshold: Threshold, bisect: Bisect, found: list[Ids]) -> None:
        """Appends the members above a threshold (``bisect_right``), or from it on (``bisect_left``)."""
        number = 0
        if self.maxima:
            number = bisect(self.maxima, threshold)
            if number == len(self.blocks):
                return
        block = self.blocks[number]
        place = bisect(block.thresholds, threshold)
        if place < len(block.thresholds):
            found.append(block.fresh()[place:])
        if self.maxima:
            found += self._all_parts()[number + 1 :]

    def everything(self, found: list[Ids]) -> None:
        """Appends all members."""
        if self.size:
            found += self._all_parts()

    def slices_before(self, threshold: Threshold, bisect: Bisect) -> Iterator[tuple[Ids, Columns]]:
        """Like ``before``, with the columns beside the members."""
        for block in self.blocks:
            place = bisect(block.thresholds, threshold)
            yield block.fresh()[:place], tuple([column[:place] for column in block.columns])
            if place < len(block.thresholds):
                return

    def slices_after(self, threshold: Threshold, bisect: Bisect) -> Iterator[tuple[Ids, Columns]]:
        """Like ``after``, with the columns beside the members."""
        for block in reversed(self.blocks):
            place = bisect(block.thresholds, threshold)
            yield block.fresh()[place:], tuple([column[place:] for column in block.columns])
            if place:
                return

    def members(self, *, backwards: bool) -> Iterator[tuple[list[Threshold], Ids]]:
        """Stretches of the chain with their thresholds, from either end."""
        for block in reversed(self.blocks) if backwards else self.blocks:
            yield block.thresholds, block.fresh()

    def check_invariants(self) -> None:
        """Fails if the order, the blocks or the tops are wrong."""
        pairs = [(t, int(i)) for block in self.blocks for t, i in zip(block.thresholds, block.fresh(), strict=True)]
        assert pairs == sorted(pairs)
        assert len(pairs) == self.size
        assert len(self.blocks) == 1 or all(0 < len(block.thresholds) <= BLOCK_MAX for block in self.blocks)
        assert self.maxima == ([block.thresholds[-1] for block in self.blocks] if len(self.blocks) > 1 else [])
        assert len(self._tops) == len(self.maxima)
        assert all(len(column) == len(block.fresh()) for block in self.blocks for column in block.columns)

    def _block_for(self, threshold: Threshold, subscription: int) -> int:
        if not self.maxima:
            return 0
        return min(bisect_left(self._tops, (threshold, subscription)), len(self.blocks) - 1)

    def _all_parts(self) -> list[Ids]:
        """The members of each block, gathered once after a change."""
        if self._parts is None:
            self._parts = [block.fresh() for block in self.blocks]
        return self._parts

    def _note(self, number: int) -> None:
        block = self.blocks[number]
        threshold = block.thresholds[-1]
        self.maxima[number] = threshold
        self._tops[number] = (threshold, block.last)

    def _note_all(self) -> None:
        several = len(self.blocks) > 1
        self.maxima = [block.thresholds[-1] for block in self.blocks] if several else []
        self._tops = [(block.thresholds[-1], block.last) for block in self.blocks] if several else []
