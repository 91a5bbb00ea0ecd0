"""A session on real sockets: connections are made and ended, bytes carried, and the timer is set."""

from __future__ import annotations

import asyncio
import socket

import pytest

from client.scripted import ONCE, QUICK, Peer, ScriptedBroker, deliver, run, until
from penstock.client.client import Client, connect
from penstock.protocol.codec import encode_frame
from penstock.protocol.frames import Frame, Goodbye, Heartbeat, Hello, Migrate, Moved, Publish, Subscribe
from penstock.session.changes import Abort, Dial
from penstock.session.errors import ClientClosedError, ConnectionFailedError, RefusedError
from penstock.session.settings import ClientSettings
from penstock.system.loop import run as run_fast


def unused_port() -> int:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])


def hung_up(peer: Peer) -> list[Frame]:
    peer.cut()
    return []


def test_addresses_are_tried_in_turn() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with connect(f"penstock://127.0.0.1:{unused_port()},{broker.address}") as client:
                assert client._session.address is not None
                assert client._session.address.port == broker.port
                assert broker.peer.of(Hello)[0].name == client.name
            await until(lambda: broker.peer.of(Goodbye))

    run(test())


def test_an_attempt_that_is_given_up_before_it_has_begun_leaves_nothing() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            shell, address = client._shell, client._session.address
            assert address is not None
            shell._carry_out(Dial(7, address))
            shell._carry_out(Abort(7))
            await until(lambda: 7 not in shell._connections)
            assert 7 not in shell._dialling

    run(test())


def test_every_address_that_failed_is_named() -> None:
    async def test() -> None:
        ports = unused_port(), unused_port()
        with pytest.raises(ConnectionFailedError) as caught:
            await connect(",".join(f"penstock://127.0.0.1:{port}" for port in ports), settings=ONCE).open()
        assert all(f"penstock://127.0.0.1:{port}: " in str(caught.value) for port in ports)

    run(test())


@pytest.mark.parametrize("host", ["no.such.host.invalid", "x" * 70 + ".org"])
def test_a_host_that_cannot_be_is_named(host: str) -> None:
    async def test() -> None:
        with pytest.raises(ConnectionFailedError, match=host[:20]):
            await connect(f"penstock://{host}:7000", settings=ONCE).open()

    run(test())


def test_a_refusal_is_raised_and_leaves_nothing_behind() -> None:
    async def test() -> None:
        refusing = {Hello: lambda _: [Goodbye("refused", "authentication failed")]}
        async with ScriptedBroker(refusing) as broker:
            client = connect(broker.address)
            with pytest.raises(RefusedError, match="refused to let this client in: authentication failed"):
                await client.open()
            await until(lambda: client._shell.is_idle)

    run(test())


def test_a_broker_that_says_nothing_is_given_up_in_time() -> None:
    async def test() -> None:
        async with ScriptedBroker({Hello: lambda _: []}) as broker:
            with pytest.raises(ConnectionFailedError, match="no welcome within 30 ms"):
                await connect(broker.address, settings=ClientSettings(connect_ms=30, connect_timeout_ms=0)).open()
            await until(lambda: broker.peer.is_gone)

    run(test())


def test_an_open_that_waits_fails_when_the_client_is_closed() -> None:
    async def test() -> None:
        async with ScriptedBroker({Hello: lambda _: []}) as broker:
            client = connect(broker.address)
            opening = asyncio.create_task(client.open())
            await until(lambda: broker.peers and broker.peer.of(Hello))
            await client.close()
            with pytest.raises(ClientClosedError, match="closed while it was connecting"):
                await opening

    run(test())


def test_a_broker_that_closes_at_once_is_named() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.answers[Hello] = lambda _: hung_up(broker.peer)
            with pytest.raises(ConnectionFailedError, match=f"127.0.0.1:{broker.port}"):
                await connect(broker.address, settings=ONCE).open()

    run(test())


def test_a_lost_connection_is_made_again_until_the_broker_refuses() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            for round_ in range(1, 4):
                broker.peer.cut()
                await until(lambda round_=round_: client.counters.reconnects == round_)  # type: ignore[misc]
            broker.peer.send(Goodbye("refused", "no more"))
            await until(lambda: client.end)
            assert isinstance(client.end, RefusedError)
            assert client.end.reason == "no more"

    run(test())


