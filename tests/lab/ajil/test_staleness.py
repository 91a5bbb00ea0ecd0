from __future__ import annotations

from pathlib import Path

from penstock.lab.ajil.staleness import AJIL_SCALE, AJIL_STALENESS
from penstock.lab.frame.experiment import run_experiment


def test_fewer_reports_are_compared_with_more(tmp_path: Path) -> None:
    settings = ["nodes=20", "groups=20", "recovery_nodes=30", "before=40", "surge=40", "after=15"]
    measured = run_experiment(AJIL_STALENESS, settings, quick=True, figures=tmp_path).measured
    assert list(measured)[:4] == ["overshoot_c0.01", "overshoot_c0.001", "settle_ratio", "recovery_ratio"]
    assert measured["settle_epochs_c0.001"] >= measured["settle_epochs_c0.01"] > 0


def test_many_groups_are_limited_too(tmp_path: Path) -> None:
    measured = run_experiment(AJIL_SCALE, ["nodes=30", "groups=150"], quick=True, figures=tmp_path).measured
    assert measured["overshoot_c0.1"] < 0.1
    assert measured["ms_per_node_epoch"] > 0
