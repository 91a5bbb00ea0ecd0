"""An overlay that changes under load: brokers and links come and go, all are restarted, nothing is lost or twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from live.support import run, until
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.demo_overlay import free_ports
from penstock.live.config import load_overlay
from penstock.live.node import BrokerNode
from penstock.session.settings import ClientSettings

NAMES = ("b1", "b2", "b3")
QUICK = ClientSettings(backoff_max_ms=200)


class Site:
    """An overlay file that is edited, and the nodes that read it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "overlay.toml"
        self.ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self.nodes: dict[str, BrokerNode] = {}

    def write(self, *links: tuple[str, str]) -> None:
        lines = ['overlay = "site"', "[defaults]", "heartbeat_ms = 100", "silent_ms = 2000"]
        for name in sorted({name for link in links for name in link}):
            lines += [f"[brokers.{name}]", f"port = {self.ports[name]}"]
            lines += [f'pubends = ["{name}.a"]'] if name == "b1" else []
        for left, right in links:
            lines += ["[[links]]", f'between = ["{left}", "{right}"]']
        self.file.write_text("\n".join(lines) + "\n")

    async def start(self, name: str) -> None:
        self.nodes[name] = BrokerNode(load_overlay(self.file), name)
        await self.nodes[name].start()

    def apply(self) -> None:
        for node in self.nodes.values():
            node.reread()

    def links(self, name: str) -> list[str]:
        found: list[str] = self.nodes[name].status().broker.links
        return found

    def client(self, name: str) -> Client:
        return connect(f"penstock://127.0.0.1:{self.ports[name]}", settings=QUICK)


@dataclass
class Reader:
    """Reads a subscription to its end."""

    subscription: Subscription
    numbers: list[object] = field(default_factory=list)

    async def read(self) -> None:
        async for message in self.subscription:
            self.numbers.append(message.attributes["number"])


async def publish(client: Client, numbers: count[int], stopping: asyncio.Event) -> int:
    while True:
        number = next(numbers)
        await client.publish({"number": number})
        if stopping.is_set():
            await client.flush()
            return number
        await asyncio.sleep(0.001)


def test_an_overlay_grows_changes_and_is_restarted_under_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        site, stopping = Site(tmp_path), asyncio.Event()
        site.write(("b2", "b1"))
        await site.start("b1")
        await site.start("b2")
        async with site.client("b1") as publisher, site.client("b2") as near:
            first = Reader(await near.subscribe("number >= 0").ready())
            reading = [asyncio.create_task(first.read())]
            publishing = asyncio.create_task(publish(publisher, count(), stopping))
            # A broker more, with one link, and a subscriber there.
            site.write(("b2", "b1"), ("b3", "b2"))
            await site.start("b3")
            site.apply()
            await until(lambda: site.links("b3") == ["b2"])
            async with site.client("b3") as far:
                second = Reader(await far.subscribe("number >= 0").ready())
                reading.append(asyncio.create_task(second.read()))
                await until(lambda: second.numbers)
                # Another way round, and then only that one.
                site.write(("b2", "b1"), ("b3", "b2"), ("b3", "b1"))
                site.apply()
                await until(lambda: site.links("b3") == ["b1", "b2"])
                site.write(("b3", "b2"), ("b3", "b1"))
                site.apply()
                await until(lambda: site.links("b1") == ["b3"] and site.links("b2") == ["b3"])
                heard = len(first.numbers)
                await until(lambda: len(first.numbers) > heard)
                for name in NAMES:
                    await site.nodes[name].stop()
                    await site.start(name)
                    await until(lambda: site.links("b3") == ["b1", "b2"])
                stopping.set()
                last = await publishing
                await until(lambda: first.numbers[-1:] == second.numbers[-1:] == [last])
                assert first.numbers == list(range(last + 1))
                start = second.numbers[0]
                assert isinstance(start, int)
                assert second.numbers == list(range(start, last + 1))
                assert publisher.counters.lost == 0
        await asyncio.gather(*reading)
        for node in site.nodes.values():
            await node.stop()
            assert node.counters.bugs == 0

    run(scenario())


def test_a_broker_that_is_removed_is_forgotten_by_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(tmp_path)
        site.write(("b2", "b1"), ("b3", "b2"))
        for name in NAMES:
            await site.start(name)
        await until(lambda: len(site.nodes["b1"].status().broker.brokers) == 3)
        site.write(("b2", "b1"))
        removed = site.nodes.pop("b3")
        site.apply()
        await until(lambda: all(node.status().broker.brokers == ["b1", "b2"] for node in site.nodes.values()))
        await until(lambda: all(node.status().broker.filters.hosts == 1 for node in site.nodes.values()))
        for node in (removed, *site.nodes.values()):
            await node.stop()
            assert node.counters.bugs == 0

    run(scenario())
