"""The experiment ``token-scale``, with its smallest size: partial views behave like full ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.lab import run_experiment
from penstock.lab.token.scale import TOKEN_SCALE, known_by


def test_partial_views_behave_like_full_ones(tmp_path: Path) -> None:
    result = run_experiment(TOKEN_SCALE, seed=2, quick=True, figures=tmp_path)
    measured = result.measured
    assert measured["handovers_per_op_partial_1000"] == pytest.approx(measured["handovers_per_op_full_1000"], rel=0.15)
    assert measured["interval_partial_1000"] == pytest.approx(measured["interval_full_1000"], rel=0.1)
    assert 2.5 < measured["handovers_per_op_full_1000"] < 4.5
    assert measured["multi_full_1000"] < 0.005
    assert measured["stable_full_1000"] < 2
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


def test_nobody_knows_itself() -> None:
    views = known_by(100, 2.0, Random(1))
    assert len(views) == 100
    assert all(own not in view and all(0 <= each < 100 for each in view) for own, view in enumerate(views))
    assert {len(view) for view in views} == {14}
