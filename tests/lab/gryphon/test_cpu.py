"""Congestion of processors is followed like that of links, and NACKs cost as much as they ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.gryphon.cpu import BUSY_PHB, SLOW_SHB, NackCostModel
from penstock.model.errors import MisuseError
from penstock.protocol.frames import Heartbeat, Nack
from penstock.sim.host import CostModel


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


def test_a_nack_costs_what_it_asks_for() -> None:
    cost = NackCostModel(frame_ns=10, nacked_ms_ns=1_000)
    short, wide = ((1 << 16, (2 << 16) - 1),), ((0, (100 << 16) - 1), (200 << 16, (300 << 16) - 1))
    assert cost.batch_ns([Nack("p", "h", 1, 1, short)], 256) == 10 + 1_000
    assert cost.batch_ns([Nack("p", "h", 1, 1, wide), Heartbeat(1)], 512) == 20 + 200_000


def test_everything_else_costs_what_it_did() -> None:
    frames = [Heartbeat(1)] * 3
    plain, other = CostModel(frame_ns=10, message_ns=7, byte_ns=2), NackCostModel(10, 7, 2, nacked_ms_ns=5)
    assert other.batch_ns(frames, 100) == plain.batch_ns(frames, 100)
    assert not other.is_free


def test_costs_are_not_negative() -> None:
    with pytest.raises(MisuseError, match="nacked_ms_ns -1 is negative"):
        NackCostModel(nacked_ms_ns=-1)
    with pytest.raises(MisuseError, match="frame_ns -1 is negative"):
        NackCostModel(frame_ns=-1)
