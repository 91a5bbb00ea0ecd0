"""Real processes, killed: the rest goes on, ways are found around the dead, clients come back by themselves."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from live.support import FramePeer, lone, run, until
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.live.node import BrokerNode
from penstock.session.settings import ClientSettings

# Two ways lead from the publishers to the subscribers.
SQUARE = OverlayPlan(
    {"pb": ("pb.a",), "ib1": (), "ib2": (), "sb": ()},
    [("ib1", "pb"), ("ib2", "pb"), ("sb", "ib1"), ("sb", "ib2")],
    {"heartbeat_ms": 100, "silent_ms": 1_000, "subscribe_wait_ms": 1_000},
)
PATIENT = ClientSettings(backoff_max_ms=200)


@asynccontextmanager
async def trading(overlay: DemoOverlay) -> AsyncIterator[tuple[Client, Subscription]]:
    await overlay.linked()
    async with (
        connect(overlay.url("pb"), settings=PATIENT) as publisher,
        connect(overlay.url("sb"), settings=PATIENT) as subscriber,
    ):
        yield publisher, await subscriber.subscribe("number >= 0").ready()
        # What was on its way to a broker that was killed is lost, and a flush would say so.
        await publisher.close(flush=False)


async def reaches(publisher: Client, subscription: Subscription, start: int) -> int:
    """Publishes numbers from the start on until one of them arrives; best effort may lose some on the way."""
    sent, arrived = start, asyncio.Event()

    async def listen() -> None:
        async for message in subscription:
            number = message.attributes["number"]
            assert isinstance(number, int)
            if number >= start:
                arrived.set()
                return

    listening = asyncio.create_task(listen())
    while not arrived.is_set():
        if publisher.is_connected:
            await publisher.publish({"number": sent})
            sent += 1
        await asyncio.sleep(0.01)
    await listening
    return sent


def test_killing_any_broker_leaves_the_rest_at_work_and_its_return_is_noticed() -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        async with trading(overlay) as (publisher, subscription):
            number = await reaches(publisher, subscription, 0)
            # One of the two ways at a time, so that whichever the tree uses is hit.
            for name in ("ib1", "ib2", "sb", "pb"):
                overlay.kill(name)
                if name.startswith("ib"):
                    number = await reaches(publisher, subscription, number)
                overlay.start(name)
                number = await reaches(publisher, subscription, number)
            await overlay.linked()

    with DemoOverlay(SQUARE) as overlay:
        run(scenario(overlay))
        overlay.check()


def test_connections_that_come_and_go_leave_nothing_behind() -> None:
    async def come_and_go(node: BrokerNode, times: int) -> None:
        for _ in range(times):
            peer = await FramePeer.client(node.address)
            await peer.subscribe(1, "x > 1")
            peer.publish({"x": 2})
            await peer.deliveries(1)
            await peer.close()
        await until(lambda: node.status().broker.clients == 0)

    async def scenario() -> None:
        async with BrokerNode(lone(), "b1") as node:
            await come_and_go(node, 20)
            tasks, objects = len(asyncio.all_tasks()), _objects()
            memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await come_and_go(node, 200)
            assert len(asyncio.all_tasks()) <= tasks
            # Less than one object per connection: nothing is kept for those that have gone.
            assert _objects() - objects < 200
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kib < 20_000
            status = node.status().broker
            assert status.subscriptions == 0
            assert status.outbox_bytes == 0
            node.broker.check_invariants()  # type: ignore[attr-defined]

    run(scenario())


def _objects() -> int:
    gc.collect()
    return len(gc.get_objects())
