"""NATS, by its text protocol; without JetStream, except as a work queue (``jetstream``).

Messages are published without headers, as most clients do: attributes are part of the payload, which the server does
not look at. It has subjects and no selectors. The server pings a new connection after two seconds, which is answered
before bytes are counted; later pings are far apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.live_driver import Dialect, DriverError
from bench.live_load import STAMP
from bench.peers.endpoints import PeerPublisher, PeerReceiver, connected, exchange
from bench.peers.jetstream import (
    JetStreamPublisher,
    JetStreamWorker,
    configuration,
    open_stream,
    stream_publish_head,
)
from bench.peers.message import PeerMessage, PeerRing
from bench.peers.peer import Peer, Service
from bench.peers.server import Server, running
from penstock.lab.demo_overlay import free_ports

__all__ = ["NatsReceiver", "NatsServer", "message_head", "publish_head"]

_LINE: Final = b"\r\n"
_CONNECT: Final = b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1","protocol":1}\r\n'
_PING: Final = b"PING\r\n"
_PONG: Final = b"PONG\r\n"


class NatsServer(Peer):
    """NATS."""

    name = "NATS"
    package = "nats-server"
    program = "/usr/sbin/nats-server"
    settle_s = 3.0

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run a server of its own, without a cluster."""
        (port,) = free_ports(1)
        settings = folder / "nats.conf"
        text = f'host: "127.0.0.1"\nport: {port}\nping_interval: "10m"\n'
        if service is Service.WORK:
            text += configuration(str(folder / "jetstream"))
        settings.write_text(text, encoding="utf-8")
        with running([self.program, "-c", str(settings)], port=port, folder=folder) as server:
            yield server

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """The text protocol of NATS."""
        return _Nats(has_streams=service.is_durable)

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> PeerRing:
        """Encode messages."""
        if service.is_durable:
            return PeerRing((stream_publish_head(each) for each in messages), _LINE)
        return PeerRing((publish_head(each) for each in messages), _LINE)

    def delivery_bytes(self, message: PeerMessage) -> int:
        """The size of a delivery to the first subscription of a connection."""
        return len(message_head(message)) + STAMP.size + len(_LINE)

    def open_queue(self, port: int, topic: str) -> None:
        """Make a stream, and a consumer for workers to share."""
        open_stream(port, topic)

    def worker(self, port: int, name: str, topic: str, prefetch: int) -> JetStreamWorker:
        """Connect a worker that pulls jobs."""
        return JetStreamWorker(port, name, topic, prefetch)


class _Nats:
    def __init__(self, *, has_streams: bool) -> None:
        self._has_streams = has_streams

    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> PeerReceiver:
        connection = connected(port)
        subscriptions = b"".join(b"SUB %b %d\r\n" % (topic.encode(), number) for number, topic in enumerate(wanted, 1))
        exchange(connection, _CONNECT + subscriptions + _PING, _is_ponged)
        return NatsReceiver(connection)

    def publisher(self, port: int, name: str) -> PeerPublisher:
        if self._has_streams:
            return JetStreamPublisher(port)
        connection = connected(port)
        exchange(connection, _CONNECT + _PING, _is_ponged)
        return _NatsPublisher(connection)


class NatsReceiver(PeerReceiver):
    """A subscriber that takes messages apart by their lengths, and answers pings."""

    def deliveries(self, buffer: bytearray, end: int) -> tuple[int, list[int]]:
        """Where the last whole message ends, and where the payload of each ends."""
        place, ends = 0, list[int]()
        while (line := buffer.find(_LINE, place, end)) >= 0:
            if buffer[place] != ord("M"):
                self._on_line(bytes(buffer[place : line + 2]))
                place = line + 2
                continue
            size = buffer.rfind(b" ", place, line)
            payload_end = line + 2 + int(buffer[size:line])
            if payload_end + 2 > end:
                break
            ends.append(payload_end)
            place = payload_end + 2
        return place, ends

    def _on_line(self, line: bytes) -> None:
        if line == _PING:
            self.socket.send(_PONG)
        elif line.startswith(b"-ERR"):
            raise DriverError(f"NATS said {line!r}")


class _NatsPublisher(PeerPublisher):
    """A publisher that answers pings."""

    def on_data(self, data: bytes) -> None:
        """Answer a ping, between batches so as not to break one up; a server may wait for minutes."""
        if b"-ERR" in data:
            raise DriverError(f"NATS said {data!r}")
        if _PING in data and self.push():
            self.socket.send(_PONG)


def publish_head(message: PeerMessage) -> bytes:
    """A PUB up to the time stamp."""
    return b"PUB %b %d\r\n%b" % (message.topic.encode(), len(message.packed) + STAMP.size, message.packed)


def message_head(message: PeerMessage) -> bytes:
    """A delivery to the first subscription of a connection, up to the time stamp."""
    return b"MSG %b 1 %d\r\n%b" % (message.topic.encode(), len(message.packed) + STAMP.size, message.packed)


def _is_ponged(answer: bytes) -> bool:
    if b"-ERR" in answer:
        raise DriverError(f"NATS said {answer!r}")
    return answer.endswith(_PONG)
