"""Waiting for what was published to be settled."""

from __future__ import annotations

import asyncio

import pytest

from client.scripted import ScriptedBroker, run, until
from penstock.client.client import connect
from penstock.protocol.frames import Frame, Publish, PublishAck, Refused, RefusedAck
from penstock.session.errors import ConnectionFailedError, RefusedError
from penstock.session.settings import ClientSettings


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


def test_a_client_that_stops_at_a_refusal_publishes_nothing_behind_it_on_any_connection() -> None:
    async def test() -> None:
        def refuse(frame: Publish) -> list[Frame]:
            return [PublishAck(1, 1), Refused("publish", 2, "not this")] if frame.bodies else []

        settings = ClientSettings(stop_at_refusal=True, backoff_first_ms=1, linger_ms=50)
        async with ScriptedBroker({Publish: refuse}) as broker:
            broker.pubends = ("p",)
            client = await connect(broker.address, settings=settings).open()
            for number in range(1, 4):
                await client.publish({"n": number})
            with pytest.raises(RefusedError, match="not this"):
                await client.flush()
            broker.peer.cut()
            await until(lambda: len(broker.peers) == 2 and client.is_connected)
            await client.status()
            assert broker.peers[0].of(RefusedAck) == broker.peer.of(Publish) == []
            with pytest.raises(RefusedError, match="messages after it are not published"):
                await client.close()
            assert client.counters.acknowledged == 1

    run(test())


def test_a_client_says_that_it_knows_of_a_refusal() -> None:
    async def test() -> None:
        def refuse(frame: Publish) -> list[Frame]:
            return [Refused("publish", 2, "not this")] if frame.bodies else []

        async with ScriptedBroker({Publish: refuse}) as broker:
            broker.answers[RefusedAck] = lambda _: [PublishAck(3, 0)]
            client = await connect(broker.address, settings=ClientSettings(linger_ms=50)).open()
            for number in range(1, 4):
                await client.publish({"n": number})
            with pytest.raises(RefusedError, match="not this"):
                await client.flush()
            assert broker.peer.of(RefusedAck) == [RefusedAck(2)]
            assert (client.counters.acknowledged, client.counters.refused) == (2, 1)
            await client.close()

    run(test())


def test_a_client_that_gives_up_names_what_was_not_acknowledged() -> None:
    async def test() -> None:
        settings = ClientSettings(give_up_ms=30, backoff_first_ms=1)
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=settings).open()
            sent = [await client.publish({"n": number}) for number in range(3)]
            await until(lambda: broker.peer.of(Publish))
        with pytest.raises(
            ConnectionFailedError, match=r"no connection for 30 ms.*; 3 messages were not ack"
        ) as failed:
            await client.flush()
        assert (failed.value.messages, failed.value.count, client.counters.lost) == (tuple(sent), 3, 3)
        await client.close()

    run(test())


def test_a_close_that_takes_too_long_names_what_was_not_acknowledged() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=ClientSettings(close_ms=30)).open()
            sent = await client.publish({"n": 1})
            with pytest.raises(ConnectionFailedError, match="1 messages were not acknowledged within 30 ms") as failed:
                await client.close()
            assert (failed.value.messages, failed.value.count, client.counters.lost) == ((sent,), 1, 1)

    run(test())
