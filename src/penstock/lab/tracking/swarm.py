"""Publishers and subscribers of the tracking paper as raw sockets in one process, cheaper than the broker they load.

Every message has its own identifier, made by its publisher at the moment it is sent; the last bytes of its payload say
when that was. Deliveries are counted by the heads of frames, and never decoded.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Final, Self, TypeVar

from penstock.lab.demo_overlay import BrokerProcessError
from penstock.matching import MatchIndex
from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageIdSource
from penstock.model.values import AttributeValue
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Goodbye,
    Hello,
    Publish,
    Refused,
    Subscribe,
    Subscribed,
    Welcome,
)
from penstock.selectors import Selector
from penstock.sim.workloads import TopicWorkload

__all__ = ["Load", "Swarm", "cpu_s"]

_STAMP: Final = Struct(">Q")
_BUFFER_BYTES: Final = 1024 * 1024
_SETUP_S: Final = 60.0
_TAIL_S: Final = 60.0
_TURNS_PER_PUBLISHER: Final = 10
_UNSENT_MAX: Final = 200
"""The most messages sent at once after a delay; further ones that are due are sent later."""

_Kind = TypeVar("_Kind")


class Load:
    """The messages published in turn, complete but for identifier and time, and how many subscribers want each."""

    def __init__(self, workload: TopicWorkload) -> None:
        more: dict[str, AttributeValue] = {"class": "SENSOR", "site": "north", "unit": "bar", "value": 1.5}
        self.selectors: Final = workload.subscriptions()
        self.publishers: Final = workload.publishers
        index = MatchIndex()
        for number, text in enumerate(self.selectors):
            index.add(number, Selector.parse(text))
        self.messages: list[tuple[int, bytes, int]] = []
        """Publisher, the bytes between identifier and time, and the number of deliveries."""
        for each in workload.publications(_TURNS_PER_PUBLISHER * workload.publishers):
            attributes = each.attributes | more
            body = encode_body(MessageId(1, 1, 1, 1), Message(attributes, each.payload))
            wanted = len(index.find(attributes).ids())
            self.messages.append((each.publisher, body[MESSAGE_ID_BYTES : -_STAMP.size], wanted))


class _Connection:
    """A socket that the broker has welcomed."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_SETUP_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self.socket.sendall(encode_frame(Hello(PROTOCOL_VERSION, "client", name, "")))
        self.welcome = self._wait_for(Welcome)

    def _wait_for(self, kind: type[_Kind]) -> _Kind:
        while True:
            for frame in self._heard():
                if isinstance(frame, kind):
                    return frame

    def _heard(self) -> list[object]:
        data = self.socket.recv(_BUFFER_BYTES)
        frames: list[object] = list(self._reader.feed(data))
        for frame in frames if data else [Goodbye("eof", "the broker closed the connection")]:
            if isinstance(frame, Goodbye | Refused):
                raise BrokerProcessError(f"the broker said {frame}")
        return frames


class _Subscriber(_Connection):
    def __init__(self, port: int, name: str, selector: str) -> None:
        super().__init__(port, name)
        self.socket.sendall(encode_frame(Subscribe(1, selector)))
        self._wait_for(Subscribed)
        self.socket.settimeout(0)

    def on_readable(self, latencies_ns: list[int]) -> None:
        """Record the latency of each message that has arrived."""
        data = self.socket.recv(_BUFFER_BYTES)
        now_ns = time.time_ns()
        if not data:
            raise BrokerProcessError("the broker closed the connection of a subscriber")
        for frame in self._reader.feed(data):
            if isinstance(frame, Deliver):
                for body in frame.bodies:
                    latencies_ns.append(now_ns - _STAMP.unpack_from(body, len(body) - _STAMP.size)[0])


class _Publisher(_Connection):
    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self._ids = MessageIdSource(self.welcome.publisher, self.welcome.broker_number)
        self.socket.settimeout(0)
        self._sent = 0
        self._pending = b""

    @property
    def is_behind(self) -> bool:
        """Whether some bytes are still unsent."""
        return bool(self._pending)

    def send(self, middle: bytes) -> None:
        """Publish a message now."""
        now_ns = time.time_ns()
        made = self._ids.next(now_ns // 1_000_000).to_bytes()
        self._sent += 1
        self._pending += encode_frame(Publish(self._sent, [made + middle + _STAMP.pack(now_ns)]))
        self.push()

    def push(self) -> None:
        """Send as much as the socket takes."""
        with suppress(BlockingIOError):
            self._pending = self._pending[self.socket.send(self._pending) :]

    def on_readable(self, _: list[int]) -> None:
        """Read acknowledgements; only refusals matter, since deliveries show what has arrived."""
        self._heard()


class Swarm:
    """All clients of one broker; use it with ``with``."""

    def __init__(self, port: int, load: Load) -> None:
        self._load, self._ring = load, cycle(load.messages)
        self._subscribers = [_Subscriber(port, f"s{place}", text) for place, text in enumerate(load.selectors)]
        self._publishers = [_Publisher(port, f"p{place}") for place in range(load.publishers)]
        self._epoll = select.epoll()
        self._clients: dict[int, _Subscriber | _Publisher] = {}
        self._clients.update({each.socket.fileno(): each for each in self._subscribers})
        self._clients.update({each.socket.fileno(): each for each in self._publishers})
        for fd in self._clients:
            self._epoll.register(fd, select.EPOLLIN)
        self._latencies_ns: list[int] = []
        self._wanted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._epoll.close()
        for each in self._clients.values():
            each.socket.close()

    def drive(self, *, seconds: float, rate: float) -> tuple[int, list[int]]:
        """Publish at a rate, wait for all deliveries, and return the number of messages and all latencies (ns).

        Messages due in the same millisecond are sent together. Raises ``BrokerProcessError`` if a delivery is missing,
        or there is one too many.
        """
        self._latencies_ns, self._wanted = [], 0
        sent, total = 0, round(seconds * rate)
        started_s = time.perf_counter()
        while sent < total:
            due = min(int((time.perf_counter() - started_s) * rate) + 1, total, sent + _UNSENT_MAX)
            for _ in range(due - sent):
                publisher, middle, wanted = next(self._ring)
                self._publishers[publisher].send(middle)
                self._wanted += wanted
            sent = due
            self._poll()
        self._finish()
        return sent, self._latencies_ns

    def _finish(self) -> None:
        deadline_s = time.perf_counter() + _TAIL_S
        while len(self._latencies_ns) < self._wanted or any(each.is_behind for each in self._publishers):
            if time.perf_counter() > deadline_s:
                raise BrokerProcessError(
                    f"only {len(self._latencies_ns):,} of {self._wanted:,} deliveries arrived in time"
                )
            for each in self._publishers:
                each.push()
            self._poll()
        if len(self._latencies_ns) > self._wanted:
            raise BrokerProcessError(f"{len(self._latencies_ns):,} deliveries instead of {self._wanted:,}")

    def _poll(self) -> None:
        for fd, _ in self._epoll.poll(0.001):
            self._clients[fd].on_readable(self._latencies_ns)


def cpu_s(pid: int) -> float:
    """Processor time that a process has taken so far, all its threads together."""
    # In nanoseconds, while the usual figure of a process is in hundredths of a second.
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text(encoding="ascii").split()[0]) for each in tasks) / 1e9
