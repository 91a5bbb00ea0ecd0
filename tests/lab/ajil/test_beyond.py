from __future__ import annotations

from pathlib import Path

from penstock.lab.ajil.beyond import AJIL_HARD, AJIL_PRIORITY
from penstock.lab.frame.experiment import run_experiment

SMALL = ["nodes=20", "groups=20"]


def test_exempt_groups_get_all_they_want_and_the_limit_holds(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_PRIORITY, SMALL, quick=True, figures=tmp_path).measured
    assert measured["priority_high_utility"] == 1
    assert 0.7 < measured["priority_low_utility"] < 0.85
    assert measured["overshoot"] < 0.06


def test_a_hard_limit_is_never_exceeded(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_HARD, SMALL, quick=True, figures=tmp_path).measured
    assert measured["hard_peak_over_limit"] <= 0
    assert measured["hard_peak_over_limit_lossy"] <= 0
    assert measured["hard_utility"] > 0.95
