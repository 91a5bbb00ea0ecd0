"""Kills are drawn from a seed, and hit workers and brokers in turn."""

from __future__ import annotations

from itertools import islice
from random import Random

from penstock.lab.work.plan import BROKERS, HOME, KINDS, PLAN, PUBEND, brokers_of, draw_kills


def test_a_seed_draws_the_same_kills_again() -> None:
    first, again, other = (list(islice(draw_kills(Random(seed), 8), 30)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_of_three_kills_each_is_of_another_kind() -> None:
    kinds = [kill.kind for kill in islice(draw_kills(Random(3), 8), 30)]
    assert all({*kinds[place : place + 3]} == {*KINDS} for place in range(0, 30, 3))


def test_targets_are_what_their_kind_says() -> None:
    for kill in islice(draw_kills(Random(4), 2), 60):
        named = {"worker": {"w0", "w1"}, "home": {HOME}, "broker": {*BROKERS} - {HOME}}
        assert kill.target in named[kill.kind]
        assert kill.pause_s > 0


def test_one_broker_has_the_pubend_and_every_two_are_linked() -> None:
    assert [name for name, pubends in PLAN.pubends.items() if pubends == (PUBEND,)] == [HOME]
    assert len(PLAN.links) == 6


def test_workers_begin_at_different_brokers_and_may_go_to_all() -> None:
    assert [brokers_of(number)[0] for number in range(8)] == [*BROKERS, *BROKERS]
    assert all(sorted(brokers_of(number)) == sorted(BROKERS) for number in range(8))
