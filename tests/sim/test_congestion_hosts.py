"""Hosts on which NACKs cost as much as they ask for."""

from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.protocol.frames import Heartbeat, Nack
from penstock.sim.congestion_hosts import NackCostModel
from penstock.sim.host import CostModel


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
