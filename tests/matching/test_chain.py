from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.matching.chain import BLOCK_MAX, Bisect, Chain, Columns, Ids
from penstock.matching.plan import Threshold

SMALL_BLOCK = 4

LEFT: Bisect = bisect_left
RIGHT: Bisect = bisect_right

Member = tuple[Threshold, int, tuple[float, ...]]
Step = tuple[int, Threshold, int, tuple[float, float]]

NUMBERS: list[Threshold] = [-(2**63), -7, -1, 0, 0.5, 1, 1.5, 2, 3, 5, 2**53, 2**53 + 1, 1e300]
TEXTS: list[Threshold] = ["", "a", "ab", "b", "é", "\U0010ffff"]
PROBES: list[Threshold] = [*NUMBERS, -8, 0.1, 1.0, float(2**53), 10**400, -(10**400), float("inf"), float("-inf")]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.matching.chain.BLOCK_MAX", SMALL_BLOCK)
        yield


def steps(thresholds: list[Threshold]) -> st.SearchStrategy[list[Step]]:
    number = st.integers(0, 8).map(float)
    step = st.tuples(st.integers(0, 999), st.sampled_from(thresholds), st.integers(0, 40), st.tuples(number, number))
    return st.lists(step, min_size=1, max_size=60)


def walk(chain: Chain, history: list[Step], *, columns: int) -> Iterator[list[Member]]:
    """Carries out the steps on the chain; yields what it should hold after each, as a plain sorted list."""
    model: list[Member] = []
    for chance, threshold, subscription, extra in history:
        known = next((each for each in model if each[:2] == (threshold, subscription)), None)
        # One step in three removes, whatever it names; so does one that names a member.
        gone = model[chance % len(model)] if model and chance % 3 == 0 else known
        if gone is not None:
            chain.delete(gone[0], gone[1])
            model.remove(gone)
        else:
            chain.insert(threshold, subscription, extra[:columns])
            model.append((threshold, subscription, extra[:columns]))
        model.sort(key=lambda each: each[:2])
        chain.check_invariants()
        assert chain.size == len(model)
        yield model


def flat(found: Iterable[Ids]) -> list[int]:
    return [number for ids in found for number in ids.tolist()]


def rows(slices: Iterable[tuple[Ids, Columns]]) -> list[tuple[int, tuple[float, ...]]]:
    found = []
    for ids, columns in slices:
        assert all(len(column) == len(ids) for column in columns)
        for place, number in enumerate(ids.tolist()):
            found.append((number, tuple(float(column[place]) for column in columns)))
    return sorted(found)


def cut(model: list[Member], probe: Threshold, bisect: Bisect) -> tuple[list[Member], list[Member]]:
    place = bisect([threshold for threshold, _, _ in model], probe)
    return model[:place], model[place:]


def chain_of(count: int) -> Chain:
    chain = Chain()
    for number in range(count):
        chain.insert(number, number)
    return chain


@settings(max_examples=150)
@given(steps(NUMBERS), st.lists(st.sampled_from(PROBES), min_size=1, max_size=3))
def test_a_chain_of_numbers_is_a_sorted_list_that_can_be_cut_anywhere(
    history: list[Step], probes: list[Threshold]
) -> None:
    check_against_a_list(history, probes)


@settings(max_examples=100)
@given(steps(TEXTS), st.lists(st.sampled_from([*TEXTS, "aa", "zz"]), min_size=1, max_size=3))
def test_a_chain_of_texts_is_a_sorted_list_that_can_be_cut_anywhere(
    history: list[Step], probes: list[Threshold]
) -> None:
    check_against_a_list(history, probes)


@settings(max_examples=50)
@given(steps([0]))
def test_a_chain_of_equal_thresholds_is_ordered_by_subscription(history: list[Step]) -> None:
    check_against_a_list(history, [-1, 0, 1])


def check_against_a_list(history: list[Step], probes: list[Threshold]) -> None:
    chain = Chain()
    for model in walk(chain, history, columns=0):
        everything: list[Ids] = []
        chain.everything(everything)
        assert flat(everything) == [number for _, number, _ in model]
        for probe in probes:
            for bisect in (LEFT, RIGHT):
                before: list[Ids] = []
                after: list[Ids] = []
                chain.before(probe, bisect, before)
                chain.after(probe, bisect, after)
                below, above = cut(model, probe, bisect)
                assert flat(before) == [number for _, number, _ in below]
                assert flat(after) == [number for _, number, _ in above]
                assert all(ids.size for ids in (*before, *after))


@settings(max_examples=150)
@given(steps(NUMBERS), st.lists(st.sampled_from(PROBES), min_size=1, max_size=2), st.integers(1, 2))
def test_the_columns_of_a_chain_stay_beside_their_members(
    history: list[Step], probes: list[Threshold], columns: int
) -> None:
    chain = Chain(columns=columns)
    for model in walk(chain, history, columns=columns):
        for probe in probes:
            for bisect in (LEFT, RIGHT):
                below, above = cut(model, probe, bisect)
                assert rows(chain.slices_before(probe, bisect)) == sorted(each[1:] for each in below)
                assert rows(chain.slices_after(probe, bisect)) == sorted(each[1:] for each in above)


