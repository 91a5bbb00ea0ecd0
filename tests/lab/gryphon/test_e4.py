"""E4 compares recoveries by what they demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.congestion import CongestionSettings
from penstock.lab import run_experiment
from penstock.lab.gryphon.e4 import E4
from penstock.lab.gryphon.recovery import recover
from penstock.model.reporting import QuietReporter


@pytest.mark.long
def test_two_demands_are_compared(tmp_path: Path) -> None:
    settings = ["settings=2", "down_s=15", "limit_s=60", "processes=1"]
    measured = run_experiment(E4, settings, seed=1, figures=tmp_path).measured
    assert list(measured)[:3] == ["recovery_s_0.2", "recovery_s_2.0", "spearman"]
    assert measured["ratio"] == round(measured["recovery_s_0.2"] / measured["recovery_s_2.0"], 3)
    assert measured["recovered"] == 1
    assert [measured[name] for name in ("lost", "duplicated", "reordered")] == [0, 0, 0]
    assert (tmp_path / "gryphon-e4.png").stat().st_size > 5_000
    # Demands share what was before their recovery: it must make no difference.
    alone = recover(
        CongestionSettings(recovering_margin=2.0),
        QuietReporter(),
        seed=1,
        kbytes_s=500,
        down_s=15,
        limit_s=60,
        after_s=0,
    )
    assert measured["recovery_s_2.0"] == round(alone.recovery_s, 1)
