"""Sets of ticks kept as ranges, held against plain Python sets of integers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.model.tick import TICK_MAX, TickRange
from penstock.model.tick_ranges import TickRanges
from strategies import tries

DOMAIN = 40

ticks = st.integers(0, DOMAIN - 1)
pairs = st.tuples(ticks, ticks).map(lambda pair: (min(pair), max(pair)))
pair_lists = st.lists(pairs, max_size=12)
sets = pair_lists.map(lambda chosen: TickRanges.of(*chosen))


def span(first: int, last: int) -> set[int]:
    return set(range(first, last + 1))


def flat(ranges: Iterable[tuple[int, int]]) -> set[int]:
    """The ticks of ranges that must be in order, apart from each other and not empty."""
    listed = list(ranges)
    assert all(first <= last for first, last in listed)
    assert all(last + 1 < following for (_, last), (following, _) in pairwise(listed))
    return {tick for first, last in listed for tick in span(first, last)}


class TickRangesAgainstASet(RuleBasedStateMachine):
    """Does the same to ranges and to a plain set, and compares every answer."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges = TickRanges()
        self.model: set[int] = set()

    @rule(pair=pairs)
    def add(self, pair: tuple[int, int]) -> None:
        self.ranges.add(*pair)
        self.model |= span(*pair)

    @rule(gap=st.integers(0, 3), length=st.integers(1, 3))
    def append(self, gap: int, length: int) -> None:
        first = max(self.model, default=-1) + 1 + gap
        if first + length <= DOMAIN:
            self.ranges.add(first, first + length - 1)
            self.model |= span(first, first + length - 1)

    @rule(pair=pairs)
    def remove(self, pair: tuple[int, int]) -> None:
        self.ranges.remove(*pair)
        self.model -= span(*pair)

    @rule(tick=st.integers(-1, DOMAIN // 4))
    def remove_below(self, tick: int) -> None:
        self.ranges.remove_below(tick)
        self.model = {each for each in self.model if each >= tick}

    @rule(other=pair_lists)
    def update(self, other: list[tuple[int, int]]) -> None:
        self.ranges.update(TickRanges.of(*other))
        self.model.update(*(span(*pair) for pair in other))

    @rule(other=pair_lists)
    def difference_update(self, other: list[tuple[int, int]]) -> None:
        self.ranges.difference_update(TickRanges.of(*other))
        self.model.difference_update(*(span(*pair) for pair in other))

    @rule()
    def go_on_with_a_copy(self) -> None:
        original, self.ranges = self.ranges, self.ranges.copy()
        original.clear()
        assert not original

    @rule(pair=pairs)
    def ask_about_a_range(self, pair: tuple[int, int]) -> None:
        asked = span(*pair)
        assert self.ranges.contains_range(*pair) == (asked <= self.model)
        assert self.ranges.overlaps(*pair) == bool(asked & self.model)
        assert flat(self.ranges.within(*pair)) == asked & self.model
        assert flat(self.ranges.gaps(*pair)) == asked - self.model

    @rule(tick=st.integers(-2, DOMAIN + 2))
    def ask_about_a_tick(self, tick: int) -> None:
        assert self.ranges.contains(tick) == (tick in self.model)
        assert self.ranges.first_missing(tick) == min(span(tick, DOMAIN + 3) - self.model)

    @invariant()
    def the_ranges_are_the_set(self) -> None:
        self.ranges.check_invariants()
        assert flat(self.ranges) == self.model
        assert self.ranges.tick_count == len(self.model)
        assert self.ranges.range_count == len(list(self.ranges))
        assert self.ranges.first == min(self.model, default=None)
        assert self.ranges.last == max(self.model, default=None)
        assert bool(self.ranges) == bool(self.model)


TestTickRangesAgainstASet = TickRangesAgainstASet.TestCase
TestTickRangesAgainstASet.settings = settings(max_examples=tries(200), stateful_step_count=40, deadline=None)


@given(sets, sets)
def test_union_intersection_and_difference_are_those_of_sets(one: TickRanges, other: TickRanges) -> None:
    before = (one.copy(), other.copy())
    for made, expected in [
        (one.union(other), flat(one) | flat(other)),
        (one.intersection(other), flat(one) & flat(other)),
        (one.difference(other), flat(one) - flat(other)),
    ]:
        made.check_invariants()
        assert flat(made) == expected
    assert (one, other) == before


@given(sets, sets, sets)
def test_the_laws_of_sets_hold(a: TickRanges, b: TickRanges, c: TickRanges) -> None:
    assert a.union(b) == b.union(a)
    assert a.intersection(b) == b.intersection(a)
    assert a.union(b.union(c)) == a.union(b).union(c)
    assert a.intersection(b.union(c)) == a.intersection(b).union(a.intersection(c))
    assert a.difference(b.union(c)) == a.difference(b).intersection(a.difference(c))
    assert a.difference(b).union(a.intersection(b)) == a
    assert a.union(a) == a.intersection(a) == a
    assert not a.difference(a)


@given(sets, pairs)
def test_gaps_and_what_is_within_make_up_the_range_and_share_nothing(a: TickRanges, pair: tuple[int, int]) -> None:
    pieces = sorted([*a.gaps(*pair), *a.within(*pair)])
    assert pieces[0].first == pair[0]
    assert pieces[-1].last == pair[1]
    assert all(piece.last + 1 == following.first for piece, following in pairwise(pieces))


@given(pair_lists, st.randoms(use_true_random=False))
def test_equal_sets_have_equal_ranges_in_whatever_order_they_were_filled(
    chosen: list[tuple[int, int]], rng: Random
) -> None:
    shuffled = TickRanges()
    for first, last in rng.sample(chosen, len(chosen)):
        shuffled.add(first, last)
    single = TickRanges()
    for tick in rng.sample(range(DOMAIN), DOMAIN):
        if any(first <= tick <= last for first, last in chosen):
            single.add(tick, tick)
    assert shuffled == single == TickRanges.of(*chosen)


@given(sets)
def test_a_set_combined_with_itself_in_place_is_itself_or_empty(a: TickRanges) -> None:
    before = a.copy()
    a.update(a)
    assert a == before
    a.difference_update(a)
    assert not a


@given(sets)
def test_the_representation_makes_the_set_again(a: TickRanges) -> None:
    if a.range_count <= 8:
        assert eval(repr(a)) == a  # noqa: S307


@pytest.mark.parametrize("seed", range(4))
def test_a_large_set_under_random_changes_is_the_same_as_a_plain_set(seed: int) -> None:
    rng, ranges, model, size = Random(seed), TickRanges(), bytearray(20_000), 20_000
    for _ in range(5_000):
        first = rng.randrange(size)
        last = min(size - 1, first + rng.randrange(rng.choice([1, 3, 40])))
        wanted = rng.random() < 0.55
        (ranges.add if wanted else ranges.remove)(first, last)
        model[first : last + 1] = bytes([wanted]) * (last + 1 - first)
        probe = rng.randrange(size)
        assert ranges.contains(probe) == bool(model[probe])
    ranges.check_invariants()
    assert ranges.range_count > 500
    assert flat(ranges) == {tick for tick in range(size) if model[tick]}


@pytest.mark.parametrize("few", [3, 2_000])
def test_a_set_of_few_or_many_ranges_is_added_to_and_taken_from_a_large_one_alike(few: int) -> None:
    rng = Random(few)
    large = TickRanges.of(*((tick, tick + rng.randrange(6)) for tick in range(0, 60_000, 10)))
    small = TickRanges.of(*((tick, tick + rng.randrange(60)) for tick in rng.sample(range(60_000), few)))
    for change, combine in [("update", "union"), ("difference_update", "difference")]:
        changed = large.copy()
        getattr(changed, change)(small)
        changed.check_invariants()
        assert changed == getattr(large, combine)(small)


def test_ranges_that_touch_become_one() -> None:
    ranges = TickRanges.of((1, 2), (5, 6))
    ranges.add(3, 4)
    assert list(ranges) == [(1, 6)]


def test_removing_the_middle_leaves_both_ends() -> None:
    ranges = TickRanges.of((1, 9))
    ranges.remove(4, 6)
    assert list(ranges) == [(1, 3), (7, 9)]


def test_iteration_and_queries_give_tick_ranges() -> None:
    ranges = TickRanges.of((1, 3), (7, 9))
    for found in (list(ranges), list(ranges.within(2, 8)), list(ranges.gaps(0, 20))):
        assert all(type(each) is TickRange for each in found)
    assert list(ranges.within(2, 8)) == [(2, 3), (7, 8)]
    assert list(ranges.gaps(0, 20)) == [(0, 0), (4, 6), (10, 20)]


def test_the_set_may_be_changed_while_its_gaps_are_filled() -> None:
    ranges = TickRanges.of((1, 3), (7, 9), (15, 15))
    for gap in ranges.gaps(0, 20):
        ranges.add(*gap)
    assert list(ranges) == [(0, 20)]
    for each in ranges:
        ranges.remove(*each)
    assert not ranges


def test_the_first_missing_tick_moves_up_when_the_gap_is_filled() -> None:
    ranges = TickRanges.of((0, 4), (6, 9))
    assert ranges.first_missing(0) == 5
    ranges.add(5, 5)
    assert ranges.first_missing(0) == 10
    assert ranges.first_missing(12) == 12
    ranges.add(10, TICK_MAX)
    assert ranges.first_missing(0) == TICK_MAX + 1


@pytest.mark.parametrize("method", ["add", "remove", "contains_range", "overlaps", "within", "gaps"])
def test_an_empty_range_breaks_an_invariant_at_once(method: str) -> None:
    with pytest.raises(AssertionError, match="range 5 to 4 is empty"):
        getattr(TickRanges.of((1, 9)), method)(5, 4)


def test_broken_ranges_are_noticed() -> None:
    for firsts, lasts in [([3], [2]), ([1, 3], [2, 4]), ([5, 1], [6, 2]), ([1], [])]:
        broken = TickRanges()
        broken._firsts, broken._lasts = firsts, lasts
        with pytest.raises(AssertionError):
            broken.check_invariants()


def test_a_set_is_equal_to_sets_only_and_cannot_be_a_key() -> None:
    assert TickRanges.of((1, 2)) != [(1, 2)]
    with pytest.raises(TypeError, match="unhashable"):
        hash(TickRanges())


def test_a_set_of_many_ranges_shows_the_first_few() -> None:
    assert repr(TickRanges.of((1, 3), (5, 5))) == "TickRanges.of((1, 3), (5, 5))"
    assert repr(TickRanges.of(*((tick, tick) for tick in range(0, 4_000, 2)))).endswith("(14, 14), ... 1,992 more)")
