"""The experiment ``token-video``: what is fetched and played, by hand; and the whole, shortened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.lab import run_experiment
from penstock.lab.token.video import TOKEN_VIDEO, fetched_mb, stalled_share


def test_operations_at_once_share_the_circuit() -> None:
    begins = np.array([0, 10_000, 12_000], dtype=np.int64)
    assert fetched_mb(begins, 4_000, circuit_mb_s=200.0).tolist() == [800.0, 600.0, 600.0]


def test_a_receiver_stalls_while_its_buffer_is_empty() -> None:
    at, begins = np.array([0, 0]), np.array([0, 2_000_000])
    mb = np.array([800.0, 800.0])
    # 800 MB last 1,000 s at 800 KB/s: it stalls from 1,000 s to 2,000 s, and plays until 3,000 s.
    assert stalled_share(at, begins, mb, rate_kb_s=800.0, end_ms=3_000_000) == pytest.approx(1 / 3)
    assert stalled_share(at, begins, mb, rate_kb_s=400.0, end_ms=3_000_000) == 0.0


def test_the_case_study_has_the_figures_of_the_paper(tmp_path: Path) -> None:
    result = run_experiment(TOKEN_VIDEO, ["variant=paper", "units=30000"], seed=1, figures=tmp_path)
    measured = result.measured
    assert measured["fetch_mb"] == 800
    assert measured["fetch_lasts_s"] == pytest.approx(1_231, abs=1)
    assert measured["stalled_n150"] < 0.01 < measured["stalled_n300"]
    assert measured["two_or_more_n150"] < 0.02
    assert measured["more_than_three_n300"] < 0.01
    assert measured["reduction_n300"] > measured["reduction_n150"]
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000
