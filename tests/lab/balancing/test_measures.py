"""Convergence, overhead, accuracy and delays, from samples made by hand."""

from __future__ import annotations

import pytest

from penstock.balancing.metrics import Load
from penstock.balancing.reporting import Estimate
from penstock.lab.balancing.measures import (
    accuracies,
    converged_at,
    mean_delay_ms,
    overhead,
    returns_in,
    spread,
    spreads_at,
    undisturbed,
)
from penstock.lab.balancing.overlay import Sample
from penstock.model.metrics import DELAY, INPUT


def sample(at_s: float, low: float, high: float, *, messages: int = 0, control: int = 0) -> Sample:
    loads = {"a": Load(low, 0.1, 0.01), "b": Load(high, 0.1, 0.01)}
    return Sample(at_s, loads, {"a": 1, "b": 3}, {}, {"a": 100.0, "b": 20.0}, messages, control, 0, 0, {})


def test_spread_is_the_largest_difference() -> None:
    assert spread([Load(0.1), Load(0.5), Load(0.3)], INPUT) == pytest.approx(0.4)
    assert spread([Load(delay_s=0.01), Load(delay_s=0.03)], DELAY) == pytest.approx(0.2)
    assert spreads_at([sample(1, 0.1, 0.2), sample(2, 0.1, 0.4)], 0, 5)[INPUT] == pytest.approx(0.2)


def test_converged_from_the_last_time_that_differences_were_large() -> None:
    samples = [sample(at_s, 0.1, 0.5 if at_s <= 100 else 0.15) for at_s in range(0, 300, 10)]
    assert converged_at(samples, 0.1, 0, 300) == 110
    assert converged_at(samples, 0.5, 0, 300) == 0
    assert converged_at(samples, 0.01, 0, 300) == 300, "never: that is the end of the time"
    assert converged_at(samples, 0.1, 150, 300) == 150


def test_the_shortest_excursion_counts() -> None:
    samples = [sample(at_s, 0.1, 0.5 if at_s <= 100 or at_s == 200 else 0.15) for at_s in range(0, 300, 10)]
    assert converged_at(samples, 0.1, 0, 300) == 210
    assert converged_at(samples, 0.1, 0, 200) == 200


def test_overhead_is_a_fraction_of_all_messages() -> None:
    samples = [sample(0, 0, 0), sample(10, 0, 0, messages=990, control=10)]
    assert overhead(samples, 0, 10) == pytest.approx(0.01)
    assert overhead(samples[:1], 0, 10) == 0.0


def test_delays_are_weighed_by_subscribers() -> None:
    assert mean_delay_ms([sample(5, 0, 0)], 0, 10) == pytest.approx(40)
    assert mean_delay_ms([sample(5, 0, 0)], 0, 10, "a") == 100
    assert mean_delay_ms([], 0, 10) == 0


def test_accuracy_of_estimates_made_late_enough() -> None:
    bad = Estimate(5, is_offloader=True, estimated=Load(1.0), actual=Load(0.1))
    good = Estimate(20, is_offloader=False, estimated=Load(0.45), actual=Load(0.5))
    assert accuracies([bad, good], 10)[INPUT] == pytest.approx(0.9)


def test_who_comes_back_with_no_change_in_between_oscillates() -> None:
    changes_s = (100, 300)
    assert returns_in([(110, "a"), (120, "b"), (130, "a"), (140, "b")], changes_s) == 2
    assert returns_in([(10, "a"), (120, "b"), (130, "a")], changes_s) == 1, "it left after the change"
    assert returns_in([(10, "a"), (20, "b"), (130, "a")], changes_s) == 0, "it left before the change"
    assert returns_in([(110, "a"), (120, "b"), (310, "a")], changes_s) == 0
    assert returns_in([(110, "a"), (120, "b"), (310, "a"), (320, "b")], changes_s) == 1, "to the second one"
    assert returns_in([(10, "a"), (20, "b"), (30, "a")], changes_s) == 0, "others join all the time"
    assert returns_in([], changes_s) == 0


def test_estimates_that_were_overtaken_by_a_change_are_left_out() -> None:
    made = [
        Estimate(at_ms, is_offloader=True, estimated=Load(), actual=Load(), made_ms=at_ms - 10)
        for at_ms in (20, 30, 40)
    ]
    assert [each.at_ms for each in undisturbed(made, [25.0, 30.0])] == [20, 40]
    assert undisturbed(made, []) == made
