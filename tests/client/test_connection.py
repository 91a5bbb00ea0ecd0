from __future__ import annotations

import asyncio

from client.scripted import ScriptedBroker, deliver, run, until
from penstock.client.connection import Connection
from penstock.live.loop import run as run_fast
from penstock.protocol.frames import Goodbye, Heartbeat, Hello, Subscribe
from penstock.session.inbox import Wanted
from penstock.session.session import Changes, Session
from penstock.session.settings import ClientSettings


async def dialled(broker: ScriptedBroker, session: Session, seen: list[Changes]) -> Connection:
    connection = Connection(session, seen.append)
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: connection, "127.0.0.1", broker.port)
    await connection.greeted.wait()
    return connection


def test_a_connection_says_hello_and_hands_changes_on() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, session, seen)
            assert session.is_up
            assert broker.peer.of(Hello)[0].name == "me"
            inbox = session.subscribe(Wanted("TRUE"))
            for _ in range(3):
                connection.pump_soon()
            await until(lambda: broker.peer.of(Subscribe))
            broker.peer.send(deliver(1))
            await until(lambda: inbox.queue)
            connection.close()
            await connection.closed.wait()
            await until(lambda: broker.peer.of(Goodbye))
            assert seen[-1].lost
            assert not session.is_up

    run(test())


def test_heartbeats_are_sent() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            broker.heartbeat_ms = 300
            connection = await dialled(broker, session, seen)
            await until(lambda: broker.peer.of(Heartbeat))
            connection.abort()
            await connection.closed.wait()

    run(test())


def test_a_silent_broker_is_given_up() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            broker.heartbeat_ms = 20
            connection = await dialled(broker, session, seen)
            await connection.closed.wait()
            assert connection.problem == "nothing was heard of the broker for too long"
            await until(lambda: broker.peer.of(Goodbye))
            assert broker.peer.of(Goodbye)[0].code == "silent"

    run(test())


def test_an_application_that_keeps_the_loop_busy_does_not_blame_the_broker() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, session, seen)
            session.on_reading(now_ms=connection.now_ms() - 10**9)
            connection._timer_ms = connection.now_ms() - 10**9
            connection._on_timer()
            assert not connection.ended.is_set()
            session.on_reading(now_ms=connection.now_ms() - 10**9)
            connection._timer_ms = connection.now_ms()
            connection._on_timer()
            assert connection.ended.is_set()
            await connection.closed.wait()

    run(test())


def test_a_broker_that_breaks_the_protocol_is_told_so() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, session, seen)
            broker.peer.send(Hello(1, "broker", "b", "o"))
            await connection.closed.wait()
            assert connection.problem == "a broker does not send Hello to a client"
            await until(lambda: broker.peer.of(Goodbye))
            assert broker.peer.of(Goodbye)[0].code == "protocol"

    run(test())


def test_reading_stops_while_a_queue_is_full() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(queue_messages=10), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, session, seen)
            inbox = session.subscribe(Wanted("TRUE"))
            connection.pump()
            await until(lambda: broker.peer.of(Subscribe))
            total = 200
            for number in range(total):
                broker.peer.send(deliver(number, payload=bytes(100_000)))
            await until(lambda: not session.reading)
            # Some turns in which a socket that is read would have brought more.
            before = len(inbox.queue)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(inbox.queue) == before < total
            ticks: list[int] = []
            while len(ticks) < total:
                await until(lambda: inbox.queue)
                ticks += [each.tick for each in inbox.pop_many()]
                if session.on_taken(inbox):
                    connection.resume_reading()
            assert ticks == list(range(total))
            connection.abort()
            await connection.closed.wait()

    run(test())


def test_a_connection_that_is_given_up_before_it_is_made_ends_at_once() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        connection = Connection(session, seen.append)
        connection.abort()
        assert connection.closed.is_set()
        assert connection.greeted.is_set()
        async with ScriptedBroker() as broker:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, "127.0.0.1", broker.port)
            await until(lambda: broker.peers and broker.peer.is_gone)
        assert seen == []

    run(test())


def test_a_connection_works_on_the_fast_loop_too() -> None:
    async def test() -> None:
        session, seen = Session(ClientSettings(), name="me"), list[Changes]()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, session, seen)
            inbox = session.subscribe(Wanted("TRUE"))
            connection.pump()
            await until(lambda: broker.peer.of(Subscribe))
            broker.peer.send(deliver(1))
            await until(lambda: inbox.queue)
            connection.close()
            await connection.closed.wait()

    run_fast(test())
