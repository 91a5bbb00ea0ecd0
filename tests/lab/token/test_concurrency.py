"""The experiment ``token-concurrency``, shortened: bands of the specification, a little wider."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.token.concurrency import TOKEN_CONCURRENCY


@pytest.mark.parametrize("variant", ["paper", "swift"])
def test_the_token_keeps_operations_apart_as_published(variant: str, tmp_path: Path) -> None:
    settings = [f"variant={variant}", "units=80000"]
    result = run_experiment(TOKEN_CONCURRENCY, settings, seed=3, figures=tmp_path)
    measured = result.measured
    assert list(measured)[:7] == [
        "benchmark_n150_multi",
        "benchmark_n300_multi",
        "token_n150_multi",
        "token_n300_multi",
        "decay_1",
        "decay_2",
        "over5_units",
    ]
    assert 0.18 < measured["benchmark_n150_multi"] < 0.20
    assert 0.46 < measured["benchmark_n300_multi"] < 0.49
    if variant == "paper":
        assert 0.002 < measured["token_n150_multi"] < 0.006
        assert 0.085 < measured["token_n300_multi"] < 0.11
        assert 0.10 < measured["decay_1"] < 0.14
        assert 0.04 < measured["decay_2"] < 0.08
        assert measured["over5_units"] < 30
        assert measured["over5_units_after_start"] <= 2
    else:
        assert measured["token_n150_multi"] < 0.0005
        assert measured["token_n300_multi"] < 0.001
    assert measured["busy_n300"] > measured["busy_n150"] > 0.5
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000
