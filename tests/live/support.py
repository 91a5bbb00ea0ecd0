"""What the tests of the live world share: overlays on loopback, a plain peer that speaks frames, and waiting."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from penstock.balancing.metrics import HostFigures
from penstock.broker.effects import Close, Effect, Record, Wake
from penstock.broker.mechanisms.operating import Operation
from penstock.broker.outbox import Outbox
from penstock.broker.settings import BrokerSettings
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.tick import TickRange
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Publish,
    Subscribe,
    Subscribed,
    Welcome,
)
from penstock.protocol.status import BrokerStatus
from penstock.system.loop import run as run_on_loop

LIMIT_S = 60.0
"""Time after which a test that waits gives up; generous, since nothing is judged by the clock."""
FAST = {"heartbeat_ms": 50, "silent_ms": 2_000, "handshake_ms": 2_000}

_Result = TypeVar("_Result")


def run(coroutine: Coroutine[Any, Any, _Result], *, plain: bool = True) -> _Result:
    async def limited() -> _Result:
        async with asyncio.timeout(LIMIT_S):
            return await coroutine

    return run_on_loop(limited(), plain=plain)


async def until(condition: Callable[[], object]) -> None:
    """Waits for the condition; the test's own limit ends it."""
    while not condition():
        await asyncio.sleep(0.005)


def lone(name: str = "b1", **changes: Any) -> Overlay:
    """An overlay of one best-effort broker on a port of the system's choice."""
    return Overlay(name="test", brokers={name: place_of(name, 1)}, **changes)


def guaranteed(folder: Path, name: str = "b1", **changes: Any) -> Overlay:
    """An overlay of one broker that guarantees delivery, and keeps its data in a folder; changes are to its place."""
    place = replace(place_of(name, 1), best_effort=(), data=folder, **changes)
    return Overlay(name="test", brokers={name: place})


def place_of(name: str, number: int) -> BrokerPlace:
    """A best-effort broker with one pubend."""
    pubends = (f"{name}.a",)
    return BrokerPlace(name=name, number=number, port=0, pubends=pubends, best_effort=pubends, tunables=dict(FAST))


def row(*names: str) -> Overlay:
    """Best-effort brokers in a row; each dials the one before it, so that they can be started in order."""
    brokers = {name: place_of(name, number) for number, name in enumerate(names, start=1)}
    return Overlay(name="test", brokers=brokers, links=tuple(zip(names[1:], names, strict=False)))


def with_port(overlay: Overlay, name: str, port: int) -> Overlay:
    """A copy of the overlay with the port that a broker actually got."""
    return replace(overlay, brokers={**overlay.brokers, name: replace(overlay.place_of(name), port=port)})


