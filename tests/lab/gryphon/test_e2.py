"""E2 follows a bottleneck up and down, and says so in the metrics that were promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.gryphon.e2 import E2


@pytest.mark.long
def test_the_rate_follows_the_bottleneck(tmp_path: Path) -> None:
    measured = run_experiment(E2, ["phase_s=20", "profile=swift"], seed=1, figures=tmp_path).measured
    for number in (1, 2, 3):
        assert 0.7 < measured[f"utilisation_{number}"] <= 1.0
        assert 0 < measured[f"adapt_s_{number}"] < 20
        assert measured[f"mean_lag_s_{number}"] < 1
    assert [measured[name] for name in ("lost", "duplicated", "reordered", "undelivered")] == [0, 0, 0, 0]
    assert measured["queue_max_bytes"] < 300_000
    assert measured["lag_end_s"] < 1
    assert (tmp_path / "gryphon-e2.png").stat().st_size > 10_000
