"""Sorted thresholds with the subscriptions that have them, in blocks: one bisection finds all that match.

The members of a chain differ only in their thresholds. Those of ``volume > x`` that match volume 500 are the ones
with x below 500: a beginning of the chain. Blocks bound the cost of an insertion, whatever the length of the chain.
Members with equal thresholds are ordered by subscription, so that each is found again by bisection.

A chain may have *columns*: further thresholds of each member, in the same order, for bounds beyond the first.
A chain without thresholds of its own (all members alike) keeps 0 for each: the same code, eight bytes a member.
"""

from __future__ import annotations

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

_FIRST_CAPACITY: Final = 4


class _Block:
    """A stretch of a chain: thresholds as a list (bisection is fastest there), the rest as arrays with room to grow."""

    __slots__ = ("_capacity", "_columns", "_ids", "columns", "ids", "thresholds")

    def __init__(self, thresholds: list[Threshold], ids: Ids, columns: Columns) -> None:
        self.thresholds = thresholds
        self._capacity = max(_FIRST_CAPACITY, len(thresholds))
        self._ids = np.resize(ids, self._capacity) if len(ids) else np.zeros(self._capacity, np.uint32)
        self._columns = tuple(
            np.resize(column, self._capacity) if len(column) else np.zeros(self._capacity) for column in columns
        )
        self._refresh()

    def _refresh(self) -> None:
        size = len(self.thresholds)
        self.ids: Ids = self._ids[:size]
        self.columns: Columns = tuple([column[:size] for column in self._columns]) if self._columns else ()

    def place_of(self, threshold: Threshold, subscription: int) -> int:
        """Where the member is, or would be."""
        thresholds = self.thresholds
        first = bisect_left(thresholds, threshold)
        if first == len(thresholds) or thresholds[first] != threshold:
            return first
        last = bisect_right(thresholds, threshold, first)
        ids = self.ids
        if subscription > ids[last - 1]:
            return last
        # Of the same type as the array: else searchsorted would convert, and so copy, all of it.
        return first + int(ids[first:last].searchsorted(np.uint32(subscription)))

    def insert(self, place: int, threshold: Threshold, subscription: int, extra: tuple[float, ...]) -> None:
        size = len(self.thresholds)
        if size == self._capacity:
            self._grow()
        self.thresholds.insert(place, threshold)
        ids = self._ids
        if place != size:
            ids[place + 1 : size + 1] = ids[place:size]
        ids[place] = subscription
        if extra:
            for column, value in zip(self._columns, extra, strict=True):
                column[place + 1 : size + 1] = column[place:size]
                column[place] = value
        self._refresh()

    def delete(self, place: int) -> None:
        size = len(self.thresholds)
        del self.thresholds[place]
        self._ids[place : size - 1] = self._ids[place + 1 : size]
        for column in self._columns:
            column[place : size - 1] = column[place + 1 : size]
        self._refresh()

    def split(self) -> _Block:
        """Takes the second half out, into a block of its own."""
        half = len(self.thresholds) // 2
        second = _Block(self.thresholds[half:], self.ids[half:], tuple(column[half:] for column in self.columns))
        del self.thresholds[half:]
        self._refresh()
        return second

    def _grow(self) -> None:
        self._capacity *= 2
        self._ids = np.resize(self._ids, self._capacity)
        self._columns = tuple(np.resize(column, self._capacity) for column in self._columns)


