"""A broker with a store goes and comes back: its clients return by themselves, and nothing is lost or repeated."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from client.scripted import QUICK, run, until
from live.support import FAST, guaranteed
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.demo_overlay import free_ports
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.session.received import Received

PUBEND = "b1.a"
LIVES = 3
PER_LIFE = 200
GRACE_MS = 2_000
"""A broker that has just started waits so long for its clients before the pubend believes what they have."""


@dataclass
class Reader:
    """Reads a subscription to its end."""

    subscription: Subscription
    received: list[Received] = field(default_factory=list)

    async def read(self) -> None:
        async for message in self.subscription:
            self.received.append(message)

    @property
    def numbers(self) -> list[object]:
        return [each.attributes["number"] for each in self.received]


def acknowledged(node: BrokerNode) -> int:
    """What the pubend knows its subscribers to have: everything below this tick."""
    hosts: dict[str, int] = node.broker.status().guaranteed.pubends[PUBEND].hosts
    return hosts.get("b1", 0)


async def publish(publisher: Client, life: int) -> None:
    """Numbers, of which one in ten is rare."""
    for number in range(PER_LIFE * life, PER_LIFE * (life + 1)):
        await publisher.publish({"number": number, "rare": number % 10 == 0})
        if number % 10 == 0:
            # So that the broker goes in the middle of them.
            await asyncio.sleep(0)


def has_moved(count: int, everything: Reader, rare: Reader) -> bool:
    """Whether so many numbers have come, and positions have moved beyond the last of them: by silence."""
    if len(everything.received) < count or len(rare.received) < count // 10:
        return False
    last = everything.received[-1].tick
    return all(each.subscription.positions[PUBEND] > last + 1 for each in (everything, rare))


async def in_many_lives(overlay: Overlay, node: BrokerNode, publisher: Client, *readers: Reader) -> BrokerNode:
    """Publishes while the broker is there, while it goes and while it is away; answers with its last life."""
    for life in range(LIVES):
        count = PER_LIFE * (life + 1)
        publishing = asyncio.create_task(publish(publisher, life))
        if life:
            await node.stop()
            node = BrokerNode(overlay, "b1")
            await node.start()
        await publishing
        await publisher.flush()
        await until(partial(has_moved, count, *readers))
    return node


def test_over_the_lives_of_a_broker_nothing_is_lost_or_repeated_and_positions_move(tmp_path: Path) -> None:
    async def test() -> None:
        overlay = guaranteed(tmp_path, port=free_ports(1)[0], tunables=FAST | {"grace_ms": GRACE_MS})
        node = BrokerNode(overlay, "b1")
        await node.start()
        url = "penstock://{}:{}".format(*node.address)
        async with connect(url, settings=QUICK) as publisher, connect(url, settings=QUICK) as subscriber:
            everything = Reader(await subscriber.subscribe("number >= 0").ready())
            rare = Reader(await subscriber.subscribe("rare = TRUE").ready())
            reading = [asyncio.create_task(each.read()) for each in (everything, rare)]
            node = await in_many_lives(overlay, node, publisher, everything, rare)
            assert everything.numbers == list(range(LIVES * PER_LIFE))
            assert rare.numbers == list(range(0, LIVES * PER_LIFE, 10))
            await until(lambda: acknowledged(node) > everything.received[-1].tick + 1)
            ticks = [each.tick for each in everything.received]
            assert ticks == sorted(set(ticks)), "the pubend never goes back"
            assert (publisher.counters.acknowledged, publisher.counters.lost) == (LIVES * PER_LIFE, 0)
            assert (publisher.counters.reconnects, subscriber.counters.reconnects) == (LIVES - 1, LIVES - 1)
            assert everything.subscription.lost == rare.subscription.lost == []
        await asyncio.gather(*reading)
        await node.stop()

    run(test())
