"""Blows are drawn from a seed: kills of homes and other brokers, pauses, and connections that are cut off."""

from __future__ import annotations

from itertools import islice, pairwise
from random import Random

from penstock.lab.stomp.plan import BROKERS, HOMES, KINDS, PLAN, draw_blows


def blows(seed: int) -> list[object]:
    return list(islice(draw_blows(Random(seed), every_s=2.0, clients=8), 30))


def test_a_seed_draws_the_same_blows_again() -> None:
    assert blows(1) == blows(1) != blows(2)


def test_of_four_blows_each_is_of_another_kind_and_they_come_one_after_the_other() -> None:
    drawn = list(islice(draw_blows(Random(3), every_s=2.0, clients=8), 60))
    assert all({each.kind for each in drawn[place : place + 4]} == {*KINDS} for place in range(0, 60, 4))
    assert all(one.at_s < other.at_s for one, other in pairwise(drawn))
    assert 90 < drawn[-1].at_s < 150


def test_targets_are_what_their_kind_says() -> None:
    named = {"home": {*HOMES}, "broker": {*BROKERS} - {*HOMES}, "client": {"0", "1"}, "stop": {*BROKERS}}
    drawn = list(islice(draw_blows(Random(4), every_s=2.0, clients=2), 120))
    assert {kind: {each.target for each in drawn if each.kind == kind} for kind in KINDS} == named


def test_two_brokers_have_pubends_and_every_two_are_linked() -> None:
    assert [name for name, pubends in PLAN.pubends.items() if pubends] == [*HOMES]
    assert len(PLAN.links) == 6
