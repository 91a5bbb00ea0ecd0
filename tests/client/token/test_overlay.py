"""Members that find each other through an overlay."""

from __future__ import annotations

import asyncio

from client.token.test_carrier import Listener
from client.token.test_udp import until
from live.support import lone, run
from penstock.client.client import connect
from penstock.client.token.group import TokenGroup
from penstock.client.token.overlay import ThroughOverlay
from penstock.live.node import BrokerNode


def test_members_hear_of_each_other_speak_and_leave() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1") as node:
            url = "penstock://{}:{}".format(*node.address)
            async with connect(url, name="one") as one, connect(url, name="two") as two:
                carriers = [ThroughOverlay(client, presence="50 ms") for client in (one, two)]
                listeners = [Listener(), Listener()]
                for carrier, listener in zip(carriers, listeners, strict=True):
                    await carrier.open("g", listener)
                await until(lambda: all(set(each.members) == {"one", "two"} for each in listeners))
                carriers[0].send("two", b"token")
                await until(lambda: listeners[1].messages == [("one", b"token")])
                assert listeners[0].messages == []
                await carriers[1].close()
                await until(lambda: listeners[0].members == ["one"])
                await carriers[0].close()

    run(scenario())


def test_members_take_turns_through_an_overlay() -> None:
    async def scenario() -> None:
        async with BrokerNode(lone(), "b1") as node:
            url = "penstock://{}:{}".format(*node.address)
            async with connect(url, name="one") as one, connect(url, name="two") as two:
                groups = [
                    TokenGroup("g", every="300 ms", about="40 ms", carrier=ThroughOverlay(client, presence="50 ms"))
                    for client in (one, two)
                ]
                for group in groups:
                    await group.open()
                await until(lambda: all(group.status()["members"] == 2 for group in groups))
                async with asyncio.timeout(60):
                    for group in (*groups, *groups):
                        async with group.turn():
                            pass
                for group in groups:
                    await group.close()

    run(scenario())
