"""Real processes: clients move from one broker to others while messages flow and brokers are killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

from live.support import run, until
from penstock.cli.admin import call_admin
from penstock.cli.app import app
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan, free_ports
from penstock.live.config import load_overlay
from penstock.session.settings import ClientSettings

HOSTS = ("sb1", "sb2", "sb3")
PATIENT = ClientSettings(backoff_max_ms=200)
READERS = 20


def star() -> OverlayPlan:
    own = {name: {"admin_port": port} for name, port in zip(HOSTS, free_ports(len(HOSTS)), strict=True)}
    settings = {"heartbeat_ms": 200, "silent_ms": 4_000}
    pubends = {"pb": ("pb.a",)} | dict.fromkeys(HOSTS, ())
    return OverlayPlan(pubends, [(name, "pb") for name in HOSTS], settings, own=own)


class Trading:
    """A publisher that goes on, and readers that keep the numbers they get."""

    def __init__(self, overlay: DemoOverlay, publisher: Client, readers: list[Client]) -> None:
        self.overlay, self._publisher, self.readers = overlay, publisher, readers
        self.published = 0
        self.got: list[list[int]] = [[] for _ in readers]

    async def publish(self) -> None:
        while True:
            await self._publisher.publish({"n": self.published})
            self.published += 1
            await asyncio.sleep(0.01)

    async def read(self, place: int, subscription: Subscription) -> None:
        async for message in subscription:
            number = message.attributes["n"]
            assert isinstance(number, int)
            self.got[place].append(number)

    def call(self, method: str, path: str) -> dict[str, object]:
        described = load_overlay(self.overlay.file)
        return call_admin(described, described.place_of("sb1"), method, path, seconds_max=30, without="")

    def drain_to(self, *names: str) -> None:
        query = urlencode([("to", f"{name}=0") for name in names])
        self.call("POST", f"/drain?{query}")

    async def settle(self, publishing: asyncio.Task[None]) -> None:
        """Everybody has everything, once and in order."""
        publishing.cancel()
        await self._publisher.flush()
        await until(lambda: all(got and got[-1] == self.published - 1 for got in self.got))
        for place, got in enumerate(self.got):
            assert got == list(range(self.published)), f"reader {place}"


@asynccontextmanager
async def trading(overlay: DemoOverlay) -> AsyncIterator[tuple[Trading, asyncio.Task[None]]]:
    await overlay.linked()
    async with AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(connect(overlay.url("pb"), settings=PATIENT))
        readers = [connect(overlay.url("sb1"), name=f"r{place}", settings=PATIENT) for place in range(READERS)]
        world, tasks = Trading(overlay, publisher, readers), list[asyncio.Task[None]]()
        for place, reader in enumerate(readers):
            await stack.enter_async_context(reader)
            subscription = reader.subscribe("n >= 0", durable="kept" if place == 0 else "")
            while "pb.a" not in (await subscription.ready()).starts:
                await asyncio.sleep(0.01)
            tasks.append(asyncio.create_task(world.read(place, subscription)))
        publishing = asyncio.create_task(world.publish())
        await until(lambda: all(len(got) > 5 for got in world.got))
        yield world, publishing
        for task in (*tasks, publishing):
            task.cancel()
        await asyncio.gather(*tasks, publishing, return_exceptions=True)


def test_a_broker_is_drained_by_command_and_stops_and_applications_notice_nothing() -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        async with trading(overlay) as (world, publishing):
            command = ["drain", str(overlay.file), "sb1"]
            result = await asyncio.to_thread(CliRunner().invoke, app, command)
            assert result.exit_code == 0, result.output
            assert "sb1 stops: 20 clients have gone to sb2, sb3, 0 stayed" in result.output
            assert {reader.broker for reader in world.readers} == {"sb2", "sb3"}
            assert await asyncio.to_thread(overlay.kill, "sb1", signal.SIGCONT) == 0
            await world.settle(publishing)
            assert all(each.counters.moves == 1 and each.counters.reconnects == 0 for each in world.readers)

    with DemoOverlay(star()) as overlay:
        run(scenario(overlay))


@pytest.mark.parametrize("victim", ["sb1", "sb2"], ids=["old", "new"])
def test_a_broker_that_is_killed_while_clients_move_costs_nothing(victim: str) -> None:
    async def scenario(overlay: DemoOverlay) -> None:
        async with trading(overlay) as (world, publishing):
            await asyncio.to_thread(world.drain_to, "sb2")
            # Some have their new connection, none has been let go by then.
            async with connect(overlay.url("sb2"), name="witness") as witness:
                while (await witness.status()).clients < READERS // 2:
                    await asyncio.sleep(0.005)
            await asyncio.to_thread(overlay.kill, victim)
            await asyncio.to_thread(overlay.start, victim)
            await until(lambda: all(reader.is_connected for reader in world.readers))
            await world.settle(publishing)

    with DemoOverlay(star()) as overlay:
        run(scenario(overlay))
