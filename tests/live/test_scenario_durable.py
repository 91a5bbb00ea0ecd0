"""Real broker processes with real stores: what was acknowledged outlives a kill -9, and arrives once and in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from live.support import FramePeer, guaranteed, run, until
from penstock.client.client import connect
from penstock.client.subscription import Subscription
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.live.node import BrokerNode
from penstock.model.body import decode_attributes
from penstock.protocol.frames import HeldBack, PublishAck, Subscribe
from penstock.session.received import Received
from penstock.session.settings import ClientSettings

PAIR = OverlayPlan(
    {"pb": ("pb.a",), "sb": ()},
    [("sb", "pb")],
    {"heartbeat_ms": 100, "silent_ms": 1_000, "subscribe_wait_ms": 1_000},
)
PATIENT = ClientSettings(backoff_max_ms=200)
COUNT = 300
LINE = OverlayPlan(
    {"pb": ("pb.a",), "ib": (), "sb": (), "tb": ()},
    [("ib", "pb"), ("sb", "ib"), ("tb", "ib")],
    {"heartbeat_ms": 100, "silent_ms": 1_000, "subscribe_wait_ms": 1_000},
)


async def numbers(subscription: Subscription, count: int) -> list[object]:
    found: list[object] = []
    async for message in subscription:
        found.append(message.attributes["number"])
        if len(found) == count:
            break
    return found


def test_what_was_published_around_a_kill_arrives_once_and_in_order() -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        await overlay.linked()
        async with (
            connect(overlay.url("pb"), settings=PATIENT) as publisher,
            connect(overlay.url("sb"), settings=PATIENT) as subscriber,
        ):
            subscription = await subscriber.subscribe("number >= 0").ready()
            listening = asyncio.create_task(numbers(subscription, COUNT))
            for number in range(COUNT):
                if number in (COUNT // 3, 2 * COUNT // 3):
                    overlay.kill("pb")
                    overlay.start("pb")
                await publisher.publish({"number": number})
            await publisher.flush()
            assert await listening == list(range(COUNT))

    with DemoOverlay(PAIR) as overlay:
        run(scenario(overlay))
        overlay.check()


@pytest.mark.live
def test_who_is_killed_and_comes_back_elsewhere_gets_only_the_messages_that_were_left_open() -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        await overlay.linked()
        async with connect(overlay.url("pb"), settings=PATIENT) as publisher:
            victim = await connect(overlay.url("sb"), settings=PATIENT).open()
            jobs = await victim.subscribe("number >= 0", durable="jobs", acknowledge="manual").ready()
            for number in range(COUNT):
                await publisher.publish({"number": number})
            await publisher.flush()
            messages = [await jobs.get() for _ in range(COUNT)]
            done = Random(7).sample(messages[1:], 2 * COUNT // 3)
            await asyncio.gather(*(kept(jobs, each) for each in done[: COUNT // 3]))
            # Whoever waits goes on waiting, until the pubend is there again.
            waiting = [asyncio.ensure_future(kept(jobs, each)) for each in done[COUNT // 3 :]]
            await asyncio.sleep(0)
            overlay.kill("pb")
            overlay.start("pb")
            await asyncio.gather(*waiting)
            # A process that is killed says nothing more, and neither does its broker.
            victim._shell.abort()
            overlay.kill("sb")
            overlay.kill("pb")
            overlay.start("pb")
            async with connect(overlay.url("tb"), settings=PATIENT) as client:
                again = await client.subscribe("number >= 0", durable="jobs").ready()
                for number in range(COUNT, COUNT + 3):
                    await publisher.publish({"number": number})
                await publisher.flush()
                finished = {each.attributes["number"] for each in done}
                left = [number for number in range(COUNT + 3) if number not in finished]
                assert await numbers(again, len(left)) == left

    with DemoOverlay(LINE) as overlay:
        run(scenario(overlay))


async def kept(subscription: Subscription, message: Received) -> None:
    await subscription.acknowledge(message)


async def replayed(node: BrokerNode, count: int) -> list[object]:
    """What a subscriber to all that is kept gets, which is to be so much."""
    peer = await FramePeer.client(node.address, "reader")
    peer.send(Subscribe(1, "number >= 0", otherwise=0))
    await peer.deliveries(count)
    await peer.close()
    return [decode_attributes(body)["number"] for body in peer.delivered()]


def test_a_broker_that_starts_again_serves_what_it_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        for life in range(3):
            async with BrokerNode(guaranteed(tmp_path), "b1") as node:
                peer = await FramePeer.client(node.address)
                peer.publish(*({"number": 10 * life + each} for each in range(10)))
                await until(lambda peer=peer: peer.all(PublishAck))  # type: ignore[misc]
                assert await replayed(node, 10 * life + 10) == list(range(10 * life + 10))
                await peer.close()

    run(scenario())


def test_a_full_store_holds_publishers_back_and_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(guaranteed(tmp_path, data_bytes_max=1 << 20), "b1") as node:
            peer = await FramePeer.client(node.address)
            peer.publish({"number": 0}, payload=bytes(600_000))
            acknowledged = await peer.get(PublishAck)
            peer.publish({"number": 1}, payload=bytes(600_000))
            assert "is full" in (await peer.get(HeldBack)).reason
            assert peer.all(PublishAck)[-1].sequence == acknowledged.sequence == 1
            await peer.close()
        async with BrokerNode(guaranteed(tmp_path), "b1") as node:
            assert await replayed(node, 1) == [0]

    run(scenario())
