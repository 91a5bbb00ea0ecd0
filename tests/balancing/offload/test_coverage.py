"""Covering relations while subscribers move."""

from __future__ import annotations

from penstock.balancing.offload.coverage import Coverage
from penstock.balancing.offload.instance import Interest
from penstock.selectors.selector import Selector


def interest(*texts: str) -> Interest:
    return Interest(" | ".join(texts), (1,), selectors=tuple(map(Selector.parse, texts)))


INTERESTS = [interest("a = 1"), interest("a = 1 AND b > 5"), interest("a = 1 AND b > 9"), interest("c = 1", "a = 2")]


def test_members_are_those_that_nobody_covers() -> None:
    coverage = Coverage(INTERESTS, [])
    assert coverage.members.tolist() == [True, False, False, True]
    coverage.leave(0)
    assert coverage.members.tolist() == [False, True, False, True]
    coverage.leave(1)
    assert coverage.members.tolist() == [False, False, True, True]


def test_who_left_before_anybody_asked_is_no_member() -> None:
    coverage = Coverage(INTERESTS, [])
    coverage.leave(0)
    assert coverage.members.tolist() == [False, True, False, True]


def test_the_partner_covers_what_it_has_and_what_arrives() -> None:
    partner = [one for text in ("b > 7",) for one in Selector.parse(text).conjunctions]
    coverage = Coverage(INTERESTS, partner)
    assert coverage.covered.tolist() == [False, False, True, False]
    assert coverage.arrive(0), "all others with a = 1 are covered now"
    assert coverage.covered.tolist() == [True, True, True, False]
    assert not coverage.arrive(3)
    assert coverage.covered.tolist() == [True, True, True, True]


def test_of_several_selectors_all_must_be_covered() -> None:
    both = [one for text in ("c = 1", "a > 0") for one in Selector.parse(text).conjunctions]
    assert Coverage(INTERESTS, both[:1]).covered.tolist() == [False, False, False, False]
    assert Coverage(INTERESTS, both).covered.tolist() == [True, True, True, True]
