"""Redis, by the publish/subscribe commands of its protocol (RESP 2).

Redis has no headers and no selectors: attributes are part of the payload, which it does not look at. It answers every
PUBLISH with the number of receivers, which costs it some processor time that the others do not spend. Snapshots and the
append-only file are off; the limit on a subscriber's output is lifted, as Redis would disconnect a slow one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.live_driver import Dialect, DriverError
from bench.live_load import STAMP
from bench.peers.endpoints import PeerPublisher, PeerReceiver, connected, exchange
from bench.peers.message import PeerMessage, PeerRing
from bench.peers.peer import Peer, Service
from bench.peers.server import Server, running
from penstock.lab.demo_overlay import free_ports

__all__ = ["RedisServer", "RespReceiver", "command", "message_head", "publish_head"]

_LINE: Final = b"\r\n"
_MESSAGE: Final = b"*3\r\n$7\r\nmessage\r\n$"


class RedisServer(Peer):
    """Redis."""

    name = "Redis"
    package = "redis-server"
    program = "redis-server"

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run Redis without persistence."""
        (port,) = free_ports(1)
        settings = folder / "redis.conf"
        lines = [
            "bind 127.0.0.1",
            f"port {port}",
            f"dir {folder}",
            'save ""',
            "appendonly no",
            "client-output-buffer-limit pubsub 0 0 0",
        ]
        settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with running([self.program, str(settings)], port=port, folder=folder) as server:
            yield server

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """RESP 2."""
        return _Resp()

    def ring(self, messages: Sequence[PeerMessage], service: Service) -> PeerRing:
        """Encode messages."""
        return PeerRing((publish_head(each) for each in messages), _LINE)

    def delivery_bytes(self, message: PeerMessage) -> int:
        """A delivery has the layout of a publish."""
        return len(message_head(message)) + STAMP.size + len(_LINE)


class _Resp:
    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> PeerReceiver:
        connection = connected(port)
        for number, topic in enumerate(wanted, start=1):
            confirmed = b":%d\r\n" % number
            exchange(connection, command(b"SUBSCRIBE", topic.encode()), partial(_ends_with, confirmed))
        return RespReceiver(connection)

    def publisher(self, port: int, name: str) -> PeerPublisher:
        return _RespPublisher(connected(port))


class RespReceiver(PeerReceiver):
    """A subscriber that takes messages apart by their lengths."""

    def deliveries(self, buffer: bytearray, end: int) -> tuple[int, list[int]]:
        """Where the last whole message ends, and where the payload of each ends."""
        place, ends = 0, list[int]()
        while place < end:
            topic = place + len(_MESSAGE)
            line = buffer.find(_LINE, topic, end)
            if line < 0:
                break
            if buffer[place:topic] != _MESSAGE:
                raise DriverError(f"Redis sent something else than a message: {bytes(buffer[place : place + 40])!r}")
            payload = line + 2 + int(buffer[topic:line]) + 3
            line = buffer.find(_LINE, payload, end)
            if line < 0:
                break
            payload_end = line + 2 + int(buffer[payload:line])
            if payload_end + 2 > end:
                break
            ends.append(payload_end)
            place = payload_end + 2
        return place, ends


class _RespPublisher(PeerPublisher):
    """A publisher that takes the answer to a PUBLISH as its acknowledgement."""

    _answers = 0

    @property
    def acknowledged(self) -> int:
        """Answers received."""
        return self._answers

    def on_data(self, data: bytes) -> None:
        """Count answers, one per line."""
        if b"-" in data:
            raise DriverError(f"Redis said {data!r}")
        self._answers += data.count(b"\n")


def command(*words: bytes) -> bytes:
    """A command as an array of strings.

    >>> command(b"PING")
    b'*1\\r\\n$4\\r\\nPING\\r\\n'
    """
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def publish_head(message: PeerMessage) -> bytes:
    """A PUBLISH up to the time stamp."""
    return _array_head(b"PUBLISH", message)


def message_head(message: PeerMessage) -> bytes:
    """A delivery up to the time stamp."""
    return _array_head(b"message", message)


def _array_head(word: bytes, message: PeerMessage) -> bytes:
    whole = command(word, message.topic.encode(), message.packed + bytes(STAMP.size))
    return whole[: -STAMP.size - len(_LINE)]


def _ends_with(end: bytes, answer: bytes) -> bool:
    if answer.startswith(b"-"):
        raise DriverError(f"Redis said {answer!r}")
    return answer.endswith(end)
