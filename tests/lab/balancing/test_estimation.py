"""Estimates against what came of them, quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab.balancing.estimation import BALANCING_ESTIMATION, SweepPoint, error_at
from penstock.lab.frame.experiment import run_experiment


@pytest.mark.long
def test_errors_are_found_for_each_number_of_samples(tmp_path: Path) -> None:
    settings = ["subscribers=20", "seconds=100", "sweep=2", "sweep_seconds=40"]
    measured = run_experiment(BALANCING_ESTIMATION, settings, seed=1, quick=True, figures=tmp_path).measured
    assert {"error_1_samples", "error_3_samples", "accuracy_input"} <= set(measured)
    assert (measured["lost"], measured["duplicated"], measured["reordered"]) == (0, 0, 0)
    assert (tmp_path / "balancing-estimation.png").exists()


def test_few_samples_are_a_guess() -> None:
    mean, deviation = error_at(SweepPoint(1, seed=1, seconds=200, subscribers=40))
    assert mean > 0
    assert deviation >= 0
