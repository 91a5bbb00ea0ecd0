"""Finds the links that have a matching member in a chain, at a cost independent of the number of members.

Of all the members that came from one link, only the most general threshold matters for the question "does this link
want the message". So a chain keeps one threshold per link, and a staircase over these: sorted thresholds with the set
of links that want a value on each step, as a bitmap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.matching.chain import Bisect, Chain
from penstock.matching.plan import Threshold

__all__ = ["LinkStairs"]

_FIRST_LOOK = 128


class LinkStairs:
    """The links of one chain's members.

    ``ascending``: members match values above their threshold, so a link's lowest threshold counts; else its highest.
    """

    __slots__ = ("_ascending", "_counts", "_extremes", "_masks", "_steps", "_threshold_matters", "mask")

    def __init__(self, *, ascending: bool, threshold_matters: bool) -> None:
        self._ascending = ascending
        self._threshold_matters = threshold_matters
        self._counts: dict[int, int] = {}
        self._extremes: dict[int, Threshold] = {}
        self._steps: list[Threshold] | None = None
        self._masks: list[int] = []
        self.mask = 0
        """All links that have members here."""

    def add(self, link: int, threshold: Threshold) -> None:
        """A member of this link has joined the chain."""
        count = self._counts.get(link, 0)
        self._counts[link] = count + 1
        if not count:
            self.mask |= 1 << link
        elif not self._threshold_matters or not self._more_general(threshold, self._extremes[link]):
            return
        self._extremes[link] = threshold
        self._steps = None

    def remove(self, link: int, threshold: Threshold, chain: Chain, link_of: npt.NDArray[np.uint16]) -> None:
        """A member of this link has left the chain (and is no longer in it)."""
        self._counts[link] -= 1
        if not self._counts[link]:
            del self._counts[link], self._extremes[link]
            self.mask &= ~(1 << link)
            self._steps = None
        elif self._threshold_matters and threshold == self._extremes[link]:
            self._extremes[link] = self._search(link, chain, link_of)
            self._steps = None

    def at(self, value: Threshold, bisect: Bisect) -> int:
        """The links that want this value."""
        if self._steps is None:
            self._build()
        assert self._steps is not None
        return self._masks[bisect(self._steps, value)]

    def _build(self) -> None:
        ordered = sorted(self._extremes.items(), key=lambda each: each[1])
        self._steps = [threshold for _, threshold in ordered]
        masks, mask = [0], 0
        for link, _ in ordered if self._ascending else reversed(ordered):
            mask |= 1 << link
            masks.append(mask)
        self._masks = masks if self._ascending else masks[::-1]

    def _more_general(self, threshold: Threshold, other: Threshold) -> bool:
        # A chain's thresholds are all texts or all numbers, which the type checker cannot see.
        return threshold < other if self._ascending else threshold > other  # type: ignore[operator]

    def _search(self, link: int, chain: Chain, link_of: npt.NDArray[np.uint16]) -> Threshold:
        """The most general threshold of a link that is known to have members."""
        for thresholds, ids in chain.members(backwards=not self._ascending):
            size = len(thresholds)
            # Links are usually mixed: a short look at the general end finds most of them.
            for looked in (min(size, _FIRST_LOOK), size):
                part = ids[:looked] if self._ascending else ids[size - looked :]
                hits = np.flatnonzero(link_of[part] == link)
                if hits.size:
                    place = int(hits[0]) if self._ascending else size - looked + int(hits[-1])
                    return thresholds[place]
        raise AssertionError(f"link {link} has members but none was found")
