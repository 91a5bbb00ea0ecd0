"""Real brokers on loopback: messages find their way by content, and a broker that dies is missed only by its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from live.certificates import Authority
from live.support import FramePeer, row, run, until
from penstock.broker.access import Access
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay, Security
from penstock.live.tls import TlsFiles, client_context
from penstock.model.body import decode_message
from penstock.protocol.frames import PROTOCOL_VERSION, Hello, Welcome

LOOPS = pytest.mark.parametrize("plain", [True, False], ids=["asyncio", "uvloop"])
HUSH = "hush"


async def started(overlay: Overlay, *names: str) -> tuple[Overlay, list[BrokerNode]]:
    """The nodes, started in this order, and the overlay with their ports."""
    nodes = []
    for name in names:
        nodes.append(BrokerNode(overlay, name))
        await nodes[-1].start()
        overlay = overlay.with_port(name, nodes[-1].address[1])
    return overlay, nodes


def sees(node: BrokerNode, count: int) -> Callable[[], bool]:
    """Whether the node knows of so many brokers that it can reach."""
    return lambda: len(node.status().broker.brokers) >= count and bool(node.status().broker.links)


def contents(delivered: list[bytes]) -> list[object]:
    return [decode_message(body)[1].attributes["x"] for body in delivered]


@LOOPS
def test_messages_cross_the_overlay_in_order_and_only_where_they_are_wanted(plain: bool) -> None:
    async def scenario() -> None:
        _, nodes = await started(row("b1", "b2", "b3"), "b1", "b2", "b3")
        await until(sees(nodes[2], 3))
        far, near = await FramePeer.client(nodes[2].address), await FramePeer.client(nodes[1].address)
        await far.subscribe(1, "x >= 500")
        await near.subscribe(7, "x < 3")
        publisher = await FramePeer.client(nodes[0].address)
        for start in range(0, 1_000, 50):
            publisher.publish(*({"x": x} for x in range(start, start + 50)))
        assert contents(await far.deliveries(500)) == list(range(500, 1_000))
        assert contents(await near.deliveries(3)) == [0, 1, 2]
        assert nodes[0].status().broker.counts["forwarded"] == 503
        await asyncio.gather(far.close(), near.close(), publisher.close())
        for node in nodes:
            await node.stop()
            assert node.counters.bugs == 0
        assert len(asyncio.all_tasks()) == 1

    run(scenario(), plain=plain)


def test_a_broker_that_returns_is_found_again() -> None:
    async def scenario() -> None:
        overlay, nodes = await started(row("b1", "b2", "b3"), "b1", "b2", "b3")
        await until(sees(nodes[2], 3))
        subscriber, publisher = await FramePeer.client(nodes[2].address), await FramePeer.client(nodes[0].address)
        await subscriber.subscribe(1, "x > 0")
        publisher.publish({"x": 1})
        await subscriber.deliveries(1)
        await nodes[1].stop()
        await until(lambda: not nodes[0].status().broker.links and not nodes[2].status().broker.links)
        async with BrokerNode(overlay, "b2"):
            await until(lambda: nodes[2].status().broker.links == ["b2"])
            await until(lambda: nodes[0].status().broker.links == ["b2"])
            sent = 1
            while len(subscriber.delivered()) < 3:
                sent += 1
                publisher.publish({"x": sent})
                await asyncio.sleep(0.01)
            assert not subscriber.is_over
        await asyncio.gather(subscriber.close(), publisher.close())
        await asyncio.gather(nodes[0].stop(), nodes[2].stop())

    run(scenario())


@LOOPS
def test_an_overlay_with_certificates_and_tokens_lets_its_own_in(plain: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        authority, overlay = Authority(tmp_path), row("b1", "b2")
        brokers = {name: replace(place, tls=authority.issue(name)) for name, place in overlay.brokers.items()}
        overlay = replace(overlay, brokers=brokers, access=Access({"feed": HUSH}), security=Security(link_token=HUSH))
        _, nodes = await started(overlay, "b1", "b2")
        await until(sees(nodes[1], 2))
        peers = []
        for node in nodes:
            peers.append(await FramePeer.dial(node.address, context=client_context(TlsFiles(authority.path))))
            peers[-1].send(Hello(PROTOCOL_VERSION, "client", "feed", "test", credential=HUSH))
            await peers[-1].get(Welcome)
        await peers[1].subscribe(1, "x > 0")
        peers[0].publish({"x": 1}, payload=b"y" * 300_000)
        (body,) = await peers[1].deliveries(1)
        assert decode_message(body)[1].payload == b"y" * 300_000
        await asyncio.gather(*(peer.close() for peer in peers))
        await asyncio.gather(*(node.stop() for node in nodes))

    run(scenario(), plain=plain)


def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(BrokerNode(row("b1"), "b1"))
            for _ in range(10):
                peers = await asyncio.gather(*(FramePeer.client(node.address) for _ in range(20)))
                await asyncio.gather(*(peer.subscribe(1, "x > 0") for peer in peers))
                assert node.counters.open_connections == 20
                await asyncio.gather(*(peer.close() for peer in peers))
                await until(lambda: node.counters.open_connections == 0)
            status = node.status().broker
            assert (status.clients, status.subscriptions) == (0, 0)
            assert len(asyncio.all_tasks()) == 1

    run(scenario())
