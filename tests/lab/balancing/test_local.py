"""Local balancing, quickly: all metrics are there, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

from penstock.lab.balancing.local import BALANCING_LOCAL
from penstock.lab.frame.experiment import run_experiment

METRICS = {
    "converged_s",
    "reconverged_s",
    "max_difference_end_input",
    "max_difference_end_output",
    "max_difference_end_delay",
    "subscribers_B1",
    "subscribers_B2",
    "subscribers_B3",
    "subscribers_B4",
    "delay_overload_ms",
    "delay_balanced_ms",
    "overhead_balancing",
    "overhead_after",
    "accuracy_input",
    "accuracy_output",
    "accuracy_delay",
    "sessions",
    "migrations",
    "oscillations",
    "lost",
    "duplicated",
    "reordered",
}


def test_a_quick_run_measures_everything(tmp_path: Path) -> None:
    result = run_experiment(BALANCING_LOCAL, ["subscribers=40", "seconds=120"], seed=1, quick=True, figures=tmp_path)
    measured = result.measured
    assert set(measured) == METRICS
    assert sum(measured[f"subscribers_B{number}"] for number in range(1, 5)) == 40
    assert (measured["lost"], measured["duplicated"], measured["reordered"]) == (0, 0, 0)
    assert measured["oscillations"] == 0
    assert measured["sessions"] > 0
    assert (tmp_path / "balancing-local.png").exists()


def test_without_balancing_everybody_waits_at_the_weakest(tmp_path: Path) -> None:
    settings = ["subscribers=40", "seconds=120", "balanced=false"]
    measured = run_experiment(BALANCING_LOCAL, settings, seed=1, quick=True, figures=tmp_path).measured
    assert (measured["subscribers_B1"], measured["sessions"], measured["migrations"]) == (40, 0, 0)
    assert measured["delay_overload_ms"] > 10_000
    assert (measured["lost"], measured["duplicated"], measured["reordered"]) == (0, 0, 0), "late, but all of it"
