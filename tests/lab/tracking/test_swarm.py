"""The clients of ``tracking-latency`` load a broker, and count what comes back."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from penstock.client.client import connect
from penstock.lab.demo_overlay import BrokerProcessError, DemoOverlay, OverlayPlan
from penstock.lab.tracking.broker import broker_command
from penstock.lab.tracking.swarm import Load, Swarm, cpu_s
from penstock.sim.workloads import TopicWorkload
from penstock.tracking.settings import TrackingSettings

PLAN = OverlayPlan({"b1": ("b1.a",)}, service="best-effort")
SMALL = TopicWorkload(Random(4), publishers=3, subscribers=6, topics=4)


def test_a_load_knows_how_many_subscribers_want_each_message() -> None:
    load = Load(SMALL)
    assert len(load.messages) == 30
    assert {publisher for publisher, _, _ in load.messages} == {0, 1, 2}
    wanted = [
        sum(selector == f"topic = '{each.attributes['topic']}'" for selector in load.selectors)
        for each in SMALL.publications(30)
    ]
    assert [deliveries for _, _, deliveries in load.messages] == wanted
    assert len(set(wanted)) > 1


def test_a_swarm_publishes_receives_everything_and_the_broker_has_tracked_it() -> None:
    async def recorded(url: str, deliveries: int) -> dict[str, int]:
        """What is on record, once it is so much: brokers gather for a moment before they record."""
        async with asyncio.timeout(60), connect(url) as client:
            while True:
                found = (await client.status()).tracking.recorded
                assert isinstance(found, dict)
                if found["deliver"] >= deliveries and found["publish"] >= 60:
                    return found
                await asyncio.sleep(0.01)

    load = Load(SMALL)
    with DemoOverlay(PLAN, command=broker_command(TrackingSettings())) as overlay:
        before_s = cpu_s(overlay.pid("b1"))
        with Swarm(overlay.port("b1"), load) as swarm:
            # Twice around the ring, in two parts.
            first, again = (swarm.drive(seconds=0.1, rate=rate) for rate in (200.0, 400.0))
            assert (first[0], again[0]) == (20, 40)
            wanted = 2 * sum(deliveries for _, _, deliveries in load.messages)
            took_ns = first[1] + again[1]
            assert len(took_ns) == wanted
            assert all(0 < each < 60e9 for each in took_ns)
        assert cpu_s(overlay.pid("b1")) > before_s
        counted = asyncio.run(recorded(overlay.url("b1"), wanted))
        assert counted["publish"] == 60
        assert counted["deliver"] == wanted


def test_a_broker_that_goes_away_is_told() -> None:
    command = broker_command(TrackingSettings(strategy="null"))
    with DemoOverlay(PLAN, command=command) as overlay, Swarm(overlay.port("b1"), Load(SMALL)) as swarm:
        overlay.kill("b1")
        with pytest.raises((BrokerProcessError, ConnectionError)):
            swarm.drive(seconds=1, rate=200)


def test_processor_time_only_grows() -> None:
    before_s = cpu_s(os.getpid())
    sum(range(10**6))
    assert cpu_s(os.getpid()) > before_s > 0
