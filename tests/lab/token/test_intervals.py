"""The experiment ``token-intervals``, shortened: bands of the specification, a little wider."""

from __future__ import annotations

from pathlib import Path

from penstock.lab import run_experiment
from penstock.lab.token.intervals import TOKEN_INTERVALS


def test_intervals_are_distributed_as_specified(tmp_path: Path) -> None:
    result = run_experiment(TOKEN_INTERVALS, ["variant=paper", "units=60000"], seed=3, figures=tmp_path)
    measured = result.measured
    assert 0.85 < measured["within_2min_n150"] < 0.89
    assert 0.79 < measured["within_3min_n300"] < 0.84
    assert measured["mean_n300"] > measured["mean_n150"] > 1.0
    assert measured["within_2min_n300"] < measured["within_3min_n300"]
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000
