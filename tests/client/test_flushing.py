"""Waiting for what was published to be settled."""

from __future__ import annotations

import asyncio

from client.scripted import ScriptedBroker, run, until
from penstock.broker.frames import Publish
from penstock.client.client import connect


def test_a_broker_is_asked_once_on_each_connection() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker, connect(broker.address) as client:
            await client.publish({"n": 1})
            flushing = [asyncio.create_task(client.flush()) for _ in range(2)]
            await until(lambda: [len(frame.bodies) for frame in broker.peer.of(Publish)] == [1, 0, 0])
            del broker.answers[Publish]
            await client.publish({"n": 2})
            await asyncio.gather(*flushing)
            assert client.counters.settled >= 1

    run(test())
