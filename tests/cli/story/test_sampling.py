"""Rates are differences of counts over time."""

from __future__ import annotations

import pytest

from stages import World


def test_a_rate_is_over_the_last_seconds() -> None:
    world = World().pass_time(4.0)
    assert world.stage.published_rate() == pytest.approx(100.0, abs=3.0)
    world.published_share = 0.0
    world.pass_time(1.0)
    assert 20.0 < world.stage.published_rate() < 80.0
    world.pass_time(2.0)
    assert world.stage.published_rate() == 0.0
    assert world.stage.delivered_rate() == pytest.approx(4_000.0)
    assert world.stage.delivered_rate("sb1", "sb2") == pytest.approx(2_000.0)


def test_without_samples_there_is_no_rate() -> None:
    world = World()
    assert world.stage.published_rate() == 0.0
    world.check()
    assert world.stage.published_rate() == 0.0


def test_a_sample_says_who_is_where() -> None:
    sample = World().pass_time(0.5).sampler.samples[-1]
    assert sample.clients == {"sb1": 2, "sb2": 2, "sb3": 2, "sb4": 2}
    assert sample.at_s == 0.5
    assert set(sample.published_by) == {"gold", "silver", "bronze", "iron"}
