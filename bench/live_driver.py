"""Drives one broker with raw sockets and prepared frames, all in one process that must be cheaper than the broker.

Deliveries are counted by what the heads of frames say and never decoded; where a broker sends each message in a frame
of its own, and all have one size, by bytes alone. What is particular to a protocol is behind ``Dialect``: Penstock's is
here, those of other brokers in ``bench/peers``.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from struct import Struct
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from bench.live_load import STAMP, Expected, Load, Ring
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Goodbye,
    Hello,
    Publish,
    PublishAck,
    Refused,
    Rewind,
    Subscribe,
    Subscribed,
    Welcome,
    carried_credit,
)

__all__ = [
    "PENSTOCK",
    "Connection",
    "Dialect",
    "Driver",
    "DriverError",
    "NamingDialect",
    "Publisher",
    "Receiver",
    "Receiving",
    "Sender",
    "Sending",
    "Waits",
]

_HEAD: Final = Struct(">IBHI")
"""The beginning of a delivery: length, kind, pubend, number of messages. A shorter frame waits for those after it."""
_MESSAGE: Final = Struct(">QHI")
"""Tick, number of subscriptions and length of each message of a delivery, in one block before all messages."""
_DELIVER: Final = 3
_BUFFER_BYTES: Final = 1024 * 1024
_SETUP_S: Final = 120.0
_TAIL_S: Final = 60.0
_POLL_S: Final = 0.05
_BATCHES_PER_TURN: Final = 4
_UNDERWAY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of deliveries that may be in flight: enough to keep the broker busy, and far from its bounds."""

_Kind = TypeVar("_Kind")


class DriverError(RuntimeError):
    """The broker did not do what the benchmark relies on."""


class Receiving(Protocol):
    """A subscriber of any protocol, subscribed and ready to count."""

    @property
    def socket(self) -> socket.socket:
        """The connection, which does not block."""
        ...

    def scan(self, buffer: bytearray, view: memoryview, latencies_ns: list[int] | None) -> int:
        """Read what is there and return the number of deliveries; with a list, add the latency of each message."""
        ...

    def count(self, view: memoryview) -> int:
        """Read what is there and return the number of bytes."""
        ...


class Sending(Protocol):
    """A publisher of any protocol, connected and ready to send."""

    @property
    def socket(self) -> socket.socket:
        """The connection, which does not block."""
        ...

    @property
    def credit(self) -> int:
        """Bytes that it may still send before the broker acknowledges some."""
        ...

    @property
    def sent(self) -> int:
        """Messages sent so far."""
        ...

    @property
    def acknowledged(self) -> int:
        """Messages that the broker has acknowledged; those sent, if the protocol has no acknowledgements."""
        ...

    def send(self, load: Ring, place: int, count: int) -> None:
        """Send a batch."""
        ...

    def send_one(self, load: Ring, place: int) -> None:
        """Send one message, and ask for its acknowledgement in the same write."""
        ...

    def ask(self) -> None:
        """Ask for an acknowledgement of everything sent, as soon as possible."""
        ...

    def push(self) -> bool:
        """Hand to the socket what it accepts; return whether nothing is left."""
        ...

    def on_readable(self) -> None:
        """Process acknowledgements."""
        ...


class Dialect(Protocol):
    """How to connect to a broker; what the texts of subscriptions mean is up to it."""

    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> Receiving:
        """Connect a subscriber, and return when its subscriptions are in force."""
        ...

    def publisher(self, port: int, name: str) -> Sending:
        """Connect a publisher."""
        ...


