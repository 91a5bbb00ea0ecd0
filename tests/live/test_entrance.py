"""Connections get in while there is room, and handshakes that are never finished do not take it from others."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from live.certificates import Authority
from live.support import FakeBroker, FramePeer, place_of, run, until
from penstock.broker.settings import BrokerSettings
from penstock.live.connection import Connection
from penstock.live.counters import Counters
from penstock.live.entrance import Door, Entrance
from penstock.live.listening import listen
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.live.tls import TlsFiles, client_context
from penstock.protocol.frames import PROTOCOL_VERSION, Goodbye, Hello
from penstock.system.logs import configure_logs

both_loops = pytest.mark.parametrize("plain", [True, False], ids=["asyncio", "uvloop"])


def narrow(tls: TlsFiles | None = None, **tunables: int) -> Overlay:
    place = place_of("b1", 1)
    object.__setattr__(place, "tunables", {**place.tunables, **tunables})
    object.__setattr__(place, "tls", tls)
    return Overlay(name="test", brokers={"b1": place})


def entrance_of(node: BrokerNode) -> Entrance:
    assert node._entrance is not None
    return node._entrance


@both_loops
def test_who_finds_no_room_is_told_and_others_are_served(plain: bool) -> None:
    async def scenario() -> None:
        async with BrokerNode(narrow(connections_max=4, strangers_max=4), "b1") as node:
            clients = [await FramePeer.client(node.address) for _ in range(4)]
            refused = await FramePeer.dial(node.address)
            goodbye = await refused.over()
            assert goodbye is not None
            assert (goodbye.code, "limit of 4 connections" in goodbye.reason) == ("full", True)
            await until(lambda: node.counters.open_connections == 4)
            entrance_of(node).room = 4
            goodbye = await (await FramePeer.dial(node.address)).over()
            assert goodbye == Goodbye("full", "this broker has room for 4 connections")
            assert node.counters.turned_away == 1
            await clients[0].subscribe(1, "x > 0")
            await clients.pop().close()
            await until(lambda: node.counters.open_connections == 3)
            clients.append(await FramePeer.client(node.address))
            for each in clients:
                await each.close()

    run(scenario(), plain=plain)


@both_loops
def test_handshakes_that_are_never_finished_make_room_for_those_that_are(plain: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        files = Authority(tmp_path).issue("b1")
        async with BrokerNode(narrow(files, strangers_max=3), "b1") as node:
            silent = [await FramePeer.dial(node.address) for _ in range(8)]
            await until(lambda: node.counters.turned_away == 5)
            assert entrance_of(node).handshakes == 3
            for each in silent[:5]:
                assert await each.over() is None
            client = await FramePeer.dial(node.address, context=client_context(TlsFiles(files.ca)))
            client.send(Hello(PROTOCOL_VERSION, "client", "tester", "test"))
            await client.subscribe(1, "x > 0")
            for each in (client, *silent):
                await each.close()

    run(scenario(), plain=plain)


@both_loops
def test_a_node_that_stops_waits_for_no_handshake(plain: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with BrokerNode(narrow(Authority(tmp_path).issue("b1")), "b1") as node:
            silent = await FramePeer.dial(node.address)
            await until(lambda: entrance_of(node).handshakes == 1)
        assert entrance_of(node).handshakes == 0
        await silent.over()
        assert len(asyncio.all_tasks()) == 1

    run(scenario(), plain=plain)


@both_loops
def test_the_operator_hears_which_certificate_was_missing_and_from_where_but_not_too_often(
    plain: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        files = Authority(tmp_path).issue("b1", mutual=True)
        without = client_context(TlsFiles(files.ca))
        async with BrokerNode(narrow(files), "b1") as node:
            for _ in range(12):
                # Depending on the loop, it is cut off before or after its own end of the handshake.
                with suppress(OSError):
                    peer = await FramePeer.dial(node.address, context=without)
                    assert await peer.over() is None
                    await peer.close()
            await until(lambda: entrance_of(node).handshakes == 0)

    stream = StringIO()
    configure_logs(stream=stream)
    run(scenario(), plain=plain)
    refused = [line for line in stream.getvalue().splitlines() if " tls-refused " in line]
    assert len(refused) == 10
    assert 'broker=b1 address=127.0.0.1 reason="peer did not return a certificate"' in refused[0]
    assert " warning " in refused[0]


def test_a_limit_of_descriptors_below_that_of_connections_is_noted_once() -> None:
    noted: list[tuple[str, dict[str, Any]]] = []
    entrance = Entrance(
        [],
        None,
        counters=Counters(),
        note=lambda event, **fields: noted.append((event, fields)),
    )
    entrance.limit(BrokerSettings("b1", connections_max=10))
    assert noted == []
    for _ in range(2):
        entrance.limit(BrokerSettings("b1", connections_max=10**9))
    ((event, fields),) = noted
    assert (event, fields["connections_max"], fields["connections"]) == ("descriptors-short", 10**9, entrance.room)


@both_loops
def test_accepting_pauses_while_the_system_has_no_descriptors(plain: bool) -> None:
    class Exhausted:
        """A listening socket of a system that runs out of descriptors once."""

        def __init__(self, real: socket.socket) -> None:
            self._real, self.failures = real, 1

        def accept(self) -> tuple[socket.socket, object]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return self._real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    async def scenario() -> None:
        real = await listen(place_of("b1", 1), 0)
        noted: list[str] = []
        made: list[Connection] = []
        owner = BrokerNode(narrow(), "b1", broker=FakeBroker())

        def make() -> Connection:
            made.append(owner._make())
            return made[-1]

        owner.broker = FakeBroker()
        exhausted: Any = Exhausted(real[0])
        entrance = Entrance(
            [Door([exhausted], make)],
            None,
            counters=owner.counters,
            note=lambda event, **_: noted.append(event),
            pause_s=0.01,
        )
        entrance.limit(BrokerSettings("b1"))
        entrance.open()
        peer = await FramePeer.dial(entrance.address)
        await until(lambda: owner.counters.accepted == 1)
        assert noted == ["accept-paused"]
        await peer.close()
        await until(lambda: owner.counters.open_connections == 0)
        await entrance.close()
        owner.turns.stop()

    run(scenario(), plain=plain)
