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


def test_an_interest_is_a_member_as_long_as_one_of_its_selectors_is() -> None:
    interests = [interest("a = 1"), interest("c = 1", "a = 1 AND b > 7")]
    assert Coverage(interests, []).members.tolist() == [True, True]


def test_members_are_found_anew_if_one_of_several_selectors_that_leave_covered_something() -> None:
    interests = [interest("x = 1"), interest("x = 1 AND y = 1", "c = 1"), interest("c = 1 AND d = 1")]
    coverage = Coverage(interests, [])
    assert coverage.members.tolist() == [True, True, False]
    coverage.leave(1)
    assert coverage.members.tolist() == [True, False, True]


def test_what_arrives_may_cover_the_last_of_several_selectors() -> None:
    interests = [interest("c = 1"), interest("c = 1 AND d = 1", "a = 1")]
    coverage = Coverage(interests, Selector.parse("a = 1").conjunctions)
    assert coverage.covered.tolist() == [False, False]
    assert coverage.arrive(0)
    assert coverage.covered.tolist() == [True, True]
