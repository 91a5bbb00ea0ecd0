"""The covering set (CSS): the most general of many selectors, kept up to date ([PADRES] section 2).

A broker asks its neighbours for the covering set of the selectors it was asked for: a selector that another one covers
need not be passed on. The unit of work is the conjunction, because the disjunction of all is what counts: a selector
with two conjunctions may be covered by two different others.

Additions and removals return the change of the set, ready to be sent on. When a selector leaves the set, those that it
alone kept out take its place in the same step; only the most general member of each group is looked at, so that a
hundred thousand covered selectors cost no more than their few groups.

Covering saves traffic, and nothing depends on it; so comparisons that would be too expensive are skipped. A conjunction
that would have to be compared with too many others becomes a *loner*: it is in the set, covers nothing, and costs
nothing to remove. Otherwise a few hundred selectors of different shapes, each with many alternatives, would keep a
broker busy for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.matching.covering import Effort, TooDearError, heads_covered_by, is_covered
from penstock.matching.errors import SubscriptionError
from penstock.matching.index import MatchIndex
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["ADD_LOOKS_MAX", "GROUPS_MAX", "REMOVE_LOOKS_MAX", "CoveringChange", "CoveringSet"]

ADD_LOOKS_MAX: Final = 1_024
"""The most fruitless looks at groups and members when a selector is added; some milliseconds."""
REMOVE_LOOKS_MAX: Final = 8_192
"""The most fruitless looks in one removal, for all conjunctions that take the place of the removed ones."""
GROUPS_MAX: Final = 16_384
"""The most groups that removing a selector may have to look at: all groups, for each of its conjunctions. If adding a
selector would exceed this, its conjunctions become loners."""


@dataclass(slots=True, frozen=True)
class CoveringChange:
    """How an addition or removal changed the covering set."""

    entered: tuple[Conjunction, ...] = ()
    left: tuple[Conjunction, ...] = ()


class CoveringSet:
    """Counted selectors, and the most general conjunctions among them.

    >>> wanted = CoveringSet()
    >>> print(*wanted.add(Selector.parse("class = 'STOCK' AND volume > 15")).entered)
    class = 'STOCK' AND volume > 15
    >>> wanted.add(Selector.parse("class = 'STOCK' AND volume > 150")).entered
    ()
    >>> change = wanted.remove(Selector.parse("class = 'STOCK' AND volume > 15"))
    >>> print(*change.entered)
    class = 'STOCK' AND volume > 150
    """

    __slots__ = ("_all", "_counts", "_free", "_is_minimal", "_loners", "_numbers", "_roots")

    def __init__(self) -> None:
        self._all = MatchIndex()
        self._roots = MatchIndex()
        self._numbers: dict[Conjunction, int] = {}
        self._counts: dict[Conjunction, int] = {}
        self._free: list[int] = []
        self._loners: dict[Conjunction, None] = {}
        self._is_minimal = True
        """Whether no removal was too expensive to examine in full."""

    def __len__(self) -> int:
        """How many conjunctions the covering set has."""
        return len(self._roots) + len(self._loners)

    def __iter__(self) -> Iterator[Conjunction]:
        """The conjunctions of the covering set."""
        yield from (self._roots.conjunctions(number)[0] for number in self._roots)
        yield from self._loners

    @property
    def loners(self) -> int:
        """How many conjunctions were too expensive to compare."""
        return len(self._loners)

    def add(self, selector: Selector) -> CoveringChange:
        """Adds one count of a selector; returns what enters the covering set, and what that displaces."""
        entered: dict[Conjunction, None] = {}
        left: dict[Conjunction, None] = {}
        effort = Effort(ADD_LOOKS_MAX)
        for conjunction in selector.conjunctions:
            self._counts[conjunction] = self._counts.get(conjunction, 0) + 1
            if self._counts[conjunction] == 1:
                self._enter(conjunction, entered, left, effort, len(selector.conjunctions))
        return CoveringChange(tuple(entered), tuple(left))

    def remove(self, selector: Selector) -> CoveringChange:
        """Removes one count of a selector; returns what leaves the covering set, and what takes its place."""
        return self.remove_all(selector.conjunctions)

    def remove_all(self, conjunctions: Sequence[Conjunction]) -> CoveringChange:
        """Removes one count of each conjunction, maybe not all of a selector's; returns what leaves and what enters."""
        missing = [each for each in conjunctions if each not in self._counts]
        if missing:
            raise SubscriptionError(f"selector {missing[0]} is not in the covering set")
        entered: dict[Conjunction, None] = {}
        left: dict[Conjunction, None] = {}
        effort = Effort(REMOVE_LOOKS_MAX)
        for conjunction in conjunctions:
            self._counts[conjunction] -= 1
            if not self._counts[conjunction]:
                del self._counts[conjunction]
                if conjunction in self._loners:
                    del self._loners[conjunction]
                    _note(conjunction, into=left, unless=entered)
                else:
                    self._leave_all(conjunction, entered, left, effort)
        return CoveringChange(tuple(entered), tuple(left))

    def check_invariants(self) -> None:
        """Fails if the covering set differs from what comparing all pairs gives."""
        every = [each for each in self._counts if each not in self._loners]
        compared = [self._roots.conjunctions(number)[0] for number in self._roots]
        roots = [each for each in every if not any(other is not each and other.covers(each) for other in every)]
        mutual = [each for each in every if any(o is not each and o.covers(each) and each.covers(o) for o in every)]
        assert mutual or not self._is_minimal or set(compared) == set(roots)
        assert all(any(root.covers(each) for root in compared) for each in every)
        assert self._loners.keys() <= self._counts.keys()
        assert not self._loners.keys() & self._numbers.keys()
        self._all.check_invariants()
        self._roots.check_invariants()

    def _enter(
        self,
        conjunction: Conjunction,
        entered: dict[Conjunction, None],
        left: dict[Conjunction, None],
        effort: Effort,
        alternatives: int,
    ) -> None:
        """Makes a new conjunction a member, or a loner if it would have to be compared with too many others."""
        try:
            if alternatives * self._all.groups >= GROUPS_MAX:
                raise TooDearError
            covered = None if self._is_kept_out(conjunction, effort) else self._covered_roots(conjunction, effort)
        except TooDearError:
            self._loners[conjunction] = None
            _note(conjunction, into=entered, unless=left)
            return
        number = self._free.pop() if self._free else len(self._numbers)
        self._numbers[conjunction] = number
        self._all.add_conjunctions(number, (conjunction,))
        if covered is not None:
            self._make_root(number, covered, entered, left)

    def _leave_all(
        self,
        conjunction: Conjunction,
        entered: dict[Conjunction, None],
        left: dict[Conjunction, None],
        effort: Effort,
    ) -> None:
        number = self._numbers.pop(conjunction)
        self._free.append(number)
        self._all.remove(number)
        if number not in self._roots:
            return
        self._roots.remove(number)
        _note(conjunction, into=left, unless=entered)
        # All of them, whatever the cost: one left out here would no longer be asked for.
        for head in heads_covered_by(self._all, conjunction):
            self._promote(head, entered, left, effort)

    def _promote(
        self, number: int, entered: dict[Conjunction, None], left: dict[Conjunction, None], effort: Effort
    ) -> None:
        """Makes a conjunction part of the covering set, unless it is covered; those it covers leave the set."""
        conjunction = self._all.conjunctions(number)[0]
        if number in self._roots:
            return
        covered: list[int] = []
        try:
            if self._is_kept_out(conjunction, effort):
                return
            covered = self._covered_roots(conjunction, effort)
        except TooDearError:
            # One too many in the set does no harm.
            self._is_minimal = False
        self._make_root(number, covered, entered, left)

    def _is_kept_out(self, conjunction: Conjunction, effort: Effort) -> bool:
        return is_covered(self._roots, conjunction, effort=effort)

    def _covered_roots(self, conjunction: Conjunction, effort: Effort) -> list[int]:
        # Roots do not cover each other: each of those covered is the head of its group.
        return heads_covered_by(self._roots, conjunction, effort=effort)

    def _make_root(
        self, number: int, covered: list[int], entered: dict[Conjunction, None], left: dict[Conjunction, None]
    ) -> None:
        for other in covered:
            _note(self._roots.conjunctions(other)[0], into=left, unless=entered)
            self._roots.remove(other)
        conjunction = self._all.conjunctions(number)[0]
        self._roots.add_conjunctions(number, (conjunction,))
        _note(conjunction, into=entered, unless=left)


def _note(conjunction: Conjunction, *, into: dict[Conjunction, None], unless: dict[Conjunction, None]) -> None:
    if conjunction in unless:
        del unless[conjunction]
    else:
        into[conjunction] = None
