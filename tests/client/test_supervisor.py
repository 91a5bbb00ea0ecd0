from __future__ import annotations

import asyncio
import socket
from functools import partial

import pytest

from client.scripted import QUICK, Peer, ScriptedBroker, deliver, run, until
from penstock.client.client import Client, connect
from penstock.client.supervisor import Supervisor
from penstock.protocol.frames import Frame, Goodbye, Hello, Publish
from penstock.session.address import Address
from penstock.session.errors import ConnectionFailedError, RefusedError
from penstock.session.session import Changes, Session
from penstock.session.settings import ClientSettings


def supervisor_of(*ports: int, settings: ClientSettings = QUICK) -> Supervisor:
    addresses = tuple(Address("127.0.0.1", port) for port in ports)
    return Supervisor(Session(settings, name="me"), addresses, settings, tls=None, on_changes=lambda _: None)


def unused_port() -> int:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])


def hung_up(peer: Peer) -> list[Frame]:
    peer.cut()
    return []


def is_back(supervisor: Supervisor, reconnects: int) -> bool:
    return supervisor.reconnects == reconnects


def test_addresses_are_tried_in_turn() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            supervisor = supervisor_of(unused_port(), broker.port)
            await supervisor.connect()
            assert supervisor.address == Address("127.0.0.1", broker.port)
            await supervisor.close()

    run(test())


def test_every_address_that_failed_is_named() -> None:
    async def test() -> None:
        ports = unused_port(), unused_port()
        with pytest.raises(ConnectionFailedError) as caught:
            await supervisor_of(*ports).connect()
        assert all(f"penstock://127.0.0.1:{port}: " in str(caught.value) for port in ports)

    run(test())


def test_a_refusal_ends_the_search_with_the_brokers_reason() -> None:
    async def test() -> None:
        refusing = {Hello: lambda _: [Goodbye("refused", "authentication failed")]}
        async with ScriptedBroker(refusing) as broker:
            with pytest.raises(RefusedError, match="refused to let this client in: authentication failed"):
                await supervisor_of(broker.port, broker.port).connect()
            assert len(broker.peers) == 1

    run(test())


def test_another_goodbye_leads_to_the_next_address() -> None:
    async def test() -> None:
        full = {Hello: lambda _: [Goodbye("full", "too many")]}
        async with ScriptedBroker(full) as busy, ScriptedBroker() as free:
            supervisor = supervisor_of(busy.port, free.port)
            await supervisor.connect()
            assert supervisor.address == Address("127.0.0.1", free.port)
            await supervisor.close()

    run(test())


def test_a_broker_that_says_nothing_is_given_up_in_time() -> None:
    async def test() -> None:
        settings = ClientSettings(connect_ms=30)
        async with ScriptedBroker({Hello: lambda _: []}) as broker:
            with pytest.raises(ConnectionFailedError, match="no welcome within 30 ms"):
                await supervisor_of(broker.port, settings=settings).connect()
            await until(lambda: broker.peer.is_gone)

    run(test())


def test_a_broker_that_closes_at_once_is_named() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.answers[Hello] = lambda _: hung_up(broker.peer)
            with pytest.raises(ConnectionFailedError, match=f"127.0.0.1:{broker.port}"):
                await supervisor_of(broker.port).connect()

    run(test())


def test_a_lost_connection_is_made_again_until_the_broker_refuses() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            supervisor = supervisor_of(broker.port)
            await supervisor.connect()
            task = asyncio.create_task(supervisor.run())
            for round_ in range(1, 4):
                broker.peer.cut()
                await until(partial(is_back, supervisor, round_))
            broker.peer.send(Goodbye("refused", "no more"))
            end = await task
            assert isinstance(end, RefusedError)
            assert end.reason == "no more"
            await supervisor.close()

    run(test())


def test_a_refusal_at_the_return_is_final() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            supervisor = supervisor_of(broker.port)
            await supervisor.connect()
            broker.answers[Hello] = lambda _: [Goodbye("refused", "token withdrawn")]
            broker.peer.cut()
            assert isinstance(await supervisor.run(), RefusedError)

    run(test())


def test_giving_up_says_what_was_wrong() -> None:
    async def test() -> None:
        settings = ClientSettings(backoff_first_ms=1, backoff_max_ms=2, give_up_ms=20)
        async with ScriptedBroker() as broker:
            supervisor = supervisor_of(broker.port, settings=settings)
            await supervisor.connect()
        end = await supervisor.run()
        assert str(end).startswith("no connection for 20 ms: penstock://127.0.0.1:")

    run(test())


def test_a_broker_that_does_not_read_cannot_hold_up_the_end() -> None:
    async def test() -> None:
        settings = ClientSettings(close_ms=20)
        async with ScriptedBroker() as broker:
            supervisor = supervisor_of(broker.port, settings=settings)
            await supervisor.connect()
            transport = broker.peer.transport
            assert transport is not None
            transport.pause_reading()
            connection = supervisor.connection
            assert connection is not None
            assert connection._transport is not None
            connection._transport.write(bytes(50_000_000))
            await supervisor.close()
            assert connection.closed.is_set()

    run(test())


def test_what_is_published_at_the_moment_of_the_welcome_is_sent() -> None:
    async def test() -> None:
        session = Session(QUICK, name="me")

        def publish(changes: Changes) -> None:
            if changes.welcome is not None:
                # As a task does that waited for this; it finds no connection that it could tell.
                asyncio.get_running_loop().call_soon(lambda: session.publish(b"body", "", now_ms=0))

        async with ScriptedBroker() as broker:
            address = Address("127.0.0.1", broker.port)
            supervisor = Supervisor(session, (address,), QUICK, tls=None, on_changes=publish)
            await supervisor.connect()
            await until(lambda: broker.peer.of(Publish))
            await supervisor.close()

    run(test())


def test_a_full_subscription_stops_the_socket_and_reading_goes_on_when_the_application_takes() -> None:
    count = 2_000

    async def test() -> None:
        settings = ClientSettings(queue_messages=2)
        async with ScriptedBroker() as broker, connect(broker.address, settings=settings) as client:
            subscription = await client.subscribe("TRUE").ready()
            transport = broker.peer.transport
            assert transport is not None
            # More than the buffers of the kernel hold, so that the broker notices that nobody reads.
            for number in range(1, count + 1):
                broker.peer.send(deliver(number, payload=bytes(10_000)))
            await until(lambda: subscription.queued >= settings.queue_messages)
            await client_stops_reading(client)
            assert subscription.queued < count
            assert transport.get_write_buffer_size() > 0
            taken = [(await subscription.get()).tick for _ in range(count)]
            assert taken == list(range(1, count + 1))

    run(test())


async def client_stops_reading(client: Client) -> None:
    connection = client._supervisor.connection
    assert connection is not None
    assert connection._transport is not None
    transport = connection._transport
    await until(lambda: not transport.is_reading())
