"""E1 has the metrics that were promised; what they are is tested where they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.gryphon.e1 import E1, E1_WINDOW

PROMISED = [
    "recovery_s",
    "rate_before",
    "rate_in_recovery",
    "rate_after",
    "restore_s",
    "nack_window_plateau_ms",
    "nack_window_max_ms",
    "min_pubend_share",
    "lost",
    "duplicated",
    "reordered",
    "queue_max_bytes",
    "lag_end_s",
]


@pytest.mark.long
def test_e1_without_control_is_measured_and_drawn(tmp_path: Path) -> None:
    result = run_experiment(E1, ["down_s=15", "limit_s=10", "pdcc=off"], seed=1, figures=tmp_path)
    assert [name for name in result.measured if name in PROMISED] == PROMISED
    assert result.measured["recovered"] == 0
    assert (tmp_path / "gryphon-e1.png").stat().st_size > 10_000


def test_the_window_is_seen_over_a_wider_link(tmp_path: Path) -> None:
    result = run_experiment(E1_WINDOW, ["down_s=15", "after_s=10", "profile=swift"], seed=1, figures=tmp_path)
    assert [name for name in result.measured if name in PROMISED] == PROMISED
    assert result.measured["recovered"] == 1
    assert result.measured["nack_window_max_ms"] > 100
    assert [result.measured[name] for name in ("lost", "duplicated", "reordered")] == [0, 0, 0]
    assert result.figure is not None
