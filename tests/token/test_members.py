"""Whom a component may pass a token to."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from penstock.token.members import View, sample_size

NAMES = [f"m{number:03}" for number in range(100)]


@pytest.mark.parametrize(
    ("size", "wanted"), [(0, 0), (1, 0), (2, 1), (3, 2), (8, 6), (150, 15), (1_000, 20), (100_000, 34)]
)
def test_a_sample_grows_with_the_logarithm_of_the_group(size: int, wanted: int) -> None:
    assert sample_size(size) == wanted


def test_a_full_view_has_everybody_but_the_member_itself() -> None:
    view = View("m000", Random(1))
    assert view.set(NAMES)
    assert sorted(view.chosen) == NAMES[1:]
    assert view.size == 100


def test_next_hops_are_uniform_over_the_view() -> None:
    view = View("m000", Random(1))
    view.set(NAMES[:11])
    hops = Counter(view.next_hop() for _ in range(20_000))
    assert set(hops) == set(NAMES[1:11])
    assert all(1_800 < count < 2_200 for count in hops.values())


def test_a_member_that_is_alone_has_nowhere_to_go() -> None:
    view = View("a", Random(1))
    assert view.next_hop() is None
    assert view.size == 1


def test_some_can_be_left_out_as_long_as_there_are_others() -> None:
    view = View("a", Random(1))
    view.set(["a", "b", "c"])
    assert {view.next_hop(without=["b"]) for _ in range(50)} == {"c"}
    assert {view.next_hop(without=["b", "c"]) for _ in range(50)} == {"b", "c"}


def test_members_come_and_go() -> None:
    view = View("a", Random(1))
    assert view.join("b")
    assert not view.join("b")
    assert not view.join("a")
    assert view.members == ("b",)
    assert view.leave("b")
    assert not view.leave("b")
    assert view.next_hop() is None


def test_a_partial_view_keeps_its_size_while_members_come_and_go() -> None:
    view = View("m000", Random(3), factor=2.0)
    view.set(NAMES)
    assert len(view.chosen) == sample_size(100) == 14
    for name in NAMES[1:90]:
        view.leave(name)
        assert len(set(view.chosen)) == len(view.chosen) == sample_size(view.size)
        assert set(view.chosen) <= set(view.members)


def test_every_member_gets_into_partial_views_equally_often() -> None:
    counts: Counter[str] = Counter()
    for seed in range(3_000):
        view = View("m000", Random(seed), factor=1.0)
        view.set(NAMES[:17])
        view.join("late")
        counts.update(view.chosen)
    assert len(counts) == 17
    mean = sum(counts.values()) / 17
    assert all(abs(count - mean) < 0.15 * mean for count in counts.values())
