from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching.chain import Bisect, Chain
from penstock.matching.group import Group
from penstock.matching.links import LinkStairs
from penstock.matching.plan import Bound, GroupKey, Threshold

LEFT: Bisect = bisect_left
RIGHT: Bisect = bisect_right

Wants = Callable[[Threshold, Threshold], bool]
Step = tuple[int, int, Threshold]

# What the operator means, and how a search for it bisects.
OPERATORS: dict[str, tuple[Wants, Bisect]] = {
    ">": (operator.gt, LEFT),
    ">=": (operator.ge, RIGHT),
    "<": (operator.lt, RIGHT),
    "<=": (operator.le, LEFT),
}
LINKS = (0, 1, 2, 5, 63, 64, 65535)
NUMBERS: list[Threshold] = [-7, 0, 0.5, 1, 1.5, 2, 3, 2**53, 2**53 + 1, -(2**63), 1e300]
PROBES: list[Threshold] = [*NUMBERS, -8, 1.0, 2.5, float(2**53), 10**400, -(10**400), float("inf"), float("-inf")]
TEXTS: list[Threshold] = ["", "a", "ab", "b", "\U0010ffff"]

every_operator = pytest.mark.parametrize("name", list(OPERATORS))


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.matching.chain.BLOCK_MAX", 4)
        yield


class Stairs:
    """A chain with the links of its members, and the same members as a plain dictionary."""

    def __init__(self, name: str) -> None:
        self.wants, self.bisect = OPERATORS[name]
        self.chain = Chain()
        self.links = LinkStairs(ascending=name[0] == ">", threshold_matters=True)
        self.link_of = np.zeros(1024, np.uint16)
        self.members: dict[int, tuple[int, Threshold]] = {}

    def add(self, number: int, link: int, threshold: Threshold) -> None:
        self.members[number] = (link, threshold)
        self.link_of[number] = link
        self.chain.insert(threshold, number)
        self.links.add(link, threshold)

    def remove(self, number: int) -> None:
        link, threshold = self.members.pop(number)
        self.chain.delete(threshold, number)
        self.links.remove(link, threshold, self.chain, self.link_of)

    def check(self, probes: list[Threshold]) -> None:
        assert self.links.mask == bitmap(link for link, _ in self.members.values())
        for probe in probes:
            wanted = bitmap(link for link, threshold in self.members.values() if self.wants(probe, threshold))
            assert self.links.at(probe, self.bisect) == wanted


def bitmap(links: Iterator[int]) -> int:
    return sum(1 << link for link in set(links))


def steps(thresholds: list[Threshold]) -> st.SearchStrategy[list[Step]]:
    return st.lists(
        st.tuples(st.integers(0, 15), st.sampled_from(LINKS), st.sampled_from(thresholds)), min_size=1, max_size=50
    )


def toggle(stairs: Stairs, step: Step) -> None:
    if step[0] in stairs.members:
        stairs.remove(step[0])
    else:
        stairs.add(*step)


@every_operator
@settings(max_examples=100)
@given(history=steps(NUMBERS))
def test_the_links_that_want_a_number_are_those_of_the_members_that_match_it(name: str, history: list[Step]) -> None:
    stairs = Stairs(name)
    for step in history:
        toggle(stairs, step)
        stairs.check(PROBES)


@every_operator
@settings(max_examples=50)
@given(history=steps(TEXTS))
def test_the_links_that_want_a_text_are_those_of_the_members_that_match_it(name: str, history: list[Step]) -> None:
    stairs = Stairs(name)
    for step in history:
        toggle(stairs, step)
        stairs.check([*TEXTS, "aa", "c"])


@every_operator
@settings(max_examples=100)
@given(history=steps(NUMBERS))
def test_links_are_right_at_last_though_nobody_asked_on_the_way(name: str, history: list[Step]) -> None:
    stairs = Stairs(name)
    for step in history:
        toggle(stairs, step)
    stairs.check(PROBES)


@every_operator
def test_the_search_bisects_as_a_group_with_this_operator_does(name: str) -> None:
    group = Group(GroupKey((Bound("a", name, text=False),), (), spread=False, repeated=False))
    assert group.bisect is OPERATORS[name][1]
    assert group.ascending == (name[0] == ">")


@every_operator
def test_without_members_no_link_wants_anything(name: str) -> None:
    Stairs(name).check(PROBES)


@every_operator
def test_a_link_that_lost_its_most_general_member_has_its_next_one(name: str) -> None:
    stairs = Stairs(name)
    for number, threshold in enumerate([5, 1, 9, 3, 7]):
        stairs.add(number, 1, threshold)
        stairs.add(number + 5, 2, threshold)
    for number in (1, 2, 3, 4, 0):
        stairs.remove(number)
        stairs.check(list(range(11)))
    assert stairs.links.mask == 1 << 2


@every_operator
def test_one_of_two_equally_general_members_may_go(name: str) -> None:
    stairs = Stairs(name)
    stairs.add(1, 3, 5)
    stairs.add(2, 3, 5)
    stairs.remove(1)
    stairs.check([4, 5, 6])
    assert stairs.links.mask == 1 << 3


# Long enough that the next member of a link is now within the first look at a block, now beyond it or the block.
@every_operator
@pytest.mark.parametrize("block_max", [4, 200, 4096])
def test_the_next_member_of_a_link_is_found_however_far_it_is(
    name: str, block_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.matching.chain.BLOCK_MAX", block_max)
    stairs = Stairs(name)
    for number in range(600):
        stairs.add(number, 1, number)
    for number, threshold in enumerate([-1, 50, 200, 400, 550, 600], start=600):
        stairs.add(number, 2, threshold)
    near_steps: list[Threshold] = [each + by for each in (-1, 50, 200, 400, 550, 600) for by in (-1, 0, 1)]
    stairs.check(near_steps)
    for number in (600, 605, 601, 604, 602):
        stairs.remove(number)
        stairs.check(near_steps)


def test_a_link_that_comes_again_starts_afresh() -> None:
    stairs = Stairs(">")
    stairs.add(1, 3, 5)
    stairs.remove(1)
    stairs.add(1, 3, 8)
    stairs.check([5, 6, 8, 9])


def test_where_thresholds_do_not_matter_a_link_stays_as_long_as_it_has_members() -> None:
    links, chain, link_of = LinkStairs(ascending=True, threshold_matters=False), Chain(), np.zeros(8, np.uint16)
    for number, link in enumerate([3, 3, 5]):
        link_of[number] = link
        chain.insert(0, number)
        links.add(link, 0)
    assert links.mask == 1 << 3 | 1 << 5
    for number, mask in [(0, 1 << 3 | 1 << 5), (1, 1 << 5), (2, 0)]:
        chain.delete(0, number)
        links.remove(int(link_of[number]), 0, chain, link_of)
        assert links.mask == mask


def test_a_link_without_any_members_in_the_chain_is_a_broken_invariant() -> None:
    links = LinkStairs(ascending=True, threshold_matters=True)
    links.add(3, 5)
    links.add(3, 6)
    with pytest.raises(AssertionError, match="link 3 has members but none was found"):
        links.remove(3, 5, Chain(), np.zeros(8, np.uint16))