@settings(max_examples=100)
@given(steps(NUMBERS))
def test_members_can_be_walked_in_stretches_from_either_end(history: list[Step]) -> None:
    chain = Chain()
    for model in walk(chain, history, columns=0):
        expected = [each[:2] for each in model]
        forwards = list(chain.members(backwards=False))
        backwards = list(chain.members(backwards=True))
        assert pairs(forwards) == expected
        assert pairs(reversed(backwards)) == expected


def pairs(stretches: Iterable[tuple[list[Threshold], Ids]]) -> list[tuple[Threshold, int]]:
    return [pair for thresholds, ids in stretches for pair in zip(thresholds, ids.tolist(), strict=True)]


@given(st.permutations(range(24)), st.permutations(range(24)))
def test_a_chain_can_be_filled_and_emptied_in_any_order(filling: list[int], emptying: list[int]) -> None:
    chain = Chain(columns=1)
    for number in filling:
        chain.insert(number // 3, number, (float(number),))
        chain.check_invariants()
    assert len(chain.blocks) > 1
    assert rows(chain.slices_before(99, LEFT)) == [(number, (float(number),)) for number in range(24)]
    for number in emptying:
        chain.delete(number // 3, number)
        chain.check_invariants()
    found: list[Ids] = []
    chain.everything(found)
    chain.before(99, RIGHT, found)
    chain.after(-1, LEFT, found)
    assert found == []
    assert (chain.size, len(chain.blocks)) == (0, 1)


# Two conjunctions of one selector may differ beyond their first bound only, and then share threshold and number.
@given(st.lists(st.sampled_from([(1, 7), (1, 8), (2, 7)]), max_size=24), st.randoms(use_true_random=False))
def test_a_member_that_is_there_several_times_leaves_as_many_times(
    members: list[tuple[int, int]], chance: Random
) -> None:
    chain = Chain()
    for threshold, number in members:
        chain.insert(threshold, number)
        chain.check_invariants()
    leaving = list(members)
    chance.shuffle(leaving)
    while leaving:
        chain.delete(*leaving.pop())
        chain.check_invariants()
        assert pairs(chain.members(backwards=False)) == sorted(leaving)
    assert chain.size == 0


def test_a_full_block_is_split_by_the_next_member() -> None:
    chain = chain_of(SMALL_BLOCK)
    assert len(chain.blocks) == 1
    chain.insert(SMALL_BLOCK, SMALL_BLOCK)
    assert [len(block.thresholds) for block in chain.blocks] == [2, 3]
    chain.check_invariants()


def test_a_block_that_lost_its_last_member_is_removed() -> None:
    chain = chain_of(3 * SMALL_BLOCK)
    count = len(chain.blocks)
    for number in range(2):
        chain.delete(number, number)
    assert len(chain.blocks) == count - 1
    chain.check_invariants()


def test_the_largest_numbers_of_subscriptions_are_kept_as_they_are() -> None:
    chain = Chain()
    for number in (2**24 - 1, 2**32 - 1, 0):
        chain.insert(1, number)
    found: list[Ids] = []
    chain.everything(found)
    assert flat(found) == [0, 2**24 - 1, 2**32 - 1]
    assert all(ids.dtype == np.uint32 for ids in found)


def test_an_insertion_needs_one_value_for_each_column() -> None:
    with pytest.raises(ValueError, match="zip"):
        Chain(columns=2).insert(1, 1, (1.0,))


@pytest.mark.parametrize("count", [3, 3 * SMALL_BLOCK])
@pytest.mark.parametrize(("threshold", "number"), [(0, 99), (1, 2), (2, 1), (0.5, 1), (99, 99), (-1, 0)])
def test_a_member_that_is_not_there_cannot_be_deleted(threshold: float, number: int, count: int) -> None:
    chain = chain_of(count)
    with pytest.raises(AssertionError, match="is not in the chain"):
        chain.delete(threshold, number)
    assert chain.size == count


def test_the_invariants_notice_a_wrong_order() -> None:
    chain = chain_of(3)
    chain.blocks[0].thresholds.reverse()
    with pytest.raises(AssertionError):
        chain.check_invariants()


def test_the_invariants_notice_a_wrong_size_and_a_wrong_top() -> None:
    wrong_size, wrong_top = chain_of(3), chain_of(9)
    wrong_size.size = 4
    wrong_top.maxima[0] = 99
    for chain in (wrong_size, wrong_top):
        with pytest.raises(AssertionError):
            chain.check_invariants()


def test_blocks_are_large_outside_of_these_tests() -> None:
    assert BLOCK_MAX > 100 * SMALL_BLOCK
