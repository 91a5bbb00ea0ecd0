"""A broker has its clients go to another one, and applications notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from live.support import FAST, until, with_port
from live.support import run as run_live
from penstock.broker.mechanisms.draining import Target
from penstock.broker.mechanisms.operating import Drain
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.client.sync import connect_sync
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.protocol.status import DrainStatus
from penstock.session.received import Received
from penstock.session.settings import ClientSettings

QUICK = ClientSettings(backoff_first_ms=5, backoff_max_ms=100, acknowledge_ms=50)


def star(folder: Path) -> Overlay:
    head = BrokerPlace("pb", 1, 0, pubends=("pb.a", "pb.loose"), best_effort=("pb.loose",), data=folder / "pb")
    hosts = [BrokerPlace(name, number, 0) for number, name in enumerate(("sb1", "sb2", "sb3"), start=2)]
    brokers = {each.name: replace(each, tunables=dict(FAST)) for each in (head, *hosts)}
    return Overlay("test", brokers, links=tuple((each.name, "pb") for each in hosts))


class World:
    """A head, three hosts, a publisher that goes on publishing, and readers that keep what they get."""

    def __init__(self, nodes: dict[str, BrokerNode], overlay: Overlay) -> None:
        self.nodes, self.overlay = nodes, overlay
        self.published: dict[str, int] = {"pb.a": 0, "pb.loose": 0}
        self.got: dict[str, list[tuple[str, int]]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def url(self, *names: str) -> str:
        return ",".join(self.overlay.place_of(name).address for name in names)

    def drain(self, broker: str, *to: str) -> None:
        places = [self.overlay.place_of(name) for name in to]
        self.nodes[broker].operate(Drain(tuple(Target(each.name, each.address) for each in places)))

    def drained(self, broker: str) -> DrainStatus:
        return self.nodes[broker].status().broker.migration.drain

    async def publish(self, client: Client) -> None:
        while True:
            for pubend in self.published:
                await client.publish({"n": self.published[pubend]}, pubend=pubend)
                self.published[pubend] += 1
            await asyncio.sleep(0.002)

    def read(self, name: str, subscription: Subscription) -> None:
        async def reading() -> None:
            async for message in subscription:
                self.got.setdefault(name, []).append(place_of(message))

        self._tasks.append(asyncio.create_task(reading()))

    def has_all(self, name: str) -> bool:
        """Whether the reader has the last that was published of each pubend."""
        last = dict(self.got.get(name, []))
        return last == {pubend: count - 1 for pubend, count in self.published.items()}

    def check(self, name: str) -> None:
        """Each message once and in order, of each pubend, from the first that it got to the last."""
        for pubend, count in self.published.items():
            numbers = self.numbers(name, pubend)
            assert numbers == list(range(numbers[0], count)), f"{name} of {pubend}"

    def numbers(self, name: str, pubend: str) -> list[int]:
        return [number for each, number in self.got[name] if each == pubend]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def place_of(message: Received) -> tuple[str, int]:
    number = message.attributes["n"]
    assert isinstance(number, int)
    return message.pubend, number


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[World]:
    overlay, nodes = star(folder), {}
    for name in overlay.brokers:
        nodes[name] = BrokerNode(overlay, name)
        await nodes[name].start()
        overlay = with_port(overlay, name, nodes[name].address[1])
    world = World(nodes, overlay)
    try:
        await until(lambda: len(nodes["sb3"].status().broker.brokers) == 4)
        yield world
    finally:
        await world.close()
        for node in nodes.values():
            await node.stop()
            assert node.counters.bugs == 0


def test_clients_move_while_messages_flow_and_nothing_is_lost_repeated_or_out_of_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as world, connect(world.url("pb"), settings=QUICK) as feed:
            readers = [connect(world.url("sb1"), name=f"r{number}", settings=QUICK) for number in range(6)]
            for number, reader in enumerate(readers):
                await reader.open()
                durable = "kept" if number == 0 else ""
                subscription = await reader.subscribe("n >= 0", durable=durable).ready()
                world.read(reader.name, subscription)
            publishing = asyncio.create_task(world.publish(feed))
            await until(lambda: all(len(world.got.get(reader.name, [])) > 20 for reader in readers))
            world.drain("sb1", "sb2", "sb3")
            await until(lambda: all(reader.counters.moves == 1 for reader in readers))
            assert {reader.broker for reader in readers} == {"sb2", "sb3"}
            await until(lambda: world.nodes["sb1"].status().broker.clients == 0)
            assert world.drained("sb1") == DrainStatus(on=True, left=6)
            await asyncio.sleep(0)
            publishing.cancel()
            await feed.flush()
            await until(lambda: all(world.has_all(reader.name) for reader in readers))
            for reader in readers:
                world.check(reader.name)
                assert reader.counters.reconnects == 0
                await reader.close()

    run_live(scenario())


@pytest.mark.parametrize("loud", [True, False], ids=["goodbye", "dead"])
def test_a_client_that_has_moved_is_looked_for_at_its_new_broker_first_and_then_everywhere(
    tmp_path: Path, loud: bool
) -> None:
    async def scenario() -> None:
        async with (
            running(tmp_path) as world,
            connect(world.url("pb"), settings=QUICK) as feed,
            connect(world.url("sb1"), name="reader", settings=QUICK) as reader,
        ):
            world.read("reader", await reader.subscribe("n >= 0").ready())
            publishing = asyncio.create_task(world.publish(feed))
            await until(lambda: len(world.got.get("reader", [])) > 20)
            world.drain("sb1", "sb2")
            await until(lambda: reader.broker == "sb2")
            world.nodes["sb1"].operate(Drain(()))
            if loud:
                await world.nodes["sb2"].stop()
                await until(lambda: reader.broker == "sb1" and reader.is_connected)
            else:
                connections = list(world.nodes["sb2"]._connections.values())
                for connection in [each for each in connections if not each.dialled]:
                    connection._transport.abort()  # type: ignore[union-attr]
                await until(lambda: reader.counters.reconnects == 1)
                assert reader.broker == "sb2"
            publishing.cancel()
            await feed.flush()
            await until(lambda: world.numbers("reader", "pb.a")[-1] == world.published["pb.a"] - 1)
            numbers = world.numbers("reader", "pb.a")
            assert numbers == list(range(numbers[0], world.published["pb.a"]))

    run_live(scenario())


def test_who_is_pinned_or_publishes_stays_and_the_operator_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            running(tmp_path) as world,
            connect(world.url("sb1"), name="statue", settings=replace(QUICK, pinned=True)) as statue,
        ):
            _kept = await statue.subscribe("n >= 0").ready()
            world.drain("sb1", "sb2")
            told = world.drained("sb1")
            assert (told.staying, told.reasons) == ({"pinned": 1}, ["client statue is pinned"])
            latecomer = connect(world.url("sb1", "sb2"), name="late", settings=QUICK)
            await latecomer.open()
            assert latecomer.broker == "sb2", "nobody is let in any more"
            await latecomer.close()
            assert statue.broker == "sb1"

    run_live(scenario())


def test_the_blocking_client_moves_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as world, connect(world.url("pb"), settings=QUICK) as feed:
            loop, got = asyncio.get_running_loop(), list[int]()

            def read() -> str:
                with connect_sync(world.url("sb1"), settings=QUICK) as client, client.subscribe("n >= -1") as messages:
                    messages.ready()
                    for message in messages:
                        pubend, number = place_of(message)
                        if number < 0:
                            return client.broker
                        if pubend == "pb.a":
                            got.append(number)
                raise AssertionError("the end has not come")

            reading = loop.run_in_executor(None, read)
            publishing = asyncio.create_task(world.publish(feed))
            await until(lambda: len(got) > 20)
            world.drain("sb1", "sb3")
            await until(lambda: world.drained("sb1").left == 1)
            publishing.cancel()
            await feed.publish({"n": -1}, pubend="pb.a")
            assert await reading == "sb3"
            assert got == list(range(got[0], got[-1] + 1))
            assert got[-1] >= world.published["pb.a"] - 1

    run_live(scenario())