class Chain:
    """Members in the order of their thresholds."""

    __slots__ = ("_tops", "blocks", "maxima", "parts", "size")

    def __init__(self, columns: int = 0) -> None:
        empty = tuple(np.zeros(0) for _ in range(columns))
        self.blocks = [_Block([], np.zeros(0, np.uint32), empty)]
        self.parts: list[Ids] = [self.blocks[0].ids]
        """The members of each block."""
        self.maxima: list[Threshold] = []
        """The last threshold of each block, if there are several."""
        self._tops: list[tuple[Threshold, int]] = []
        self.size = 0

    def insert(self, threshold: Threshold, subscription: int, extra: tuple[float, ...] = ()) -> None:
        """Adds a member; one that is there already is there twice, and must be deleted twice."""
        number = self._block_for(threshold, subscription)
        block = self.blocks[number]
        block.insert(block.place_of(threshold, subscription), threshold, subscription, extra)
        self.size += 1
        if len(block.thresholds) > BLOCK_MAX:
            self.blocks.insert(number + 1, block.split())
            self._note_all()
        else:
            self._note(number)

    def delete(self, threshold: Threshold, subscription: int) -> None:
        """Removes a member, which must be there."""
        number = self._block_for(threshold, subscription)
        block = self.blocks[number]
        place = block.place_of(threshold, subscription)
        assert place < len(block.thresholds), f"{subscription} is not in the chain"
        assert block.thresholds[place] == threshold, f"{subscription} is not in the chain"
        assert block.ids[place] == subscription, f"{subscription} is not in the chain"
        block.delete(place)
        self.size -= 1
        if self.maxima and not block.thresholds:
            del self.blocks[number]
            self._note_all()
        else:
            self._note(number)

    def before(self, threshold: Threshold, bisect: Bisect, found: list[Ids]) -> None:
        """Appends the members below a threshold (``bisect_left``), or up to and including it (``bisect_right``)."""
        number = 0
        if self.maxima:
            number = bisect(self.maxima, threshold)
            found += self.parts[:number]
            if number == len(self.blocks):
                return
        block = self.blocks[number]
        place = bisect(block.thresholds, threshold)
        if place:
            found.append(block.ids[:place])

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
            found.append(block.ids[place:])
        if self.maxima:
            found += self.parts[number + 1 :]

    def everything(self, found: list[Ids]) -> None:
        """Appends all members."""
        if self.size:
            found += self.parts

    def slices_before(self, threshold: Threshold, bisect: Bisect) -> Iterator[tuple[Ids, Columns]]:
        """Like ``before``, with the columns beside the members."""
        for block in self.blocks:
            place = bisect(block.thresholds, threshold)
            yield block.ids[:place], tuple([column[:place] for column in block.columns])
            if place < len(block.thresholds):
                return

    def slices_after(self, threshold: Threshold, bisect: Bisect) -> Iterator[tuple[Ids, Columns]]:
        """Like ``after``, with the columns beside the members."""
        for block in reversed(self.blocks):
            place = bisect(block.thresholds, threshold)
            yield block.ids[place:], tuple([column[place:] for column in block.columns])
            if place:
                return

    def members(self, *, backwards: bool) -> Iterator[tuple[list[Threshold], Ids]]:
        """Stretches of the chain with their thresholds, from either end."""
        for block in reversed(self.blocks) if backwards else self.blocks:
            yield block.thresholds, block.ids

    def check_invariants(self) -> None:
        """Fails if the order, the blocks or the tops are not as they should be."""
        pairs = [(t, int(i)) for block in self.blocks for t, i in zip(block.thresholds, block.ids, strict=True)]
        assert pairs == sorted(pairs)
        assert len(pairs) == self.size
        assert len(self.blocks) == 1 or all(0 < len(block.thresholds) <= BLOCK_MAX for block in self.blocks)
        assert self.maxima == ([block.thresholds[-1] for block in self.blocks] if len(self.blocks) > 1 else [])
        assert len(self._tops) == len(self.maxima)
        assert all(part is block.ids for part, block in zip(self.parts, self.blocks, strict=True))
        assert all(len(column) == len(block.ids) for block in self.blocks for column in block.columns)

    def _block_for(self, threshold: Threshold, subscription: int) -> int:
        if not self.maxima:
            return 0
        return min(bisect_left(self._tops, (threshold, subscription)), len(self.blocks) - 1)

    def _note(self, number: int) -> None:
        block = self.blocks[number]
        self.parts[number] = block.ids
        if self.maxima:
            threshold = block.thresholds[-1]
            self.maxima[number] = threshold
            self._tops[number] = (threshold, int(block.ids[-1]))

    def _note_all(self) -> None:
        several = len(self.blocks) > 1
        self.parts = [block.ids for block in self.blocks]
        self.maxima = [block.thresholds[-1] for block in self.blocks] if several else []
        self._tops = [(block.thresholds[-1], int(block.ids[-1])) for block in self.blocks] if several else []
