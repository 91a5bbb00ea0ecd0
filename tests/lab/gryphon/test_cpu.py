"""Congestion of processors is followed like that of links."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.gryphon.cpu import BUSY_PHB, SLOW_SHB


@pytest.mark.long
def test_a_slow_host_is_followed_and_forgiven(tmp_path: Path) -> None:
    measured = run_experiment(SLOW_SHB, ["slow_s=25", "after_s=20", "profile=swift"], seed=1, figures=tmp_path).measured
    assert measured["capacity_msg_s"] == 250
    # The host is busy with control frames, too, which the capacity does not count.
    assert 0.4 < measured["utilisation"] <= 1.05
    assert measured["rate_after"] > 450
    assert [measured[name] for name in ("lost", "duplicated", "reordered")] == [0, 0, 0]
    assert measured["lag_end_s"] < 1


@pytest.mark.long
def test_a_broker_busy_with_nacks_still_serves_publishers_and_recovery(tmp_path: Path) -> None:
    settings = ["down_s=15", "after_s=20", "profile=swift"]
    measured = run_experiment(BUSY_PHB, settings, seed=1, figures=tmp_path).measured
    assert measured["recovered"] == 1
    assert measured["busy_share"] > 0.5
    assert 0 < measured["rate_in_recovery"] < measured["rate_before"]
    assert [measured[name] for name in ("lost", "duplicated", "reordered")] == [0, 0, 0]
