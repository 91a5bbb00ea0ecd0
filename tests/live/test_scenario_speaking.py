"""Real brokers: clients that start first, tell what happens, wait for a time only, and pause their subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from live.support import run
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.message import Message
from penstock.session.errors import PublishTimeoutError
from penstock.session.events import Connected, ConnectFailed, Disconnected
from penstock.session.settings import ClientSettings

PLAN = OverlayPlan({"pb": ("pb.a",), "sb": ()}, [("sb", "pb")], defaults={"retain_ms": 60_000})
MESSAGES = 300
QUICK = ClientSettings(backoff_max_ms=200)


@pytest.fixture
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as made:
        run(made.linked())
        yield made


async def numbers(subscription: Subscription, how_many: int) -> list[object]:
    return [(await subscription.get()).attributes["number"] for _ in range(how_many)]


async def publish(client: Client, first: int, last: int) -> None:
    for number in range(first, last):
        await client.publish({"number": number}, pubend="pb.a", timeout_s=60)
    await client.flush(timeout_s=60)


def large() -> Iterator[Message]:
    """More than any window has room for."""
    return (Message({"number": number}, bytes(100_000)) for number in count(1))


@pytest.mark.live
def test_a_client_that_starts_before_its_broker_finds_it_and_tells_what_happens(overlay: DemoOverlay) -> None:
    async def play() -> None:
        overlay.kill("sb")
        client = connect(overlay.url("sb"), settings=QUICK)
        events = client.events()
        opening = asyncio.create_task(client.open())
        assert isinstance(await events.get(), ConnectFailed)
        overlay.start("sb")
        await opening
        event = await events.get()
        while isinstance(event, ConnectFailed):
            event = await events.get()
        assert event == Connected("sb", overlay.url("sb"))
        overlay.kill("sb")
        assert isinstance(await events.get(), Disconnected)
        overlay.start("sb")
        while not client.is_connected:
            await asyncio.sleep(0.02)
        await client.close()
        last = [event async for event in events][-1]
        assert isinstance(last, Connected)
        assert last.away_ms is not None

    run(play())


@pytest.mark.live
def test_a_paused_subscription_goes_on_without_a_gap_though_its_broker_died_meanwhile(overlay: DemoOverlay) -> None:
    async def play() -> None:
        async with connect(overlay.url("pb")) as publisher, connect(overlay.url("sb"), settings=QUICK) as reader:
            paused = await reader.subscribe("number >= 0").ready()
            durable = await reader.subscribe("number >= 0", durable="bill").ready()
            other = await reader.subscribe("number >= 0").ready()
            await publish(publisher, 0, MESSAGES)
            got = [await numbers(each, 10) for each in (paused, durable)]
            for each in (paused, durable):
                each.pause()
            await publish(publisher, MESSAGES, 2 * MESSAGES)
            assert await numbers(other, 2 * MESSAGES) == [*range(2 * MESSAGES)]
            assert paused.queued < MESSAGES
            overlay.kill("sb")
            overlay.start("sb")
            while not (reader.counters.reconnects and other.is_ready):
                await asyncio.sleep(0.02)
            assert paused.is_paused
            await publish(publisher, 2 * MESSAGES, 3 * MESSAGES)
            assert await numbers(other, MESSAGES) == [*range(2 * MESSAGES, 3 * MESSAGES)]
            for each in (paused, durable):
                each.resume()
            for each, first in zip((paused, durable), got, strict=True):
                assert first + await numbers(each, 3 * MESSAGES - 10) == [*range(3 * MESSAGES)]
                assert each.lost == []

    run(play())


@pytest.mark.live
def test_a_message_that_cannot_be_queued_in_time_is_never_sent(overlay: DemoOverlay) -> None:
    async def known() -> None:
        async with connect(overlay.url("sb")) as client:
            while "pb.a" not in client.pubends:
                await asyncio.sleep(0.02)

    run(known())
    with connect_sync(overlay.url("sb")) as client, connect_sync(overlay.url("sb")) as reader:
        events = client.events()
        messages = reader.subscribe("number >= 0").ready()
        client.publish({"number": 0}, pubend="pb.a")
        client.flush(timeout_s=60)
        overlay.kill("pb")
        with pytest.raises(PublishTimeoutError, match="out of reach") as caught:
            client.publish_many(large(), pubend="pb.a", timeout_s=3)
        sent = len(caught.value.messages) + 1
        assert "pb.a are held back" in str(events.get(timeout_s=60))
        overlay.start("pb")
        client.publish({"number": sent + 1}, pubend="pb.a", timeout_s=60)
        client.flush(timeout_s=60)
        expected = [*range(sent), sent + 1]
        assert [messages.get(timeout_s=60).attributes["number"] for _ in expected] == expected
