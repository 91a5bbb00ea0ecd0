from __future__ import annotations

from pathlib import Path

from penstock.lab.ajil.waves import AJIL_RAMP, AJIL_SQUARE
from penstock.lab.frame.experiment import run_experiment


def test_a_square_surge_is_reduced_and_nobody_is_touched_below_the_limit(tmp_path: Path) -> None:
    result = run_experiment(AJIL_SQUARE, ["nodes=20", "groups=20"], quick=True, figures=tmp_path)
    measured = result.measured
    assert 0.23 < measured["raw_overshoot"] < 0.27
    assert measured["overshoot"] < 0.06
    assert measured["settle_epochs"] <= 15
    assert measured["first_epoch_overshoot"] > 0.2
    assert measured["utility_below_limit"] == 1
    assert 0.008 < measured["report_overhead"] < 0.012
    assert Path(str(result.figure)).is_file()


def test_a_ramp_stays_near_the_limit(tmp_path: Path) -> None:
    settings = ["nodes=20", "groups=20", "before=120", "surge=60"]
    measured = run_experiment(AJIL_RAMP, settings, quick=True, figures=tmp_path).measured
    assert 0.11 < measured["raw_overshoot"] < 0.15
    assert measured["overshoot"] < 0.03
