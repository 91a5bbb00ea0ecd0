"""Without control, hosts fall behind and queues fill."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.gryphon.collapse import COLLAPSE_BANDWIDTH, COLLAPSE_RECOVERY


@pytest.mark.long
def test_a_narrow_link_fills_its_queue_and_its_host_falls_behind(tmp_path: Path) -> None:
    measured = run_experiment(COLLAPSE_BANDWIDTH, ["observed_s=48"], seed=1, figures=tmp_path).measured
    assert measured["queue_max_bytes"] >= 5 * 1024 * 1024
    assert measured["sb1_rate_end"] < 180
    assert measured["sb2_rate_end"] > 480
    assert measured["lag_growth"] > 0.5
    assert measured["lag_end_s"] > 20
    assert (measured["duplicated"], measured["reordered"]) == (0, 0)


def test_with_control_the_same_link_does_no_harm(tmp_path: Path) -> None:
    settings = ["observed_s=40", "pdcc=on", "sdcc=on"]
    measured = run_experiment(COLLAPSE_BANDWIDTH, settings, seed=1, figures=tmp_path).measured
    assert measured["queue_max_bytes"] < 1_000_000
    assert measured["lag_end_s"] < 1


@pytest.mark.long
def test_a_recovery_over_a_narrow_link_makes_everybody_fall_behind(tmp_path: Path) -> None:
    measured = run_experiment(COLLAPSE_RECOVERY, ["down_s=15", "observed_s=40"], seed=1, figures=tmp_path).measured
    assert measured["sb1_rate_end"] < 400
    assert measured["lag_growth"] > 0.2
    assert (tmp_path / "gryphon-collapse-recovery.png").exists()
