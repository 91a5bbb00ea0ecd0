"""Real brokers: a message comes while it lives, and not afterwards, to whoever asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from live.support import run
from penstock.client.client import connect
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.message import Message
from penstock.session.received import Received

PLAN = OverlayPlan({"pb": ("pb.a",), "sb": ()}, [("sb", "pb")])
SHORT_S = 0.2


@pytest.fixture
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as made:
        run(made.linked())
        yield made


@pytest.mark.live
def test_what_has_expired_is_in_the_log_and_comes_to_nobody(overlay: DemoOverlay) -> None:
    async def play() -> None:
        async with connect(overlay.url("pb"), name="feed") as client:
            gone = await client.publish({"number": 1}, expires=SHORT_S)
            client.publish_nowait({"number": 2}, expires=3_600.0)
            await client.publish_many([Message({"number": 3}, expires=SHORT_S), Message({"number": 4})])
            await client.flush()
            span = (await client.survey()).spans["pb.a"]
            while span.latest >> 16 <= gone.timestamp_ms + SHORT_S * 1_000:
                # By the clock of the broker, which names its ticks.
                await asyncio.sleep(0.05)
                span = (await client.survey()).spans["pb.a"]
            logged = [
                Received("pb.a", tick, body)
                async for part in client.read("pb.a", span.earliest, span.latest)
                for tick, body in zip(part.ticks, part.bodies, strict=True)
            ]
            assert [each.attributes["number"] for each in logged] == [1, 2, 3, 4]
            assert logged[0].expires_at_ms == gone.timestamp_ms + 200
        for broker in ("pb", "sb"):
            async with connect(overlay.url(broker), name="late") as client:
                late = client.subscribe("TRUE", start="earliest")
                assert [(await late.get()).attributes["number"] for _ in range(2)] == [2, 4]
                assert late.lost_count == 0
                trace = await client.trace(gone)
                assert broker in trace.expired_at

    run(play())


@pytest.mark.live
def test_the_blocking_client_gives_messages_a_lifetime(overlay: DemoOverlay) -> None:
    with connect_sync(overlay.url("sb")) as client, client.subscribe("TRUE") as messages:
        messages.ready()
        client.publish({"number": 1}, expires=3_600.0)
        client.publish_many([Message({"number": 2}, expires=3_600.0)])
        got = [messages.get() for _ in range(2)]
        assert [each.attributes for each in got] == [{"number": 1}, {"number": 2}]
        assert all(each.expires_at_ms == each.published_at_ms + 3_600_000 for each in got)
