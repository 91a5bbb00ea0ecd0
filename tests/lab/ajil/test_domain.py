from __future__ import annotations

from pathlib import Path

from penstock.lab.ajil.domain import AJIL_DOMAIN, AJIL_FAIRNESS, AJIL_POLICY
from penstock.lab.frame.experiment import run_experiment

SMALL = ["nodes=20", "groups=20", "surge=50"]


def test_the_size_of_the_domain_is_compared(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_DOMAIN, SMALL, quick=True, figures=tmp_path).measured
    assert list(measured) == ["sd_1_1", "sd_1_0.5", "sd_0.5_0.5", "sd_0.5_0.25", "damping_1_1"]
    assert all(value > 0 for value in measured.values())


def test_groups_are_served_more_evenly_when_all_react(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_FAIRNESS, SMALL, quick=True, figures=tmp_path).measured
    assert measured["group_variance_full"] * 5 < measured["group_variance_eighth"]
    assert measured["group_variance_eighth"] < measured["channel_variance_eighth"]


def test_the_naive_policy_makes_traffic_jump(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_POLICY, SMALL, quick=True, figures=tmp_path).measured
    assert measured["naive_sd_ratio"] > 5
    assert measured["naive_variance_ratio"] > 1
