from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.ajil.domain import places, ranks_within, top_channels, top_groups

NAMES = [f"g{each}" for each in range(10)]


def groups_in(rates: list[float], alpha: float) -> list[int]:
    inside, _ = top_groups(np.array(rates, dtype=float), np.arange(len(rates)), alpha, NAMES)
    return np.flatnonzero(inside).tolist()


def test_a_fraction_is_rounded_up_and_zero_is_the_single_highest() -> None:
    assert [places(0.5, 5), places(0.5, 4), places(0, 9), places(1, 7), places(0.1, 1)] == [3, 2, 1, 7, 1]


def test_a_product_that_is_nearly_whole_is_whole() -> None:
    assert places(0.07, 100) == 7


def test_the_top_half_of_the_groups_is_in_the_domain() -> None:
    assert groups_in([1, 5, 3, 4], 0.5) == [1, 3]


def test_alpha_zero_is_the_top_group_only() -> None:
    assert groups_in([1, 5, 3, 4], 0) == [1]


def test_alpha_one_is_everybody_who_has_traffic() -> None:
    assert groups_in([1, 0, 3], 1) == [0, 2]


def test_silent_groups_do_not_count_as_groups() -> None:
    assert groups_in([4, 3, 2, 1, 0, 0, 0, 0], 0.5) == [0, 1]


def test_equal_groups_are_ranked_by_name_wherever_they_stand() -> None:
    rates = np.array([7.0, 7.0, 7.0, 7.0])
    assert np.flatnonzero(top_groups(rates, np.arange(4), 0.5, ["d", "b", "c", "a"])[0]).tolist() == [1, 3]


def test_only_the_wanted_groups_are_answered_for() -> None:
    assert top_groups(np.array([9.0, 1.0, 5.0]), np.array([1, 2]), 0.6, NAMES)[0].tolist() == [False, True]


def test_the_top_channels_of_a_group_are_in_the_domain() -> None:
    ranks, sizes = np.array([1.0, 2, 3, 4]), np.full(4, 4.0)
    assert top_channels(ranks, sizes, 0.25).tolist() == [True, False, False, False]
    assert top_channels(ranks, sizes, 0.3).tolist() == [True, True, False, False]
    assert top_channels(ranks, sizes, 0).tolist() == [True, False, False, False]
    assert top_channels(ranks, sizes, 1).all()


def test_ranks_are_within_each_group() -> None:
    groups, rates = np.array([0, 1, 0, 1, 0]), np.array([5.0, 1, 7, 9, 5])
    assert ranks_within(groups, rates).tolist() == [2, 2, 1, 1, 3]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=10), st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]))
def test_as_many_groups_are_inside_as_there_are_places(rates: list[int], alpha: float) -> None:
    inside = groups_in([float(each) for each in rates], alpha)
    active = sum(each > 0 for each in rates)
    assert len(inside) == (min(places(alpha, active), active))
    outside = [rates[each] for each in range(len(rates)) if each not in inside]
    assert min((rates[each] for each in inside), default=0) >= max(outside, default=0)


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=10),
    st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]),
    st.sampled_from([0.0, 1.0, 50.0, 100.0, 150.0, 1e6]),
)
def test_what_the_least_of_the_top_groups_was_changes_nothing(rates: list[int], alpha: float, near: float) -> None:
    amounts, wanted = np.array(rates, dtype=float), np.arange(len(rates))
    inside, least = top_groups(amounts, wanted, alpha, NAMES)
    again, same = top_groups(amounts, wanted, alpha, NAMES, near=near)
    assert again.tolist() == inside.tolist()
    assert same == least
    nearly, _ = top_groups(amounts, wanted, alpha, NAMES, near=least * 1.01)
    assert nearly.tolist() == inside.tolist()
