"""Numbers of edges, and triggers, quickly."""

from __future__ import annotations

from pathlib import Path

from penstock.lab.balancing.scale import BALANCING_EDGES, BALANCING_THRESHOLD, Outcome, totals
from penstock.lab.frame.experiment import run_experiment
from penstock.model.metrics import INPUT


def test_edges_are_compared(tmp_path: Path) -> None:
    settings = ["subscribers=20", "seconds=40", "edges_max=2"]
    measured = run_experiment(BALANCING_EDGES, settings, seed=1, quick=True, figures=tmp_path).measured
    assert measured["delay_2_edges_ms"] > 0
    assert measured["lost"] == measured["duplicated"] == measured["reordered"] == 0


def test_triggers_are_compared(tmp_path: Path) -> None:
    settings = ["subscribers=20", "seconds=40", "triggers=1"]
    measured = run_experiment(BALANCING_THRESHOLD, settings, seed=1, quick=True, figures=tmp_path).measured
    assert "difference_input_0.05" in measured
    assert "difference_output_0.05" in measured
    assert measured["lost"] == measured["duplicated"] == measured["reordered"] == 0


def test_counts_are_summed_up_over_all_points() -> None:
    one, other = (Outcome(1.0, {INPUT: 0.1}, {"lost": lost, "sessions": 2}) for lost in (0, 3))
    assert totals([one, other]) == {"lost": 3, "sessions": 4}
