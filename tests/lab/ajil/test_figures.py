from __future__ import annotations

import numpy as np
import pytest

from penstock.lab.ajil.figures import (
    BASE,
    LIMIT,
    PEAK,
    Run,
    Wave,
    aup_of,
    mean_of,
    overshoot,
    recovery_epochs,
    run_wave,
    settle_epochs,
    spread,
)
from penstock.lab.ajil.world import AjilWorld, Shape

WORLD = AjilWorld(Shape(nodes=4, groups=4, members=2), aup_of(), seed=1)


def run_of(traffic: list[float], wanted: float = 1.25, *, first: int = 0, last: int | None = None) -> Run:
    wave = Wave(first, len(traffic) if last is None else last, len(traffic))
    ones = np.ones(1)
    return Run(wave, np.array(traffic), np.full(len(traffic), wanted), np.zeros(0), 1.0, ones, ones, ones, 0.0, WORLD)


def test_a_square_wave_jumps_and_a_ramp_grows() -> None:
    square = Wave(10, 20, 30)
    assert [square.load(each) for each in (9, 10, 19, 20)] == [BASE, PEAK, PEAK, BASE]
    ramp = Wave(0, 100, 100, ramp=True)
    assert [ramp.load(each) for each in (0, 50, 100)] == [BASE, (BASE + PEAK) / 2, PEAK]


def test_overshoot_counts_only_what_is_above_the_limit() -> None:
    assert overshoot(run_of([1.2, 0.8, 1.0, 1.0])) == pytest.approx(0.05)


def test_a_surge_is_settled_when_five_epochs_are_near_the_limit() -> None:
    assert settle_epochs(run_of([1.25, 1.2, 1.1, *[1.01] * 5])) == 3
    assert settle_epochs(run_of([1.25] * 10)) == 10


def test_recovery_is_over_after_the_last_epoch_that_lacked_something() -> None:
    assert recovery_epochs(run_of([1.0, 0.5, 0.9, 0.99, 1.0, 1.0], wanted=1.0, last=1)) == 3
    assert recovery_epochs(run_of([1.0, 1.0], wanted=1.0, last=1)) == 0


def test_means_are_over_runs() -> None:
    assert mean_of([run_of([1.2]), run_of([1.4])], overshoot) == pytest.approx(0.3)
    assert spread(np.array([1.0, 3.0])) == 1


def test_a_run_counts_utilities_in_the_surge_only() -> None:
    run = run_wave(Shape(nodes=8, groups=8, members=3), aup_of(report_fraction=0.5), Wave(5, 15, 20), seed=1)
    assert len(run.traffic) == 20
    assert run.traffic[0] * LIMIT == pytest.approx(BASE, rel=0.2)
    assert run.channel_utility.min() < 1
    assert run.group_utility.max() <= 1
    assert run.node_ms > 0
