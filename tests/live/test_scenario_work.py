"""Workers at real brokers do every job once, though one of them and a pubend's broker are killed on the way."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from live.support import run
from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.session.errors import ClientError, WorkLostError
from penstock.session.settings import ClientSettings

JOBS = 2_000
STAR = OverlayPlan(
    {"b1": ("b1.a",), "b2": ("b2.a",), "b3": (), "b4": ()},
    [("b2", "b1"), ("b3", "b1"), ("b4", "b1"), ("b4", "b2")],
    {"heartbeat_ms": 100, "silent_ms": 1_000, "subscribe_wait_ms": 1_000},
)
PATIENT = ClientSettings(backoff_max_ms=200)


class Crew:
    """Workers, and what they were told."""

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()
        """How often the acknowledgement of each job counted."""
        self.unanswered: set[int] = set()
        """Jobs whose worker was killed while it acknowledged them: they may have counted, and nobody knows."""

    async def work(self, client: Client) -> None:
        subscription = await client.subscribe("job >= 0", shared="crew", work_ms=20_000, prefetch=20).ready()
        async for message in subscription:
            number = message.attributes["job"]
            assert isinstance(number, int)
            try:
                await subscription.acknowledge(message)
            except WorkLostError:
                continue
            except asyncio.CancelledError:
                self.unanswered.add(number)
                raise
            except ClientError:
                return
            self.done[number] += 1

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(120):
            while len({*self.done, *self.unanswered}) < count:
                await asyncio.sleep(0.05)


@pytest.mark.live
def test_every_job_is_acknowledged_once_though_a_worker_and_a_broker_are_killed() -> None:
    async def publish(client: Client, first: int, count: int) -> None:
        for number in range(first, first + count):
            pubend = ("b1.a", "b2.a")[number % 2]
            await client.publish({"job": number}, pubend=pubend)
        await client.flush()

    async def scenario(overlay: DemoOverlay) -> None:
        await overlay.linked()
        crew = Crew()
        clients = [connect(overlay.url(f"b{number}"), settings=PATIENT) for number in range(1, 5)]
        await asyncio.gather(*(client.open() for client in clients))
        tasks = [asyncio.create_task(crew.work(client)) for client in clients]
        async with connect(overlay.url("b3"), settings=PATIENT) as publisher:
            await asyncio.sleep(0.5)
            await publish(publisher, 0, JOBS // 2)
            await crew.reach(JOBS // 4)
            # A process that is killed says nothing more.
            tasks[3].cancel()
            clients[3]._shell.abort()
            overlay.kill("b2")
            overlay.start("b2")
            await publish(publisher, JOBS // 2, JOBS // 2)
            await crew.reach(JOBS)
        for client in clients[:3]:
            await client.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        await clients[3].close()
        assert max(crew.done.values()) == 1
        assert {*range(JOBS)} - {*crew.done} <= crew.unanswered
        assert len(crew.unanswered) <= 1

    with DemoOverlay(STAR) as overlay:
        run(scenario(overlay))
        overlay.check()
