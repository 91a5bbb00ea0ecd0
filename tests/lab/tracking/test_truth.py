"""``tracking-truth``: nothing true is missed, and coarse filters are wrong as often as they say."""

from __future__ import annotations

from pathlib import Path

from penstock.lab import run_experiment
from penstock.lab.tracking.truth import COARSE, TRACKING_TRUTH


def test_nothing_is_missed_and_errors_are_as_many_as_the_formula_says(tmp_path: Path) -> None:
    wanted = ["brokers=6", "messages=300", "blows=4", "traces=40"]
    result = run_experiment(TRACKING_TRUTH, wanted, seed=2, figures=tmp_path)
    measured = result.measured
    assert (measured["missed"], measured["extra_hops"]) == (0, 0)
    assert (measured["traces"], measured["coarse_traces"], measured["refused"], measured["coarse_refused"]) == (
        40,
        40,
        0,
        0,
    )
    assert measured["hops"] > 100
    # Few, but some: without them there would be nothing to compare.
    assert measured["false_claims_theory"] + measured["false_receivers_theory"] > 2
    assert measured["false_claims"] + measured["false_receivers"] > 0
    assert abs(measured["false_claims_standard_errors"]) < 4
    assert abs(measured["false_receivers_standard_errors"]) < 4
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


def test_coarse_filters_are_wrong_often() -> None:
    assert COARSE.shape is not None
    assert 0.1 < COARSE.shape.fpp < 0.2
