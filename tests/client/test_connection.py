"""A connection hands on what its transport brings, and touches nothing that it does not have."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable

from client.scripted import ScriptedBroker, deliver, run, until
from penstock.client.connection import Connection, is_hopeless
from penstock.protocol.frames import Frame, Heartbeat


class Log:
    """Writes down what connections say."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def on_made(self, connection: Connection) -> None:
        self.heard.append(("made", connection.number))

    def on_data(self, connection: Connection, frames: Iterable[Frame]) -> None:
        self.heard += [type(frame).__name__ for frame in frames]

    def on_writable(self, connection: Connection, *, is_writable: bool) -> None:
        self.heard.append(("writable", is_writable))

    def on_gone(self, connection: Connection, problem: str, error: Exception | None) -> None:
        self.heard.append(("gone", connection.number, problem))


async def dialled(broker: ScriptedBroker, log: Log) -> Connection:
    connection = Connection(7, log)
    await asyncio.get_running_loop().create_connection(lambda: connection, "127.0.0.1", broker.port)
    await until(lambda: broker.peers)
    return connection


def test_what_happens_to_a_transport_is_handed_on() -> None:
    async def test() -> None:
        log = Log()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, log)
            assert connection.is_made
            connection.write([Heartbeat(1), Heartbeat(2)])
            await until(lambda: len(broker.peer.of(Heartbeat)) == 2)
            broker.peer.send(deliver(1))
            await until(lambda: "Deliver" in log.heard)
            connection.close()
            await until(lambda: log.heard[-1] == ("gone", 7, "the broker closed the connection"))
            assert log.heard[0] == ("made", 7)

    run(test())


def test_a_transport_that_has_enough_says_so() -> None:
    async def test() -> None:
        log = Log()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, log)
            assert broker.peer.transport is not None
            broker.peer.transport.pause_reading()
            while ("writable", False) not in log.heard:
                connection.write([deliver(1, payload=bytes(1_000_000))])
            broker.peer.transport.resume_reading()
            await until(lambda: ("writable", True) in log.heard)
            connection.abort()
            await until(lambda: isinstance(log.heard[-1], tuple) and log.heard[-1][0] == "gone")

    run(test())


def test_reading_stops_and_goes_on() -> None:
    async def test() -> None:
        log = Log()
        async with ScriptedBroker() as broker:
            connection = await dialled(broker, log)
            connection.pause_reading()
            connection.pause_reading()
            broker.peer.send(deliver(1))
            await asyncio.sleep(0.01)
            assert (connection.is_paused, "Deliver" in log.heard) == (True, False)
            connection.resume_reading()
            await until(lambda: "Deliver" in log.heard)
            connection.abort()
            await until(lambda: broker.peer.is_gone)

    run(test())


def test_a_connection_without_a_transport_has_nothing_to_end() -> None:
    connection = Connection(1, Log())
    for end in (connection.close, connection.abort, connection.pause_reading, connection.let_go):
        end()
    connection.resume_reading()
    assert (connection.is_made, connection.is_paused) == (False, False)


def test_only_certificates_other_protocols_and_names_that_are_none_are_hopeless() -> None:
    refused = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")
    refused.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    broken = ssl.SSLError(1, "[SSL: BAD_RECORD_MAC]")
    broken.reason = "BAD_RECORD_MAC"
    hopeless = [refused, ssl.SSLCertVerificationError(1, "not trusted"), ValueError("label too long")]
    assert all(map(is_hopeless, hopeless))
    assert not any(map(is_hopeless, [broken, OSError(111, "refused"), socket.gaierror(-2, "no such host"), None]))