class FramePeer:
    """The other end of a connection: sends frames or bytes, and keeps what it hears."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer, self._frames = reader, writer, FrameReader()
        self._task = asyncio.create_task(self._listen())
        self._source: MessageIdSource | None = None
        self._sent = 0
        self.heard: list[Frame] = []
        self.is_over = False

    @classmethod
    async def dial(cls, address: tuple[str, int], *, context: ssl.SSLContext | None = None) -> Self:
        return cls(*await asyncio.open_connection(*address, ssl=context))

    @classmethod
    async def client(
        cls, address: tuple[str, int], name: str = "tester", *, credential: str = "", overlay: str = "test"
    ) -> Self:
        peer = await cls.dial(address)
        peer.send(Hello(PROTOCOL_VERSION, "client", name, overlay, credential=credential))
        await peer.get(Welcome)
        return peer

    def send(self, *frames: Frame) -> None:
        self.send_bytes(b"".join(map(encode_frame, frames)))

    def send_bytes(self, data: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            await self._task

    def publish(self, *attributes: Mapping[str, str | int], payload: bytes = b"") -> None:
        if self._source is None:
            welcome = self.all(Welcome)[0]
            self._source = MessageIdSource(welcome.publisher, welcome.broker_number)
        source = self._source
        bodies = [encode_body(source.next(0), Message(each, payload)) for each in attributes]
        self.send(Publish(self._sent + 1, bodies))
        self._sent += len(bodies)

    async def subscribe(self, number: int, selector: str) -> None:
        self.send(Subscribe(number, selector))
        await until(lambda: any(each.number == number for each in self.all(Subscribed)))

    def all(self, kind: type[_Result]) -> list[_Result]:
        return [frame for frame in self.heard if isinstance(frame, kind)]

    async def get(self, kind: type[_Result]) -> _Result:
        await until(lambda: self.all(kind) or self.is_over)
        assert self.all(kind), f"the connection ended without a {kind.__name__}: {self.heard}"
        return self.all(kind)[0]

    async def deliveries(self, count: int) -> list[bytes]:
        """The messages that have come, once there are this many."""
        await until(lambda: len(self.delivered()) >= count or self.is_over)
        return self.delivered()

    def delivered(self) -> list[bytes]:
        """The messages that have come."""
        return [body for frame in self.all(Deliver) for body in frame.bodies]

    async def over(self) -> Goodbye | None:
        """Waits until the broker has ended the connection; answers with its reason."""
        await until(lambda: self.is_over)
        await self.close()
        return next(iter(self.all(Goodbye)), None)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _listen(self) -> None:
        try:
            while data := await self._reader.read(65_536):
                self.heard += [frame for frame in self._frames.feed(data) if not isinstance(frame, Heartbeat)]
        except (ConnectionError, ssl.SSLError):
            pass
        self.is_over = True
        # A peer that has been told of the end closes its side; the broker waits for it.
        self._writer.close()


class FakeBroker:
    """A broker that answers what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.last_ms = 0
        self.source = ""
        self.strangers: list[int] = []
        self.outboxes: dict[int, Outbox] = {}
        self.answers: list[Effect] = []
        self.follows: list[Effect] = []
        self.finished = 0
        self.deadline_ms: int | None = None
        self.on_receive: Callable[[int, list[Frame]], Sequence[Effect]] = lambda _connection, _frames: []

    def connect(
        self,
        connection: int,
        *,
        now_ms: int,
        dialled: str = "",
        certificate: str = "",
        source: str = "",
        is_movable: bool = True,
    ) -> list[Effect]:
        self.last_ms, self.source = now_ms, source
        self.asked.append(("connect", connection, dialled, certificate))
        self.outboxes[connection] = Outbox(control_bytes_max=2**20, data_bytes_max=2**26)
        return self._answer()

    def receive(self, connection: int, frames: list[Frame], *, now_ms: int) -> Sequence[Effect]:
        self.last_ms = now_ms
        self.asked.append(("receive", connection, frames))
        return [*self.on_receive(connection, frames), *self._answer()]

    def hear(self, connection: int, frames: list[Frame], *, now_ms: int) -> None:
        self.follows += self.receive(connection, frames, now_ms=now_ms)

    def finish(self, *, now_ms: int) -> Sequence[Effect]:
        self.last_ms = now_ms
        self.finished += 1
        follows, self.follows = self.follows, []
        return follows

    def progress(self, connection: int, unfinished_bytes: int, *, now_ms: int) -> None:
        self.last_ms = now_ms
        self.asked.append(("progress", connection, unfinished_bytes))

    def knows(self, connection: int) -> bool:
        return connection not in self.strangers

    def disconnect(self, connection: int, *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("disconnect", connection))
        return self._answer()

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("values" if values_only else "committed", number))
        return self._answer()

    def log_full(self, reason: str, *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("full", reason))
        return self._answer()

    def log_read(
        self,
        number: int,
        messages: list[tuple[int, bytes]],
        last: int,
        *,
        now_ms: int,
        damaged: TickRange | None = None,
    ) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("read", number, messages, last, damaged))
        return self._answer()

    def kept_read(self, number: int, values: dict[str, bytes | None], *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("kept", number, values))
        return self._answer()

    def apply(self, settings: BrokerSettings, *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("apply", settings))
        return self._answer()

    def operate(self, operation: Operation, *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("operate", operation))
        return self._answer()

    def measured(self, figures: HostFigures, *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("measured", figures))
        return self._answer()

    def operated(self, fence: str, *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("operated", fence))
        return self._answer()

    def retire(self, names: Sequence[str], *, now_ms: int) -> list[Effect]:
        self.last_ms = now_ms
        self.asked.append(("retire", tuple(names)))
        return self._answer()

    def next_deadline(self) -> int | None:
        return self.deadline_ms

    def may_be_due_before(self, time_ms: int) -> bool:
        return self.deadline_ms is not None and self.deadline_ms < time_ms

    def on_deadline(self, *, now_ms: int) -> list[Effect]:
        assert self.deadline_ms is not None
        self.asked.append(("deadline", self.deadline_ms, now_ms))
        self.deadline_ms = None
        return self._answer()

    def outbox(self, connection: int) -> Outbox:
        return self.outboxes[connection]

    def shutdown(self, *, now_ms: int) -> Sequence[Effect]:
        self.last_ms = now_ms
        self.asked.append(("shutdown",))
        for outbox in self.outboxes.values():
            outbox.push_control(Goodbye("shutdown", "bye"))
        return [*(Close(each, "shutdown", "bye") for each in self.outboxes), Record("done")]

    def status(self) -> BrokerStatus:
        return BrokerStatus("b1", subscriptions=3, counts={"published": 7}, dropped={"link": 1}, links=["b2"])

    def say(self, connection: int, *frames: Frame) -> list[Effect]:
        for frame in frames:
            if isinstance(frame, Deliver):
                self.outboxes[connection].push_data(frame)
            else:
                assert not isinstance(frame, Publish)
                self.outboxes[connection].push_control(frame)  # type: ignore[arg-type]
        return [Wake(connection)]

    def count(self, kind: str) -> int:
        return sum(each[0] == kind for each in self.asked)

    def _answer(self) -> list[Effect]:
        answers, self.answers = self.answers, []
        return answers


def framed(kind: int, content: bytes) -> bytes:
    """Any content as a frame of any kind."""
    return struct.pack(">IB", len(content) + 1, kind) + content
