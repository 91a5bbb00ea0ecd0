"""The driver of the comparison against a real broker of Penstock, at a tiny size."""

from __future__ import annotations

import pytest
from bench.peers.measuring import Length, measure
from bench.peers.penstock import PenstockPeer
from bench.peers.penstock_stomp import StompPenstock
from bench.peers.workloads import workloads

pytestmark = pytest.mark.live


@pytest.mark.parametrize("group", ["topics", "fan-out", "selectors", "acknowledged", "durable-topics"])
def test_a_broker_of_penstock_can_be_measured(group: str) -> None:
    workload = workloads(group, seed=0, quick=True)[0]
    figures = measure(PenstockPeer(), workload, Length(warm_up_s=0.05, measured_s=0.2))
    assert figures["messages_per_s"] > 0
    assert figures["cpu_us"] >= 0
    assert (figures["deliveries_per_s"] > 0) == bool(workload.interests)


@pytest.mark.parametrize("group", ["stomp-selectors", "stomp-topics", "stomp-connections"])
def test_a_broker_of_penstock_can_be_measured_by_stomp(group: str) -> None:
    workload = workloads(group, seed=0, quick=True)[0]
    figures = measure(StompPenstock(), workload, Length(warm_up_s=0.05, measured_s=0.2))
    assert figures["deliveries_per_s"] > 0
    assert figures["held"] == len(workload.interests)
