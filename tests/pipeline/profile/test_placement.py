"""Subscriptions are placed so that brokers are loaded alike, each by its power, and predictions are right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.profile.capacities import Capacity, parse_capacities, parse_capacity
from penstock.pipeline.profile.placement import BrokerPlan, max_difference, plan_placement, predicted
from pipeline.profile.profiles import SIZE, profile_of, quote_profile

PAPER = parse_capacities(["B1=1,B2=2,B3=4,B4=10"], parse_capacity("0.6mbps:200us+210us"))
"""The edge brokers of the paper's local experiment, by the cost model of the experiments of balancing."""


def test_loads_are_what_a_count_by_hand_finds() -> None:
    wanted = [("b1", "n < 4"), ("b1", "n < 2"), ("b2", "n < 2"), ("b3", "n = 0")]
    profile = profile_of(wanted, [{"n": number} for number in range(5)], rate=5.0)
    capacities = {"b1": Capacity(1000.0, 0.01, 0.001), "b2": Capacity(500.0, 0.02, 0.0)}
    first, second = predicted(profile, capacities, [each.broker for each in profile.subscriptions])
    assert first == BrokerPlan("b1", 2, 4.0, 6.0 * SIZE, 0.012, 4.0 * 0.012, 1.2)
    assert second == BrokerPlan("b2", 1, 2.0, 2.0 * SIZE, 0.02, 0.04, 0.8)
    assert max_difference([first, second]) == pytest.approx(0.4)


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_brokers_are_balanced_and_have_subscribers_by_their_power(seed: int) -> None:
    profile = quote_profile(seed, 300, silent=100)
    plan = plan_placement(profile, PAPER)
    assert plan.max_difference < 0.02
    counts = Counter(plan.placed)
    assert counts.total() == 400
    for name, power in (("B2", 2), ("B3", 4), ("B4", 10)):
        assert counts[name] == pytest.approx(power * counts["B1"], rel=0.3)
    assert plan.moved == 400 - counts["B1"]
    assert plan_placement(profile, PAPER) == plan


def test_what_is_planned_is_what_is_predicted_of_the_plan() -> None:
    profile = quote_profile(5, 100)
    plan = plan_placement(profile, PAPER)
    again = predicted(profile, PAPER, plan.placed)
    for one, other in zip(plan.brokers, again, strict=True):
        assert (one.broker, one.subscriptions) == (other.broker, other.subscriptions)
        assert one.metrics == pytest.approx(other.metrics)


def test_who_is_well_placed_stays() -> None:
    profile = quote_profile(5, 100)
    plan = plan_placement(profile, PAPER)
    moved = replace(
        profile,
        subscriptions=[replace(each, broker=to) for each, to in zip(profile.subscriptions, plan.placed, strict=True)],
    )
    assert plan_placement(moved, PAPER).moved == 0


def test_one_broker_gets_all_and_too_weak_ones_are_named() -> None:
    profile = quote_profile(5, 100)
    plan = plan_placement(profile, {"b1": Capacity(1.0, 0.1, 0.1)})
    assert set(plan.placed) == {"b1"}
    assert plan.overloaded == ["b1"]
    assert plan.max_difference == 0.0


def test_progress_is_told_in_hundredths() -> None:
    steps: list[int] = []
    plan_placement(quote_profile(5, 30), PAPER, advance=steps.append)
    assert sum(steps) == 100


def test_brokers_without_a_capacity_cannot_be_predicted() -> None:
    with pytest.raises(MisuseError, match="none of the brokers"):
        predicted(quote_profile(5, 3), {"other": Capacity(1.0, 0.1, 0.1)}, ["B1"] * 3)
