"""What a check of one clause works with: connections to the server, and destinations that nobody else uses."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from bench.stomp.raw import (
    GoneError,
    Headers,
    RawConnection,
    ServerFrame,
    SilentError,
    TcpTransport,
    Transport,
    UnmetError,
    encode,
    shown,
)

__all__ = [
    "QUIET_S",
    "NotApplicableError",
    "Record",
    "Session",
    "SkippedError",
    "Stage",
    "Target",
    "alive",
    "ended",
    "expect",
    "left_in",
    "needed",
    "same",
]

QUIET_S: Final = 0.3
"""After so long without a frame we believe that none will come."""


class NotApplicableError(Exception):
    """The clause says nothing about this server, or leaves it a choice that it has made; the text says why."""


class SkippedError(Exception):
    """The clause cannot be tried here; the text says why."""


@dataclass(slots=True, frozen=True)
class Target:
    """A server, and what has to be known about it."""

    name: str
    host: str
    port: int
    web: tuple[str, int] | None = None
    """Where it speaks WebSocket."""
    web_path: str = "/"
    virtual_host: str = ""
    """The host header of CONNECT; empty for the host."""
    topic_prefix: str = "/topic/"
    queue_prefix: str = "/queue/"
    dead_letters: str = ""
    """The destination to which dead letters go; empty if we do not know one."""
    login: str = ""
    """A name that it knows; empty if it lets everybody in."""
    passcode: str = ""
    deliveries_max: int = 10
    """How often a message may be refused before it is a dead letter, at most."""
    patience_s: float = 5.0
    """How long we wait for what must come."""


@dataclass(slots=True)
class Record:
    """What is noticed at a server in passing, in all checks, by version; clauses of their own judge it."""

    flaws: dict[str, dict[str, None]] = field(default_factory=dict)
    """What broke the grammar in its frames."""
    lingering: dict[str, dict[str, None]] = field(default_factory=dict)
    """The errors after which it left the connection open."""
    errors: dict[str, int] = field(default_factory=dict)
    """How many errors it sent that must end the connection."""

    def error(self, connection: RawConnection, told: object, *, version: str, patience_s: float) -> None:
        """Note whether the server closes the connection after this error."""
        self.errors[version] = self.errors.get(version, 0) + 1
        # A server that does not close once will not close later either, and need not be waited for again.
        if not connection.closes(0.1 if self.lingering else patience_s):
            self.lingering.setdefault(version, {})[str(told)] = None


class Stage:
    """The server under test, for one clause."""

    _numbers = count(1)
    # Two runs against one server must not share destinations either.
    _run: Final = f"{time.time_ns() // 1_000_000:x}"

    def __init__(self, target: Target, version: str, record: Record | None = None) -> None:
        self.target: Final = target
        self.version: Final = version
        self.record: Final = record or Record()
        self._connections: list[RawConnection] = []

    def unique(self, prefix: str) -> str:
        """A name that no other check uses."""
        return f"{prefix}{self._run}.{next(self._numbers)}"

    def queue(self) -> str:
        """A queue of our own."""
        return self.unique(f"{self.target.queue_prefix}conformance.")

    def topic(self) -> str:
        """A topic of our own."""
        return self.unique(f"{self.target.topic_prefix}conformance.")

    def raw(self, transport: Transport | None = None) -> RawConnection:
        """A connection on which nothing has been said."""
        target = self.target
        if transport is None:
            transport = TcpTransport(target.host, target.port, patience_s=target.patience_s)
        connection = RawConnection(transport, patience_s=target.patience_s)
        self._connections.append(connection)
        return connection

    def opening(self, *, version: str | None = None, headers: Headers = ()) -> list[tuple[str, str]]:
        """The headers of a CONNECT that must succeed; given ones replace ours."""
        version = version or self.version
        given = list(headers)
        ours = (
            []
            if version == "1.0"
            else [("accept-version", version), ("host", self.target.virtual_host or self.target.host)]
        )
        if self.target.login:
            ours += [("login", self.target.login), ("passcode", self.target.passcode)]
        return [(name, value) for name, value in ours if name not in dict(given)] + given

    def connect(
        self, *, version: str | None = None, headers: Headers = (), transport: Transport | None = None
    ) -> Session:
        """A connection that the server has accepted."""
        connection = self.raw(transport)
        connection.send(encode("CONNECT", self.opening(version=version, headers=headers)))
        return Session(self, connection, version or self.version, expect(connection.frame(), "CONNECTED"))

    def note_error(self, connection: RawConnection, error: ServerFrame) -> None:
        """Note whether the server closes the connection after this error."""
        self.record.error(connection, error, version=self.version, patience_s=self.target.patience_s)

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections:
            self.record.flaws.setdefault(connection.reader.version, {}).update(dict.fromkeys(connection.flaws))
            connection.close()
        self._connections.clear()


class Session:
    """A connection after CONNECTED; it keeps messages that come while something else is awaited."""

    def __init__(self, stage: Stage, connection: RawConnection, version: str, connected: ServerFrame) -> None:
        self.connection: Final = connection
        self.version: Final = version
        self.connected: Final = connected
        self.stage: Final = stage
        self._numbers = count(1)
        self._messages: deque[ServerFrame] = deque()
        self._receipts: list[str] = []

    def write(self, command: str, headers: Headers = (), body: bytes = b"") -> None:
        """Send a frame."""
        self.connection.send(encode(command, headers, body, version=self.version))

    def ask(self, command: str, headers: Headers = (), body: bytes = b"") -> None:
        """Send a frame and wait for its receipt."""
        receipt = f"r{next(self._numbers)}"
        self.write(command, [*headers, ("receipt", receipt)], body)
        self.receipt(receipt)

    def receipt(self, wanted: str) -> None:
        """Wait for a receipt."""
        while wanted not in self._receipts:
            frame = self.connection.frame()
            if frame.command == "MESSAGE":
                self._messages.append(frame)
            else:
                self._receipts.append(expect(frame, "RECEIPT").get("receipt-id") or "")
        self._receipts.remove(wanted)

    def send(self, destination: str, body: str | bytes = b"", headers: Headers = ()) -> None:
        """Send a message, with its content-length, and wait for the receipt."""
        data = body.encode() if isinstance(body, str) else body
        self.ask("SEND", [("destination", destination), ("content-length", str(len(data))), *headers], data)

    def subscribe(self, destination: str, ack: str = "", headers: Headers = (), *, name: str | None = None) -> str:
        """Subscribe, wait for the receipt, and return the identifier."""
        identifier = name or f"s{next(self._numbers)}"
        modes = [("ack", ack)] if ack else []
        self.ask("SUBSCRIBE", [("id", identifier), ("destination", destination), *modes, *headers])
        return identifier

    def message(self, within_s: float | None = None) -> ServerFrame:
        """The next message."""
        if self._messages:
            return self._messages.popleft()
        return expect(self.connection.frame(within_s), "MESSAGE")

    def bodies(self, number: int) -> list[bytes]:
        """The bodies of so many messages."""
        return [self.message().body for _ in range(number)]

    def until_quiet(self, quiet_s: float = QUIET_S) -> list[ServerFrame]:
        """All messages that come until there are none for a while."""
        messages: list[ServerFrame] = []
        while True:
            try:
                messages.append(self.message(quiet_s))
            except SilentError:
                return messages

    def nothing_comes(self, why: str, quiet_s: float = QUIET_S) -> None:
        """No message may come; ``why`` says what it means if one does."""
        for frame in self.until_quiet(quiet_s):
            raise UnmetError(f"{why}: {frame}")

    def ack(self, frame: ServerFrame, headers: Headers = (), *, command: str = "ACK") -> None:
        """Acknowledge a message as the version does it, and wait for the receipt."""
        self.ask(command, [*self.ack_headers(frame), *headers])

    def ack_headers(self, frame: ServerFrame) -> list[tuple[str, str]]:
        """How the version names a message to be acknowledged."""
        if self.version == "1.2":
            return [("id", needed(frame, "ack"))]
        if self.version == "1.1":
            return [("subscription", needed(frame, "subscription")), ("message-id", needed(frame, "message-id"))]
        return [("message-id", needed(frame, "message-id"))]

    def error(self) -> ServerFrame:
        """The next ERROR; messages and receipts before it are left out."""
        while (frame := self.connection.frame()).command != "ERROR":
            if frame.command == "RECEIPT":
                raise UnmetError(f"accepted: {frame}")
        return frame

    def refused(self, command: str, headers: Headers = (), body: bytes = b"") -> ServerFrame:
        """Send a frame that must be answered by ERROR."""
        self.write(command, [*headers, ("receipt", "refused")], body)
        return self.is_ended_by_error()

    def is_ended_by_error(self) -> ServerFrame:
        """The ERROR that must come; that the connection must be closed is noted for a clause of its own."""
        error = self.error()
        if self.version != "1.0":
            self.stage.note_error(self.connection, error)
        return error

    def disconnect(self) -> None:
        """Say goodbye, and wait for the receipt."""
        self.ask("DISCONNECT")
        self.connection.close()

    def drop(self) -> None:
        """Close the connection without a word."""
        self.connection.close()

    @contextmanager
    def transaction(self, end: str = "COMMIT", name: str = "") -> Iterator[list[tuple[str, str]]]:
        """Begin a transaction and end it; inside, the header that makes a frame part of it."""
        header = [("transaction", name or f"t{next(self._numbers)}")]
        self.ask("BEGIN", header)
        yield header
        self.ask(end, header)


def expect(frame: ServerFrame, command: str) -> ServerFrame:
    """The frame, if it has this command."""
    if frame.command != command:
        raise UnmetError(f"{command} expected, but got {frame}")
    return frame


def needed(frame: ServerFrame, name: str) -> str:
    """The value of a header that must be there."""
    value = frame.get(name)
    if value is None:
        raise UnmetError(f"no {name} in {frame}")
    return value


def same(found: object, wanted: object, what: str) -> None:
    """Two values must be equal."""
    if found != wanted:
        raise UnmetError(f"{what} is {shown(repr(found))}, not {shown(repr(wanted))}")


def left_in(stage: Stage, queue: str, wanted: Sequence[str], *, version: str | None = None) -> None:
    """A new consumer must find exactly these messages in a queue, in any order; it takes them."""
    session = stage.connect(version=version)
    session.subscribe(queue)
    found: list[str] = []
    try:
        while len(found) < len(wanted):
            found.append(session.message().body.decode())
    except SilentError:
        pass
    found += [each.body.decode() for each in session.until_quiet()]
    same(sorted(found), sorted(wanted), "what is left in the queue")
    session.disconnect()


def alive(session: Session) -> None:
    """The connection still works: a message makes a round trip."""
    topic = session.stage.topic()
    session.subscribe(topic)
    session.send(topic, "alive")
    while session.message().body != b"alive":
        pass


def ended(stage: Stage, connection: RawConnection) -> str:
    """How a server ended a connection that it could not accept: by ERROR, or by closing it alone."""
    try:
        frame = expect(connection.frame(), "ERROR")
    except GoneError:
        return "closed without ERROR"
    stage.note_error(connection, frame)
    return str(frame)
