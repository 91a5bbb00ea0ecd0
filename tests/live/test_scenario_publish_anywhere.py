"""Real brokers: a client publishes where it is connected, wherever the pubend is, and goes on if its broker dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from live.support import run
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.session.errors import UnknownPubendError

PLAN = OverlayPlan(
    {"pb1": ("pb1.a",), "pb2": ("pb2.a",), "ib": (), "sb1": (), "sb2": ()},
    [("pb1", "ib"), ("pb2", "ib"), ("sb1", "ib"), ("sb2", "ib")],
)
MESSAGES = 600


@pytest.fixture
def overlay() -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as made:
        # A subscription at a broker that has no link yet is ready at once, and misses what others publish.
        run(made.linked())
        yield made


async def both_known(client: Client) -> None:
    while len(client.pubends) < 2:
        await asyncio.sleep(0.02)


async def read(subscription: Subscription, count: int) -> dict[str, list[int]]:
    got: dict[str, list[int]] = {}
    for _ in range(count):
        message = await subscription.get()
        number = message.attributes["number"]
        assert isinstance(number, int)
        got.setdefault(message.pubend, []).append(number)
    return got


@pytest.mark.live
def test_a_killed_door_loses_nothing_and_the_publisher_goes_on_at_another_one(overlay: DemoOverlay) -> None:
    async def play() -> None:
        doors = ",".join(map(overlay.url, ("sb1", "sb2")))
        async with connect(overlay.url("pb1")) as reader, connect(doors) as publisher:
            await both_known(publisher)
            subscription = await reader.subscribe("number >= 0").ready()
            killed = asyncio.Event()

            async def publish() -> None:
                for number in range(MESSAGES):
                    await publisher.publish({"number": number}, pubend=("pb1.a", "pb2.a")[number % 2])
                    if number == MESSAGES // 2:
                        overlay.kill("sb1")
                        killed.set()
                    await asyncio.sleep(0)
                await publisher.flush()

            publishing = asyncio.create_task(publish())
            got = await read(subscription, MESSAGES)
            await publishing
            assert killed.is_set()
            assert got == {"pb1.a": [*range(0, MESSAGES, 2)], "pb2.a": [*range(1, MESSAGES, 2)]}
            assert publisher.broker == "sb2"
            counters = publisher.counters
            assert (counters.acknowledged, counters.lost, counters.refused) == (MESSAGES, 0, 0)

    run(play())


@pytest.mark.live
def test_a_killed_home_takes_each_message_once_when_it_is_back(overlay: DemoOverlay) -> None:
    async def play() -> None:
        async with connect(overlay.url("sb1")) as reader, connect(overlay.url("sb2")) as publisher:
            await both_known(publisher)
            subscription = await reader.subscribe("number >= 0").ready()

            async def publish() -> None:
                for number in range(MESSAGES):
                    await publisher.publish({"number": number}, pubend="pb1.a")
                    if number == MESSAGES // 2:
                        overlay.kill("pb1")
                await publisher.flush()

            publishing = asyncio.create_task(publish())
            while "out of reach" not in publisher.held_back:
                await asyncio.sleep(0.02)
            # Nobody else waits for a pubend that is away.
            other = connect(overlay.url("sb2"))
            async with other:
                await other.publish({"number": -1}, pubend="pb2.a")
                await other.flush()
            overlay.start("pb1")
            assert await read(subscription, MESSAGES) == {"pb1.a": [*range(MESSAGES)]}
            await publishing
            assert publisher.counters.lost == 0

    run(play())


@pytest.mark.live
def test_the_blocking_client_says_which_pubends_there_are_and_traces_show_the_way_up(overlay: DemoOverlay) -> None:
    with connect_sync(overlay.url("sb1")) as client, client.subscribe("number = 1") as messages:
        messages.ready()
        with pytest.raises(UnknownPubendError, match=r"no pubend 'nosuch'; there are: pb1.a, pb2.a"):
            client.publish({"number": 1}, pubend="nosuch")
        message_id = client.publish({"number": 1}, pubend="pb2.a")
        client.flush()
        assert messages.get().id == message_id
        trace = client.trace(message_id)
        assert (trace.published_at, trace.delivered_by) == ("sb1", ("sb1",))
        assert set(trace.routed_by) == {"sb1", "ib", "pb2"}
