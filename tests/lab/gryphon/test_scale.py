"""One alert per query reaches the pubend, however many hosts raise some."""

from __future__ import annotations

from pathlib import Path

from penstock.congestion import CongestionSettings
from penstock.lab import run_experiment
from penstock.lab.gryphon.scale import SCALE, ScaledTree


def test_a_tree_has_ten_brokers_below_each() -> None:
    tree = ScaledTree(20, CongestionSettings.paper(), seed=1)
    assert tree.depth == 2
    assert len(tree.leaves) == len(tree.subscribers) == 20
    assert len(tree.world.brokers) == 31
    assert tree.alerts() == (0, 0)


def test_alerts_at_the_pubend_are_at_most_one_per_query(tmp_path: Path) -> None:
    measured = run_experiment(SCALE, ["max_hosts=10", "narrow_s=20"], seed=1, figures=tmp_path).measured
    assert 0 < measured["ucas_per_s_10"] <= 1.05
    assert measured["wrong_10"] == 0
    assert measured["depth_10"] == 1