class Connection:
    """A socket that has been welcomed."""

    def __init__(self, port: int, name: str, *, publisher: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_SETUP_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = FrameReader()
        self.socket.sendall(encode_frame(Hello(PROTOCOL_VERSION, "client", name, "", publisher=publisher)))
        self.welcome = self.wait_for(Welcome, 1)[0]

    def wait_for(self, kind: type[_Kind], count: int) -> list[_Kind]:
        """Read until ``count`` frames of a kind have arrived."""
        found: list[_Kind] = []
        while len(found) < count:
            found += [frame for frame in self.read() if isinstance(frame, kind)]
        return found

    def read(self) -> Iterator[Any]:
        """Read what is there, as frames."""
        data = self.socket.recv(_BUFFER_BYTES)
        for frame in self.reader.feed(data) if data else (Goodbye("eof", "the broker closed the connection"),):
            if isinstance(frame, Goodbye | Refused):
                raise DriverError(f"the broker said {frame}")
            yield frame


class Receiver(Connection):
    """A subscriber that counts what it receives."""

    def __init__(
        self, port: int, name: str, selectors: Sequence[str], *, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(port, name)
        for start in range(0, len(selectors), 100):
            numbered = list(enumerate(selectors))[start : start + 100]
            frames = [Subscribe(number, text, **(options or {})) for number, text in numbered]
            self.socket.sendall(b"".join(map(encode_frame, frames)))
            self.wait_for(Subscribed, len(numbered))
        self.socket.settimeout(0)
        self._rest = b""

    def subscribe_durably(self, count: int) -> None:
        """Make durable subscriptions to next to nothing, each with its own name."""
        for number in range(count):
            self.socket.sendall(encode_frame(Subscribe(number, f"place = {number}", durable=f"name-{number}")))
            if number % 100 == 99 or number == count - 1:
                begun: set[int] = set()
                while len(begun) <= number % 100:
                    begun |= {each.number for each in self.wait_for(Subscribed, 1) if each.starts}

    def scan(self, buffer: bytearray, view: memoryview, latencies_ns: list[int] | None) -> int:
        """Read what is there and return the number of deliveries; with a list, add the latency of each message."""
        start = len(self._rest)
        buffer[:start] = self._rest
        end = start + self.socket.recv_into(view[start:])
        if end == start:
            raise DriverError("the broker closed the connection of a subscriber")
        now_ns = time.time_ns()
        place = messages = 0
        unpack = _HEAD.unpack_from
        while place + _HEAD.size <= end:
            length, kind, _, count = unpack(buffer, place)
            following = place + 4 + length
            if following > end:
                break
            if kind == _DELIVER:
                messages += count
                if latencies_ns is not None:
                    latencies_ns += [now_ns - stamp for stamp in _stamps(buffer, place + _HEAD.size, count)]
            place = following
        self._rest = bytes(view[place:end])
        return messages

    def count(self, view: memoryview) -> int:
        """Read what is there and return the number of bytes."""
        count = self.socket.recv_into(view)
        if not count:
            raise DriverError("the broker closed the connection of a subscriber")
        return count


def _stamps(buffer: bytearray, place: int, count: int) -> Iterator[int]:
    """The time stamps of the messages of a delivery, each at the end of its message."""
    end = place + count * _MESSAGE.size
    for _, numbers, length in _MESSAGE.iter_unpack(memoryview(buffer)[place:end]):
        end += 4 * numbers + length
        yield STAMP.unpack_from(buffer, end - STAMP.size)[0]


class Sender:
    """Sends prepared batches without ever blocking, and keeps account of its credit."""

    def __init__(self, connected: socket.socket, *, credit: int, identity: bytes = b"") -> None:
        connected.settimeout(0)
        self.socket = connected
        self.credit = credit
        self.sent = 0
        self._identity = identity
        self._pending: memoryview | None = None

    def send(self, load: Ring, place: int, count: int) -> None:
        """Send a batch."""
        assert self._pending is None, "the last batch is still under way"
        self._pending = memoryview(self._taken(load, place, count))
        self.push()

    def send_one(self, load: Ring, place: int) -> None:
        """Send one message; most brokers acknowledge it without being asked."""
        self.send(load, place, 1)

    def _taken(self, load: Ring, place: int, count: int) -> bytes:
        """The frame of the next batch, which counts as sent."""
        frame = load.frame(self.sent + 1, place, count, time.time_ns(), self._identity)
        self.sent += count
        self.credit -= load.body_bytes * count
        return frame

    def push(self) -> bool:
        """Hand to the socket what it accepts; return whether nothing is left."""
        if self._pending is not None:
            with suppress(BlockingIOError):
                taken = self.socket.send(self._pending)
                self._pending = self._pending[taken:] if taken < len(self._pending) else None
        return self._pending is None


class Publisher(Sender):
    """A publisher that sends as far as its credit goes."""

    def __init__(self, port: int, name: str, *, connection: Connection | None = None) -> None:
        connection = connection or Connection(port, name)
        welcome = connection.welcome
        identity = welcome.publisher.to_bytes(4) + welcome.broker_number.to_bytes(4)
        super().__init__(connection.socket, credit=welcome.credit_bytes, identity=identity)
        self.acknowledged = 0
        self._reader = connection.reader

    def send_one(self, load: Ring, place: int) -> None:
        """Send one message, and ask for its acknowledgement in the same write, as the client library does."""
        assert self._pending is None, "the last batch is still under way"
        message = self._taken(load, place, 1)
        self._pending = memoryview(message + self._question())
        self.push()

    def ask(self) -> None:
        """Ask for an acknowledgement of everything sent, as soon as possible."""
        assert self._pending is None, "the last batch is still under way"
        self._pending = memoryview(self._question())
        self.push()

    def _question(self) -> bytes:
        return encode_frame(Publish(self.sent + 1, []))

    def on_readable(self) -> None:
        """Process acknowledgements."""
        with suppress(BlockingIOError):
            data = self.socket.recv(_BUFFER_BYTES)
            for frame in self._reader.feed(data) if data else (Goodbye("eof", "the broker closed the connection"),):
                if isinstance(frame, PublishAck):
                    self.credit += frame.credit_bytes
                    self.acknowledged = frame.sequence
                elif isinstance(frame, Goodbye | Refused | Rewind):
                    raise DriverError(f"the broker said {frame}")


class NamingPublisher(Publisher):
    """A publisher that does as the client library does: it names its pubend, and has an identity of its own."""

    def __init__(self, port: int, name: str, pubend: str) -> None:
        connection = Connection(port, name, publisher=name.encode())
        while pubend not in connection.welcome.pubends and pubend not in {
            each[0] for each in connection.welcome.others
        }:
            # The broker has just started, and has not heard of the others yet.
            connection.socket.close()
            time.sleep(_POLL_S)
            connection = Connection(port, name, publisher=name.encode())
        super().__init__(port, name, connection=connection)
        if pubend not in connection.welcome.pubends:
            self.credit = carried_credit(self.credit)
        self._pubend = pubend.encode()

    def _taken(self, load: Ring, place: int, count: int) -> bytes:
        assert isinstance(load, Load), "only our own messages name a pubend"
        frame = load.frame(self.sent + 1, place, count, time.time_ns(), self._identity, self._pubend)
        self.sent += count
        self.credit -= load.body_bytes * count
        return frame

    def _question(self) -> bytes:
        return encode_frame(Publish(self.sent + 1, [], self._pubend.decode()))


class NamingDialect:
    """Penstock's own protocol, with a pubend that publishers name."""

    def __init__(self, pubend: str) -> None:
        self._pubend = pubend

    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> Receiver:
        """Connect a subscriber."""
        return Receiver(port, name, wanted)

    def publisher(self, port: int, name: str) -> NamingPublisher:
        """Connect a publisher."""
        return NamingPublisher(port, name, self._pubend)


class _PenstockDialect:
    """Penstock's own protocol: the texts of subscriptions are selectors."""

    def receiver(self, port: int, name: str, wanted: Sequence[str]) -> Receiver:
        return Receiver(port, name, wanted)

    def publisher(self, port: int, name: str) -> Publisher:
        return Publisher(port, name)


PENSTOCK: Final = _PenstockDialect()


class Waits:
    """How long batches wait for their acknowledgements, from being handed to the socket."""

    def __init__(self) -> None:
        self.times_ms: list[float] = []
        self._begun: dict[Sending, deque[tuple[int, float]]] = {}
        """For each publisher the batches that wait: how many messages it had sent with each, and when."""

    def begin(self, publisher: Sending) -> None:
        """A publisher has sent a batch."""
        self._begun.setdefault(publisher, deque()).append((publisher.sent, time.perf_counter()))

    def end(self) -> None:
        """Take the time of all batches that have been acknowledged."""
        now_s = time.perf_counter()
        for publisher, begun in self._begun.items():
            while begun and begun[0][0] <= publisher.acknowledged:
                self.times_ms.append((now_s - begun.popleft()[1]) * 1e3)


class Driver:
    """All publishers and subscribers of a benchmark; use it with ``with``."""

    def __init__(
        self, port: int, *, selectors: Sequence[Sequence[str]], publishers: int = 1, dialect: Dialect = PENSTOCK
    ) -> None:
        self.receivers = [dialect.receiver(port, f"s{number}", texts) for number, texts in enumerate(selectors)]
        self.publishers = [dialect.publisher(port, f"p{number}") for number in range(publishers)]
        self._latencies_ns: list[int] | None = None
        self.sent = self.expected_frames = 0
        self._frames = self._bytes = 0
        self._frame_bytes = 1
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._epoll = select.epoll()
        self._readable: dict[int, Callable[[], None]] = {}
        for publisher in self.publishers:
            self._register(publisher, publisher.on_readable)
        self._scan_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._epoll.close()
        for receiver in self.receivers:
            receiver.socket.close()
        for publisher in self.publishers:
            publisher.socket.close()

    @property
    def received_frames(self) -> int:
        """Deliveries received so far."""
        return self._frames + self._bytes // self._frame_bytes

    @property
    def held(self) -> int:
        """How many subscribers are still connected."""
        return sum(_is_open(each.socket) for each in self.receivers)

    def count_bytes(self, frame_bytes: int) -> None:
        """Count bytes instead of frames: from now on all deliveries have this size."""
        self._frame_bytes = frame_bytes
        for receiver in self.receivers:
            self._register(receiver, partial(self._count, receiver))

    def note_latencies(self) -> list[int]:
        """Record the latency of each message from now on, in the list that is returned."""
        latencies_ns: list[int] = []
        self._latencies_ns = latencies_ns
        self._scan_all()
        return latencies_ns

    def blast(self, load: Ring, expected: Expected, *, seconds: float, batch: int) -> float:
        """Publish as fast as the broker accepts; return the seconds until the last delivery."""
        publisher, place = self.publishers[0], 0
        started_s = time.perf_counter()
        end_s = started_s + seconds
        ring = len(load) // batch * batch
        frames_of = [int(expected.frames[each : each + batch].sum()) for each in range(0, ring, batch)]
        underway_max = _UNDERWAY_BYTES_MAX // (load.body_bytes + 64)
        while time.perf_counter() < end_s:
            is_free = publisher.push()
            for _ in range(_BATCHES_PER_TURN):
                if not is_free or publisher.credit < load.body_bytes * batch:
                    break
                if self.expected_frames - self.received_frames > underway_max:
                    break
                publisher.send(load, place, batch)
                self.sent += batch
                self.expected_frames += frames_of[place // batch]
                place = (place + batch) % ring
                is_free = publisher.push()
            self._poll(0.0)
        self._finish()
        return time.perf_counter() - started_s

    def pour(self, load: Ring, *, seconds: float, batch: int, waits: Waits | None = None) -> None:
        """Publish from all publishers as fast as their credit goes, and wait for the last acknowledgement."""
        place, ring = 0, len(load) // batch * batch
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            for publisher in self.publishers:
                if publisher.push() and publisher.credit >= load.body_bytes * batch:
                    publisher.send(load, place, batch)
                    self.sent += batch
                    place = (place + batch) % ring
                    if waits is not None:
                        waits.begin(publisher)
            self._poll(0.0)
            if waits is not None:
                waits.end()
        self._finish()

    def one_by_one(self, load: Ring, *, seconds: float) -> list[float]:
        """Publish one message at a time, each when the last is acknowledged; return the milliseconds that each took."""
        publisher, waits_ms = self.publishers[0], list[float]()
        end_s = time.perf_counter() + seconds
        while (began_s := time.perf_counter()) < end_s:
            publisher.send_one(load, self.sent % len(load))
            self.sent += 1
            while publisher.acknowledged < publisher.sent:
                self._poll(0.01)
            waits_ms.append((time.perf_counter() - began_s) * 1e3)
        return waits_ms

    def pace(self, load: Ring, expected: Expected, *, seconds: float, rate: float, pause_s: float) -> float:
        """Publish at a rate, publishers in turn, messages due within a pause together; otherwise like ``blast``."""
        started_s = time.perf_counter()
        first, place, turn = self.sent, 0, 0
        while (now_s := time.perf_counter() - started_s) < seconds:
            due = int(now_s * rate) + 1 - (self.sent - first)
            while due > 0:
                count = min(due, len(load) - place) if len(self.publishers) == 1 else 1
                publisher = self.publishers[turn]
                if not publisher.push() or publisher.credit < load.body_bytes * count:
                    break
                publisher.send(load, place, count)
                self.sent += count
                self.expected_frames += int(expected.frames[place : place + count].sum())
                place, turn = (place + count) % len(load), (turn + 1) % len(self.publishers)
                due -= count
            self._poll_until(started_s + now_s + pause_s)
        self._finish()
        return time.perf_counter() - started_s

    def pace_beside(self, load: Ring, expected: Expected, step: Callable[[], bool], *, rate: float) -> float:
        """Publish at a rate until ``step`` returns True; return the messages per second published and delivered."""
        started_s = time.perf_counter()
        first, place, publisher = self.sent, 0, self.publishers[0]
        is_done = False
        while not is_done:
            due = int((time.perf_counter() - started_s) * rate) + 1 - (self.sent - first)
            count = min(due, len(load) - place)
            if count > 0 and publisher.push() and publisher.credit >= load.body_bytes * count:
                publisher.send(load, place, count)
                self.sent += count
                self.expected_frames += int(expected.frames[place : place + count].sum())
                place = (place + count) % len(load)
            self._poll(0.0)
            is_done = step()
            if time.perf_counter() - started_s > _TAIL_S:
                raise DriverError("the one beside did not get done")
        self._finish()
        return (self.sent - first) / (time.perf_counter() - started_s)

    def warm_up(self, load: Ring, expected: Expected, *, batch: int) -> None:
        """Send the ring once, spread over all publishers, and check that everything comes back."""
        for place in range(0, len(load) // batch * batch, batch):
            publisher = self.publishers[place // batch % len(self.publishers)]
            while not publisher.push() or publisher.credit < load.body_bytes * batch:
                self._poll(0.01)
            publisher.send(load, place, batch)
            self.sent += batch
            self.expected_frames += int(expected.frames[place : place + batch].sum())
        self._finish()

    def _finish(self) -> None:
        """Wait until everything is acknowledged and delivered; raises if there is even one delivery more."""
        deadline_s = time.perf_counter() + _TAIL_S
        unasked = self.publishers
        while not self._is_done():
            # As clients do when they flush: an acknowledgement that nobody asks for may come a quarter second later.
            unasked = [each for each in unasked if not _has_asked(each)]
            if time.perf_counter() > deadline_s:
                raise DriverError(f"{self.received_frames:,} deliveries of {self.expected_frames:,} came back")
            self._poll(0.01)
        if self.received_frames != self.expected_frames:
            raise DriverError(f"{self.received_frames:,} deliveries instead of {self.expected_frames:,}")

    def _is_done(self) -> bool:
        # Push first: the deliveries that are missing may be of messages that a publisher still holds.
        unsent = [each for each in self.publishers if not each.push()]
        is_acknowledged = all(each.acknowledged >= each.sent for each in self.publishers)
        return not unsent and is_acknowledged and self.received_frames >= self.expected_frames

    def _poll_until(self, due_s: float) -> None:
        # Poll without sleeping: the clock of epoll is too coarse for the pace, and the core is ours.
        self._poll(0.0)
        while time.perf_counter() < due_s:
            self._poll(0.0)

    def _poll(self, timeout_s: float) -> None:
        readable = self._readable
        for fd, _ in self._epoll.poll(timeout_s):
            readable[fd]()

    def _scan_all(self) -> None:
        for receiver in self.receivers:
            self._register(receiver, partial(self._scan, receiver))

    def _scan(self, receiver: Receiving) -> None:
        self._frames += receiver.scan(self._buffer, self._view, self._latencies_ns)

    def _count(self, receiver: Receiving) -> None:
        self._bytes += receiver.count(self._view)

    def _register(self, connection: Receiving | Sending, readable: Callable[[], None]) -> None:
        fd = connection.socket.fileno()
        if fd not in self._readable:
            self._epoll.register(fd, select.EPOLLIN)
        self._readable[fd] = readable


def _is_open(connection: socket.socket) -> bool:
    """Whether the broker has not closed a connection that does not block."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _has_asked(publisher: Sending) -> bool:
    """Ask for an acknowledgement if everything is sent and some of it not acknowledged; return whether it is sent."""
    if not publisher.push():
        return False
    if publisher.acknowledged < publisher.sent:
        publisher.ask()
    return True
