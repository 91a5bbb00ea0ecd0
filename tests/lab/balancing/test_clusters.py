"""Clusters in a chain, quickly."""

from __future__ import annotations

from pathlib import Path

from penstock.lab.balancing.clusters import BALANCING_CLUSTERS, BALANCING_GLOBAL
from penstock.lab.frame.experiment import run_experiment


def test_two_clusters_balance(tmp_path: Path) -> None:
    settings = ["subscribers=20", "seconds=60"]
    measured = run_experiment(BALANCING_GLOBAL, settings, seed=1, quick=True, figures=tmp_path).measured
    assert {"converged_s", "reconverged_s", "input_B10", "input_B20", "sessions", "migrations"} <= set(measured)
    assert measured["lost"] == measured["duplicated"] == measured["reordered"] == 0


def test_chains_are_compared(tmp_path: Path) -> None:
    settings = ["subscribers=20", "seconds=40"]
    measured = run_experiment(BALANCING_CLUSTERS, settings, seed=1, quick=True, figures=tmp_path).measured
    assert "delay_2_clusters_ms" in measured
    assert measured["lost"] == 0
