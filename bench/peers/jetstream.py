"""JetStream, the durable part of NATS: a stream in files, and a pull consumer that workers share.

Its server writes messages to files before it acknowledges them, and syncs these files every two minutes at most, not
before each acknowledgement as Penstock and RabbitMQ do. Workers ask for as many jobs as they have done, half of their
share at a time, and acknowledge each job by itself; these acknowledgements have no answer.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import msgspec

from bench.live_driver import DriverError
from bench.live_load import STAMP
from bench.peers.endpoints import PeerPublisher, connected, exchange
from bench.peers.message import PeerMessage

__all__ = ["JetStreamPublisher", "JetStreamWorker", "ask", "configuration", "open_stream", "stream_publish_head"]

_LINE: Final = b"\r\n"
_CONNECT: Final = (
    b'CONNECT {"verbose":false,"pedantic":false,"lang":"bench","version":"1","protocol":1,'
    b'"headers":true,"no_responders":true}\r\n'
)
_PONG: Final = b"PONG\r\n"
_INBOX: Final = b"inbox."
_CONSUMER: Final = "workers"
_ACKNOWLEDGED: Final = b"+ACK"
_WINDOW_BYTES: Final = 2 * 1024 * 1024
"""The same as the credit that a broker of Penstock grants."""
_BUFFER_BYTES: Final = 1024 * 1024
_PENDING_MAX: Final = 100_000
_ANSWER_S_MAX: Final = 120.0


def configuration(folder: str) -> str:
    """The lines of a server's configuration that turn JetStream on."""
    return f'jetstream {{ store_dir: "{folder}" }}\n'


def open_stream(port: int, topic: str) -> None:
    """Make a stream of a topic, and the consumer that all workers share."""
    stream = {"name": topic, "subjects": [topic], "storage": "file", "retention": "workqueue"}
    settings = {"durable_name": _CONSUMER, "ack_policy": "explicit", "max_ack_pending": _PENDING_MAX}
    ask(port, f"$JS.API.STREAM.CREATE.{topic}", stream)
    ask(port, f"$JS.API.CONSUMER.DURABLE.CREATE.{topic}.{_CONSUMER}", {"stream_name": topic, "config": settings})


def ask(port: int, subject: str, content: Mapping[str, Any], *, answer_s_max: float = _ANSWER_S_MAX) -> dict[str, Any]:
    """Put a question to the interface of operators; raises ``DriverError`` if it refuses or does not answer."""
    body = msgspec.json.encode(content)
    question = b"PUB %b %bmade %d\r\n%b\r\n" % (subject.encode(), _INBOX, len(body), body)
    with closing(connected(port)) as connection:
        connection.settimeout(answer_s_max)
        try:
            data = exchange(connection, _CONNECT + b"SUB %bmade 1\r\n" % _INBOX + question, _is_answer)
        except TimeoutError:
            raise DriverError(f"NATS did not answer {subject}") from None
    # A server may speak of its cluster before it answers.
    answer = data[data.index(b"MSG ") :].partition(_LINE)[2]
    found: dict[str, Any] = msgspec.json.decode(answer)
    if "error" in found:
        raise DriverError(f"NATS said {found['error']}")
    return found


def _is_answer(data: bytes) -> bool:
    return b"MSG " in data and data.endswith(b"}\r\n")


def stream_publish_head(message: PeerMessage) -> bytes:
    """A PUB up to the time stamp, which asks for an acknowledgement."""
    size = len(message.packed) + STAMP.size
    return b"PUB %b %backs %d\r\n%b" % (message.topic.encode(), _INBOX, size, message.packed)


class _Frames:
    """Cuts what a server sends into messages."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[list[bytes], bytes]]:
        """Whole messages, each as the words of its first line and its content."""
        data, place = self._rest + data, 0
        found: list[tuple[list[bytes], bytes]] = []
        while (end := data.find(_LINE, place)) >= 0:
            line = data[place:end]
            if not line.startswith((b"MSG ", b"HMSG ")):
                self._on_line(line)
                place = end + 2
                continue
            words = line.split(b" ")
            following = end + 2 + int(words[-1]) + 2
            if following > len(data):
                break
            found.append((words, data[end + 2 : following - 2]))
            place = following
        self._rest = data[place:]
        return found

    def _on_line(self, line: bytes) -> None:
        if line == b"PING":
            self._socket.sendall(_PONG)
        elif line.startswith(b"-ERR"):
            raise DriverError(f"NATS said {line!r}")


class JetStreamPublisher(PeerPublisher):
    """A publisher whose messages the stream acknowledges, and who waits when its window is full."""

    def __init__(self, port: int) -> None:
        connection = connected(port)
        exchange(connection, _CONNECT + b"SUB %backs 1\r\nPING\r\n" % _INBOX, lambda data: data.endswith(_PONG))
        super().__init__(connection, credit=_WINDOW_BYTES)
        self._frames = _Frames(connection)
        self._acknowledged = 0

    @property
    def acknowledged(self) -> int:
        """Messages that the stream has."""
        return self._acknowledged

    def on_data(self, data: bytes) -> None:
        """Count acknowledgements; the credit of a message is its share of what was sent."""
        waiting = self.sent - self._acknowledged
        for _, content in self._frames.feed(data):
            if b'"error"' in content:
                raise DriverError(f"NATS said {content!r}")
            self._acknowledged += 1
        if waiting:
            confirmed = waiting - (self.sent - self._acknowledged)
            self.credit += (_WINDOW_BYTES - self.credit) * confirmed // waiting


class JetStreamWorker:
    """A worker that asks for jobs, and acknowledges each by itself, those that arrive together in one write."""

    def __init__(self, port: int, name: str, topic: str, prefetch: int) -> None:
        self.socket = connected(port)
        self.done = 0
        self._frames = _Frames(self.socket)
        self._prefetch = prefetch
        self._inbox = _INBOX + name.encode()
        self._ask_subject = f"$JS.API.CONSUMER.MSG.NEXT.{topic}.{_CONSUMER}".encode()
        self._asked = prefetch
        self.socket.sendall(_CONNECT + b"SUB %b 1\r\n" % self._inbox + self._question(prefetch))

    def on_readable(self) -> None:
        """Read what is there, acknowledge each job, and ask for more when half of them are done."""
        data = self.socket.recv(_BUFFER_BYTES)
        if not data:
            raise DriverError("NATS closed the connection of a worker")
        parts: list[bytes] = []
        for words, content in self._frames.feed(data):
            if words[0] == b"HMSG":
                raise DriverError(f"NATS said {content!r}")
            # The subject for the answer: stream, consumer, how often it was delivered, and more.
            if words[3].split(b".")[4] != b"1":
                raise DriverError("NATS handed out a job again")
            parts.append(b"PUB %b 4\r\n%b\r\n" % (words[3], _ACKNOWLEDGED))
        self.done += len(parts)
        missing = self._prefetch - (self._asked - self.done)
        if missing >= self._prefetch // 2:
            self._asked += missing
            parts.append(self._question(missing))
        self.socket.sendall(b"".join(parts))

    def finish(self) -> None:
        """Ping, and wait for the answer, which comes after everything that was sent before."""
        exchange(self.socket, b"PING\r\n", lambda data: data.endswith(_PONG))

    def _question(self, count: int) -> bytes:
        content = msgspec.json.encode({"batch": count})
        return b"PUB %b %b %d\r\n%b\r\n" % (self._ask_subject, self._inbox, len(content), content)
