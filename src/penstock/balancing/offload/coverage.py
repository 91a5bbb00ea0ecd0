"""Tracks covering while subscribers move: this broker's covering set, and what the partner's covers.

[PADRES] sections 2 and 5: only members of the covering set reduce the input of a broker when they leave;
interests that the partner's covering set covers add nothing to its input. Both sets change with every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.balancing.offload.instance import Interest
from penstock.matching.covering import is_covered
from penstock.matching.covering_set import CoveringSet
from penstock.matching.index import MatchIndex
from penstock.selectors.normal_form import Conjunction

__all__ = ["Coverage"]


class Coverage:
    """The covering relations that the offload algorithms ask for."""

    def __init__(self, interests: Sequence[Interest], partner: Iterable[Conjunction]) -> None:
        self._interests = interests
        self._partner = MatchIndex()
        for number, conjunction in enumerate(dict.fromkeys(partner)):
            self._partner.add_conjunctions(number, (conjunction,))
        self._numbers = len(self._partner)
        self.covered: npt.NDArray[np.bool_] = np.array([self._is_covered(each) for each in interests], np.bool_)
        """Whether the covering set of the partner covers each interest."""
        self._own: CoveringSet | None = None
        self._members: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._gone: dict[int, None] = {}

    @property
    def members(self) -> npt.NDArray[np.bool_]:
        """Which interests are in this broker's covering set; computed on first use."""
        if self._own is None:
            self._own = CoveringSet()
            for place, interest in enumerate(self._interests):
                if place not in self._gone:
                    for selector in interest.selectors:
                        self._own.add(selector)
            self._find_members()
        return self._members

    def leave(self, place: int) -> None:
        """Drop an interest that no subscriber here has any more; the interests it covered take its place."""
        self._gone[place] = None
        if self._own is not None:
            changes = [self._own.remove(selector) for selector in self._interests[place].selectors]
            if any(change.entered or change.left for change in changes):
                self._find_members()

    def arrive(self, place: int) -> bool:
        """Give the partner an interest; returns whether it now covers more of the interests here."""
        arrived = self._interests[place].conjunctions
        for conjunction in arrived:
            self._partner.add_conjunctions(self._numbers, (conjunction,))
            self._numbers += 1
        before = int(self.covered.sum()) + (0 if self.covered[place] else 1)
        self.covered[place] = True
        for other in np.flatnonzero(~self.covered).tolist():
            interest = self._interests[other]
            if any(one.covers(each) for one in arrived for each in interest.conjunctions):
                self.covered[other] = self._is_covered(interest)
        return int(self.covered.sum()) > before

    def _is_covered(self, interest: Interest) -> bool:
        return bool(interest.conjunctions) and all(is_covered(self._partner, each) for each in interest.conjunctions)

    def _find_members(self) -> None:
        assert self._own is not None
        roots = dict.fromkeys(self._own)
        self._members = np.array(
            [
                place not in self._gone and any(one in roots for one in each.conjunctions)
                for place, each in enumerate(self._interests)
            ],
            np.bool_,
        )
