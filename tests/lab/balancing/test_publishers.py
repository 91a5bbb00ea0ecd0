"""Balancing of publishers, quickly: all metrics are there, publishers move, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab.balancing.publishers import BALANCING_PUBLISHERS
from penstock.lab.frame.experiment import run_experiment


@pytest.mark.parametrize("are_heads", [False, True])
def test_a_quick_run_moves_publishers_and_loses_nothing(tmp_path: Path, *, are_heads: bool) -> None:
    chosen = ["subscribers=40", "publishers=8", "seconds=200", f"heads={are_heads}"]
    measured = run_experiment(BALANCING_PUBLISHERS, chosen, seed=1, quick=True, figures=tmp_path).measured
    assert sum(measured[f"publishers_B{number}"] for number in range(1, 5)) == 8
    assert measured["publishers_moved"] > 0
    for law in ("lost", "duplicated", "reordered", "given_up", "unacknowledged"):
        assert measured[law] == 0, law
    assert (tmp_path / "balancing-publishers.png").exists()
