"""The lean simulation keeps to the rules: one token at the start, uniform hops, losses, and when they are over."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context
from penstock.lab.token.walk import UNIT_MS, Walk, constants_of, walked
from penstock.model.reporting import QuietReporter
from penstock.token.settings import PAPER, Constants

SMALL = Constants.for_size(5, variant=PAPER)


def test_a_walk_begins_with_one_token_and_everybody_operates() -> None:
    walk = Walk(5, SMALL, Random(1))
    walk.run_until(10 * SMALL.min_ms)
    assert walk.log.op_ms[0] == 0
    assert set(walk.log.op_at) == set(range(5))
    for number in range(5):
        begins = [begin for at, begin in zip(walk.log.op_at, walk.log.op_ms, strict=True) if at == number]
        assert all(later - earlier >= SMALL.min_ms for earlier, later in pairwise(begins))


def test_the_population_is_what_was_made_and_not_discarded() -> None:
    walk = Walk(15, SMALL, Random(1))
    for _ in range(50):
        walk.run_until(walk.now_ms + SMALL.min_ms)
        held = sum((walker.held is not None) + walker.waiting for walker in walk.walkers)
        assert walk.population == 1 + walk.log.generated - walk.log.discarded == held
        for walker in walk.walkers:
            walker.check_invariants()
    assert walk.log.generated > 0


def test_hops_are_uniform_over_the_others_or_over_the_view() -> None:
    walk = Walk(5, SMALL, Random(1))
    hops = Counter(walk._next_hop(2) for _ in range(8_000))
    assert set(hops) == {0, 1, 3, 4}
    assert all(1_800 < count < 2_200 for count in hops.values())
    partial = Walk(5, SMALL, Random(1), views=[[1], [2], [0, 4], [4], [0]])
    assert {partial._next_hop(2) for _ in range(50)} == {0, 4}


def test_the_same_seed_gives_the_same_walk() -> None:
    logs = []
    for _ in range(2):
        walk = Walk(20, Constants.for_size(20), Random(7))
        walk.run_until(100 * UNIT_MS * 20)
        logs.append(walk.log)
    assert logs[0] == logs[1]
    assert logs[0].visits > 100


def test_a_loss_leaves_no_token_and_is_over_when_one_is_left_and_there_was_always_one() -> None:
    walk = Walk(5, SMALL, Random(3))
    walk.run_until(10 * SMALL.min_ms)
    walk.lose_all()
    assert walk.population == 0
    assert all(walker.held is None and not walker.waiting for walker in walk.walkers)
    lost_ms = walk.now_ms
    stable_ms = walk.run_until_stable(lost_ms + 100 * SMALL.max_ms)
    assert stable_ms is not None
    assert walk.population == 1
    assert stable_ms >= walk.log.emptied_ms + SMALL.min_ms
    assert lost_ms < walk.log.emptied_ms <= lost_ms + SMALL.max_ms


def test_a_limit_ends_the_waiting_for_stability() -> None:
    walk = Walk(5, SMALL, Random(3))
    walk.lose_all()
    assert walk.run_until_stable(SMALL.max_ms // 2) is None


def context(**parameters: str | int) -> Context:
    return Context(1, parameters, QuietReporter(), Path("unused.png"))


def test_the_constants_are_those_of_the_paper_for_the_variant_asked_for() -> None:
    assert constants_of(context(variant="paper")) == Constants(variant=PAPER)
    assert constants_of(context(variant="paper"), growth=1.0).growth == 1.0


def test_another_variant_is_refused() -> None:
    with pytest.raises(ParameterError, match="'quick' is neither paper nor swift"):
        constants_of(context(variant="quick"))


def test_a_run_takes_as_many_units_as_asked_for() -> None:
    walk = walked(context(variant="swift", units=2_000), 150)
    assert walk.now_ms == 2_000_000
    assert len(walk.walkers) == 150
