"""The covering set (CSS): the most general of many selectors, kept up to date ([PADRES] section 2).

What a broker asks of its neighbours is the covering set of what it was asked for: a selector that another one covers
need not be passed on. Work is in conjunctions, because their disjunction is what counts: a selector with two
conjunctions may be covered by two different others.

Additions and removals answer with the change of the set, ready to be sent on. When a selector leaves the set, those
that it alone kept out take its place in the same step; only the most general member of each group is looked at, so
that a hundred thousand covered selectors cost what their few groups cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.matching.covering import heads_covered_by, is_covered
from penstock.matching.errors import SubscriptionError
from penstock.matching.index import MatchIndex
from penstock.selectors.normal_form import Conjunction
from penstock.selectors.selector import Selector

__all__ = ["CoveringChange", "CoveringSet"]


@dataclass(slots=True, frozen=True)
class CoveringChange:
    """What an addition or a removal did to the covering set."""

    entered: tuple[Conjunction, ...] = ()
    left: tuple[Conjunction, ...] = ()


class CoveringSet:
    """Selectors, counted, and the most general conjunctions among them.

    >>> wanted = CoveringSet()
    >>> print(*wanted.add(Selector.parse("class = 'STOCK' AND volume > 15")).entered)
    class = 'STOCK' AND volume > 15
    >>> wanted.add(Selector.parse("class = 'STOCK' AND volume > 150")).entered
    ()
    >>> change = wanted.remove(Selector.parse("class = 'STOCK' AND volume > 15"))
    >>> print(*change.entered)
    class = 'STOCK' AND volume > 150
    """

    __slots__ = ("_all", "_counts", "_free", "_numbers", "_roots")

    def __init__(self) -> None:
        self._all = MatchIndex()
        self._roots = MatchIndex()
        self._numbers: dict[Conjunction, int] = {}
        self._counts: dict[Conjunction, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many conjunctions the covering set has."""
        return len(self._roots)

    def __iter__(self) -> Iterator[Conjunction]:
        """The conjunctions of the covering set."""
        return (self._roots.conjunctions(number)[0] for number in self._roots)

    def add(self, selector: Selector) -> CoveringChange:
        """Counts a selector in; says what is new in the covering set, and what the new ones cover."""
        entered: dict[Conjunction, None] = {}
        left: dict[Conjunction, None] = {}
        for conjunction in selector.conjunctions:
            self._counts[conjunction] = self._counts.get(conjunction, 0) + 1
            if self._counts[conjunction] == 1:
                self._enter_all(conjunction)
                self._promote(self._numbers[conjunction], entered, left)
        return CoveringChange(tuple(entered), tuple(left))

    def remove(self, selector: Selector) -> CoveringChange:
        """Counts a selector out; says what leaves the covering set, and what takes its place."""
        missing = [each for each in selector.conjunctions if each not in self._counts]
        if missing:
            raise SubscriptionError(f"selector {missing[0]} is not in the covering set")
        entered: dict[Conjunction, None] = {}
        left: dict[Conjunction, None] = {}
        for conjunction in selector.conjunctions:
            self._counts[conjunction] -= 1
            if not self._counts[conjunction]:
                self._leave_all(conjunction, entered, left)
        return CoveringChange(tuple(entered), tuple(left))

    def check_invariants(self) -> None:
        """Fails if the covering set is not what a comparison of all pairs says."""
        every = list(self._counts)
        roots = [each for each in every if not any(other is not each and other.covers(each) for other in every)]
        mutual = [each for each in every if any(o is not each and o.covers(each) and each.covers(o) for o in every)]
        assert mutual or set(self) == set(roots)
        assert all(any(root.covers(each) for root in self) for each in every)
        self._all.check_invariants()
        self._roots.check_invariants()

    def _enter_all(self, conjunction: Conjunction) -> None:
        number = self._free.pop() if self._free else len(self._numbers)
        self._numbers[conjunction] = number
        self._all.add_conjunctions(number, (conjunction,))

    def _leave_all(
        self, conjunction: Conjunction, entered: dict[Conjunction, None], left: dict[Conjunction, None]
    ) -> None:
        del self._counts[conjunction]
        number = self._numbers.pop(conjunction)
        self._free.append(number)
        self._all.remove(number)
        if number not in self._roots:
            return
        self._roots.remove(number)
        _note(conjunction, into=left, unless=entered)
        for head in heads_covered_by(self._all, conjunction):
            self._promote(head, entered, left)

    def _promote(self, number: int, entered: dict[Conjunction, None], left: dict[Conjunction, None]) -> None:
        """Makes a conjunction part of the covering set, unless it is covered; what it covers leaves the set."""
        conjunction = self._all.conjunctions(number)[0]
        if number in self._roots or is_covered(self._roots, conjunction):
            return
        # Roots do not cover each other: each of those covered is the head of its group.
        for other in heads_covered_by(self._roots, conjunction):
            _note(self._roots.conjunctions(other)[0], into=left, unless=entered)
            self._roots.remove(other)
        self._roots.add_conjunctions(number, (conjunction,))
        _note(conjunction, into=entered, unless=left)


def _note(conjunction: Conjunction, *, into: dict[Conjunction, None], unless: dict[Conjunction, None]) -> None:
    if conjunction in unless:
        del unless[conjunction]
    else:
        into[conjunction] = None