def test_a_broker_that_does_not_read_cannot_hold_up_the_end() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address, settings=ClientSettings(close_ms=20)).open()
            transport, connection = broker.peer.transport, client._shell.connection
            assert transport is not None
            assert connection is not None
            assert connection._transport is not None
            transport.pause_reading()
            connection._transport.write(bytes(50_000_000))
            await client.close()
            assert client._shell.is_idle

    run(test())


def test_what_is_published_at_the_moment_of_the_welcome_is_sent() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            broker.answers[Hello] = lambda _: []
            broker.peer.cut()
            await until(lambda: len(broker.peers) == 2)
            publishing = asyncio.create_task(client.publish({"n": 1}))
            await asyncio.sleep(0)
            broker.peer.send(broker.welcome())
            await publishing
            await until(lambda: broker.peer.of(Publish))

    run(test())


def test_heartbeats_are_sent_and_a_silent_broker_is_told_that_it_is_given_up() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.heartbeat_ms = 60
            async with connect(broker.address, settings=QUICK):
                await until(lambda: broker.peers[0].of(Goodbye))
                assert broker.peers[0].of(Heartbeat)
                assert broker.peers[0].of(Goodbye)[0].code == "silent"
                await until(lambda: len(broker.peers) > 1)

    run(test())


def test_an_application_that_keeps_the_loop_busy_does_not_blame_the_broker() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            shell, session = client._shell, client._session
            session.on_reading(session.line, now_ms=shell.now_ms() - 10**9)
            shell._timer_ms = shell.now_ms() - 10**9
            shell._on_timer()
            assert client.is_connected
            session.on_reading(session.line, now_ms=shell.now_ms() - 10**9)
            shell._timer_ms = shell.now_ms()
            shell._on_timer()
            assert not client.is_connected

    run(test())


@pytest.mark.parametrize("runner", [run, run_fast])
def test_frames_in_pieces_are_put_together_and_half_a_frame_is_forgotten_with_its_connection(runner: object) -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            data = encode_frame(deliver(1)) + encode_frame(deliver(2))
            transport = broker.peer.transport
            assert transport is not None
            for byte in data:
                transport.write(bytes([byte]))
                await asyncio.sleep(0)
            assert [(await subscription.get()).tick for _ in range(2)] == [1, 2]
            transport.write(data[:10])
            await asyncio.sleep(0.01)
            broker.peer.cut()
            await until(lambda: len(broker.peers) == 2 and broker.peer.of(Subscribe))
            broker.peer.send(deliver(3))
            assert (await subscription.get()).tick == 3

    assert runner in (run, run_fast)
    (run if runner is run else run_fast)(test())


def test_a_broker_that_breaks_the_protocol_is_told_so() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK):
            transport = broker.peer.transport
            assert transport is not None
            transport.write(b"not a frame at all, whatever one thinks of it")
            await until(lambda: broker.peers[0].of(Goodbye))
            assert broker.peers[0].of(Goodbye)[0].code == "protocol"

    run(test())


def test_a_client_moves_to_another_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.session.moving._OVERLAP_MS", 20)

    async def test() -> None:
        async with ScriptedBroker() as old, ScriptedBroker() as new, connect(old.address, settings=QUICK) as client:
            new.name = "new"
            old.answers[Moved] = lambda _: [Goodbye("moved", "client moved to broker new")]
            subscription = await client.subscribe("TRUE").ready()
            old.peer.send(deliver(1), Migrate(7, 1, "new", new.address))
            await until(lambda: client.broker == "new" and old.peer.is_gone)
            new.peer.send(deliver(2))
            assert [(await subscription.get()).tick for _ in range(2)] == [1, 2]
            assert (client.counters.moves, client.counters.reconnects) == (1, 0)

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
    connection = client._shell.connection
    assert connection is not None
    assert connection._transport is not None
    transport = connection._transport
    await until(lambda: not transport.is_reading())


def test_a_connection_that_never_ends_is_cut_off_and_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.shell._CLOSE_S_MAX", 0.05)

    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            client = connect(broker.address)
            await client.open()
            (connection,) = client._shell._connections.values()
            with monkeypatch.context() as patched:
                for way in ("close", "abort"):
                    patched.setattr(type(connection), way, lambda _: None)
                await client.close(flush=False)
            connection.abort()
            await asyncio.sleep(0)

    run(scenario())
