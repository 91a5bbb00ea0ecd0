"""The parameters of balancing: the paper's defaults, and values that cannot work."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from penstock.balancing.settings import BalancingError, BalancingSettings


def test_defaults_are_the_papers() -> None:
    settings = BalancingSettings()
    assert not settings.is_on
    assert (settings.lower_overload, settings.higher_overload) == (0.9, 0.95)
    assert (settings.local_ratio_trigger, settings.local_delay_trigger, settings.delay_norm_s) == (0.1, 0.1, 0.1)
    assert (settings.global_ratio_trigger, settings.global_delay_trigger) == (0.15, 0.15)
    assert (settings.balance_threshold, settings.stabilize_ms, settings.stabilize_share) == (0.005, 30_000, 0.05)
    assert (settings.samples_max, settings.sample_ms) == (50, 30_000)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lower_overload": 0.96}, "lower_overload 0.96 is above higher_overload 0.95"),
        ({"role": "tail"}, "role is 'tail', must be head, edge or empty"),
        ({"cluster": "$heads"}, "cluster is '\\$heads', must not begin with \\$: that is for groups of heads"),
        ({"heads": "a b"}, "heads is 'a b', must be empty or letters, digits, dots, hyphens, underscores"),
        ({"heads": "$heads"}, "heads is '\\$heads', must be empty or"),
        ({"delay_model": "wild"}, "delay_model is 'wild', must be one of fitted, proportional"),
        ({"peer_ms": 15_000}, "peer_ms 15000 is less than two PIE intervals of 10000 ms"),
        ({"smoothing_ms": 500}, "smoothing_ms 500 is less than measure_ms 1000"),
        ({"samples_max": 0}, "samples_max is 0, must be 1 to 100000"),
        ({"samples_max": 2.5}, "samples_max is 2.5, must be of type int"),
        ({"delay_norm_s": float("nan")}, "delay_norm_s is nan, must be 1e-06 to 1e\\+12 s"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(BalancingError, match=problem):
        BalancingSettings(**changes)


def test_role_and_cluster_follow_the_configured_neighbours() -> None:
    settings = BalancingSettings()
    assert settings.role_of(2) == "head"
    assert settings.role_of(1) == settings.role_of(0) == "edge"
    assert settings.cluster_of("e1", ("h1",)) == "h1"
    assert settings.cluster_of("h1", ("e1", "h2")) == "h1"
    assert settings.cluster_of("alone", ()) == "alone"
    assert BalancingSettings(role="edge").cluster_of("e1", ("h1", "h2")) == "h1"
    assert BalancingSettings(cluster="west").cluster_of("e1", ("h1",)) == "west"


def test_a_group_of_heads_is_named_as_no_cluster_can_be() -> None:
    assert BalancingSettings().group == "$heads"
    assert BalancingSettings(heads="west").group == "$west"
    assert BalancingSettings(heads="").group == ""


def test_every_parameter_is_explained() -> None:
    assert all(each.metadata["help"] for each in fields(BalancingSettings))
