"""Throws hostile frames at a live broker, and checks that it keeps serving others; each campaign follows from its rng.

Hostile peers send noise, broken copies of good frames, good frames that are out of place, and frames that are too long
or too short, as strangers, as clients and as a neighbour. Meanwhile an honest publisher and an honest subscriber must
not notice anything.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.fuzzing import Fault
from bench.shapes import BIG, any_frame
from penstock.broker.broker import Broker
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.protocol import frames as f
from penstock.protocol.codec import FRAME_BYTES_MAX, FrameReader, encode_frame
from penstock.system.loop import run

__all__ = ["Hostile", "campaign", "frames_campaign", "hostile_stream"]

_FRAMES_PER_STREAM: Final = 40
_STREAMS_AT_ONCE: Final = 8
_ROUND_S_MAX: Final = 60.0
"""Time after which a broker that does not answer counts as failed; generous, since machines may be busy."""
_HOSTS: Final = ("b2", "b2", "b3", "b1", "")
_PUBENDS: Final = ("b1.a", "b1.log", "b2.a", "x", "$b2")
_TEXTS: Final = ("", "b1", "b2", "b1.a", "$b1", "x > 1", "x >", "a" * 300, "é\U0001f600", "\0", "TRUE", "class = 'S'")

_KEYS: Final = ("", "", "symbol", "a" * 255)


def campaign(rng: Random, frames: int) -> None:
    """Throw about this many hostile frames at a broker; raises ``Fault`` if that harms anybody else."""
    run(_campaign(rng, frames))


def frames_campaign(rng: Random) -> None:
    """One seed's share of a soak."""
    campaign(rng, 2_000)


def hostile_stream(rng: Random, count: int) -> bytes:
    """About this many frames for one connection; a broker must reject most of them."""
    return Hostile(rng).stream(count)


async def _campaign(rng: Random, frames: int) -> None:
    with TemporaryDirectory(prefix="penstock-fuzz-") as folder:
        await _thrown(rng, frames, Path(folder))


async def _thrown(rng: Random, frames: int, folder: Path) -> None:
    place = BrokerPlace(
        name="b1",
        number=1,
        port=0,
        pubends=("b1.a", "b1.log"),
        best_effort=("b1.a",),
        data=folder,
        tunables={"subscribe_wait_ms": 100},
    )
    other = BrokerPlace(name="b2", number=2, port=0)
    overlay = Overlay(name="fuzz", brokers={"b1": place, "b2": other}, links=(("b2", "b1"),))
    async with BrokerNode(overlay, "b1", rng=rng) as node:
        subscriber = await _Witness.dial(node.address, "subscriber")
        publisher = await _Witness.dial(node.address, "publisher")
        try:
            await subscriber.subscribe()
            while frames > 0:
                count = min(frames, _FRAMES_PER_STREAM)
                streams = [hostile_stream(rng, count) for _ in range(_STREAMS_AT_ONCE)]
                await asyncio.gather(*(_throw(node.address, stream) for stream in streams))
                frames -= count * len(streams)
                await _check(node, publisher, subscriber)
        finally:
            await asyncio.gather(publisher.close(), subscriber.close())
        await _until(lambda: node.counters.open_connections == 0, "connections are left")


async def _check(node: BrokerNode, publisher: _Witness, subscriber: _Witness) -> None:
    publisher.publish()
    await _until(lambda: subscriber.delivered == publisher.published, "the honest are not served any more")
    if node.counters.bugs:
        raise Fault(f"{node.counters.bugs} exceptions in the broker; see the log")
    assert isinstance(node.broker, Broker)
    node.broker.check_invariants()


async def _throw(address: tuple[str, int], stream: bytes) -> None:
    """One hostile connection: sends the stream, ends its side, and waits for the broker to close the connection."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(stream)
        writer.write_eof()
        async with asyncio.timeout(_ROUND_S_MAX):
            while await reader.read(65_536):
                pass
    except ConnectionError:
        pass
    except TimeoutError:
        raise Fault("a hostile connection was not ended") from None
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def _until(condition: Callable[[], bool], complaint: str) -> None:
    try:
        async with asyncio.timeout(_ROUND_S_MAX):
            while not condition():
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise Fault(complaint) from None


class _Witness:
    """An honest client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids: MessageIdSource | None = None
        self._task = asyncio.create_task(self._listen())
        self._heard: dict[type, int] = {}
        self.published = 0

    @classmethod
    async def dial(cls, address: tuple[str, int], name: str) -> _Witness:
        witness = cls(*await asyncio.open_connection(*address))
        witness._say(f.Hello(f.PROTOCOL_VERSION, "client", name, "fuzz"))
        await _until(lambda: f.Welcome in witness._heard, f"the {name} is not welcome")
        return witness

    @property
    def delivered(self) -> int:
        return self._heard.get(f.Deliver, 0)

    async def subscribe(self) -> None:
        self._say(f.Subscribe(1, "honest = TRUE"))
        await _until(lambda: f.Subscribed in self._heard, "the subscription is not confirmed")

    def publish(self) -> None:
        assert self._ids is not None, "it was not welcome"
        self.published += 1
        body = encode_body(self._ids.next(self.published), Message({"honest": True}))
        self._say(f.Publish(self.published, [body]))

    async def close(self) -> None:
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, self._writer.wait_closed(), return_exceptions=True)

    def _say(self, frame: f.Frame) -> None:
        self._writer.write(encode_frame(frame))

    async def _listen(self) -> None:
        frames = FrameReader()
        while data := await self._reader.read(65_536):
            for frame in frames.feed(data):
                # Of deliveries the messages count, not the frames that carry them.
                count = len(frame.bodies) if isinstance(frame, f.Deliver) else 1
                self._heard[type(frame)] = self._heard.get(type(frame), 0) + count
                if isinstance(frame, f.Welcome):
                    self._ids = MessageIdSource(frame.publisher, frame.broker_number)
                if isinstance(frame, f.Deliver):
                    self._say(f.Heartbeat(0))


class Hostile:
    """Makes what one hostile peer sends: its role is played well enough to get far, and badly enough to be refused."""

    def __init__(self, rng: Random, *, publisher: bytes = b"") -> None:
        """With ``publisher``, a client resumes as that publisher, at any sequence number."""
        self._rng, self._publisher = rng, publisher
        self.role = rng.choice(("client", "client", "neighbour", "neighbour", "liar", "nobody"))
        self._kinds = {"client": _CLIENT_KINDS, "neighbour": _LINK_KINDS}.get(self.role, _KINDS)
        self._bad_share = rng.choice((0.0, 0.02, 0.2, 1.0))
        self._updates = 0
        self._published: Counter[str] = Counter()
        """How many messages it has sent to each pubend."""

    def stream(self, count: int) -> bytes:
        """The bytes of about this many frames."""
        parts = [encode_frame(frame) for frame in self.opening()]
        parts += [self.part() for _ in range(count)]
        if self._rng.random() < 0.2:
            parts[-1] = parts[-1][: self._rng.randrange(len(parts[-1]) + 1)]
        return b"".join(parts)

    def opening(self) -> list[f.Frame]:
        """The frames with which it introduces itself."""
        if self.role == "client":
            return [f.Hello(f.PROTOCOL_VERSION, "client", "mallory", "fuzz", publisher=self._publisher)]
        if self.role == "neighbour":
            return [f.Hello(f.PROTOCOL_VERSION, "broker", "b2", "fuzz", self._rng.randrange(2**40))]
        return [any_frame(self._rng, f.Hello, odd_share=0.1)] if self.role == "liar" else []

    def part(self) -> bytes:
        """The bytes of one more frame, or of something that is not a frame."""
        rng = self._rng
        if rng.random() >= self._bad_share:
            return encode_frame(self._frame(rng.choice(self._kinds)))
        maker = rng.choice((_noise, _mutated, _mutated, _oversized, _unknown, None))
        return maker(rng) if maker is not None else encode_frame(self._frame(rng.choice(_KINDS)))

    def _frame(self, kind: type[Any]) -> f.Frame:
        rng = self._rng
        if kind is f.Publish:
            bodies, pubend = _bodies(rng), rng.choice(("", "b1.a", "b1.log", "b2.a", "b9"))
            if self._publisher and rng.random() < 0.1:
                self._published[pubend] = max(self._published[pubend], rng.choice(BIG))
            first = min(self._published[pubend] + 1, 2**64 - 1)
            self._published[pubend] += len(bodies)
            return f.Publish(first, bodies, pubend)
        if kind is f.FilterUpdate and rng.random() < 0.9:
            self._updates += 1
            version, base = rng.randrange(-1, 9), rng.choice((-1, -1, -1, 0, 1))
            texts = [tuple(rng.choices(_TEXTS, k=rng.randrange(3))) for _ in range(2)]
            return f.FilterUpdate(self._updates, rng.choice(_HOSTS), rng.randrange(3), version, base, *texts)
        return _frame(rng, kind)


# What hostile peers say.


def _noise(rng: Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 200))


def _mutated(rng: Random) -> bytes:
    data = bytearray(encode_frame(_frame(rng, rng.choice(_KINDS))))
    for _ in range(rng.randrange(1, 4)):
        # Mostly behind the length field, or the rest of the stream would be useless.
        data[rng.randrange(4 if rng.random() < 0.8 else 0, len(data))] = rng.randrange(256)
    return bytes(data)


def _oversized(rng: Random) -> bytes:
    return struct.pack(">IB", rng.choice((0, FRAME_BYTES_MAX + 1, 2**32 - 1)), rng.randrange(8))


def _unknown(rng: Random) -> bytes:
    content = rng.randbytes(rng.randrange(60))
    return struct.pack(">IB", len(content) + 1, rng.randrange(256)) + content


def _frame(rng: Random, kind: type[Any]) -> f.Frame:
    if kind is f.Publish:
        return f.Publish(rng.choice((1, 1, 1, 2, 2**64 - 1)), _bodies(rng), rng.choice(("", "b1.a", "b1.log", "b9")))
    if kind is f.Forward:
        bodies = _bodies(rng)
        ticks = [rng.randrange(2**64) for _ in bodies]
        # Never for the honest publisher's pubend: an insider may speak for pubends behind it, and silence them.
        return f.Forward(rng.choice(("b2.a", "x", "$b2")), sorted(ticks) if rng.random() < 0.8 else ticks, bodies)
    if kind is f.Deliver:
        count = rng.randrange(4)
        ticks = [rng.randrange(2**64) for _ in range(count)]
        numbers = [rng.randbytes(4 * rng.randrange(3)) for _ in range(count)]
        return f.Deliver(rng.randrange(2**16), ticks, numbers, [b"x"] * count)
    if kind is f.KnowledgeMessage:
        return _knowledge(rng)
    if kind is f.Horizons:
        return f.Horizons(rng.randrange(2**16), rng.randrange(2**64), rng.randbytes(4 * rng.randrange(3)))
    if kind is f.LogAnswer:
        return _log(rng)
    if kind is f.Carry:
        return _carry(rng)
    if kind is f.Handed:
        return _handed(rng)
    if kind in (f.ReadRequest, f.LogRequest) and rng.random() < 0.9:
        return _reading(rng, kind)
    return any_frame(rng, kind, odd_share=0.1)


def _reading(rng: Random, kind: type[Any]) -> f.ControlFrame:
    """A request for a part of a log that a broker may accept."""
    number, size, text = rng.randrange(4), rng.choice((0, 1, 100, 2**62)), rng.choice(_TEXTS)
    # A neighbour that names an invalid range would lose its link.
    first, last = sorted((rng.choice((0, 1, 2**57, 2**62)), rng.choice((0, 9, 2**57, 2**62))))
    if kind is f.ReadRequest:
        return f.ReadRequest(number, rng.choice(_PUBENDS), first, last, text, size, rng.choice(_KEYS))
    return f.LogRequest(rng.choice(_PUBENDS), rng.choice(_HOSTS), number, first, last, size, text, rng.choice(_KEYS))


def _carry(rng: Random) -> f.Carry:
    """Messages of a publisher on their way to a pubend: often the next of a round, else of any round and number."""
    bodies = _bodies(rng)
    large = rng.choice((0, 2**31, 2**62 - 1, 2**62, 2**62 + 1, 2**64 - 1))
    numbers = rng.choice(((1, 0, 1), (1, 1, 2), (1, 0, 3), (2, 0, 1), (large, 0, 1), (1, large, large), (1, 0, large)))
    return f.Carry(
        rng.choice(_PUBENDS[:-1]),
        # A neighbour that names no host would lose its link.
        rng.choice(_HOSTS[:-1]),
        rng.choice((b"", b"me", b"me", bytes(32))),
        rng.choice(("mallory", "")),
        numbers,
        bodies,
        is_first=rng.random() < 0.5,
        asks=rng.random() < 0.5,
    )


def _handed(rng: Random) -> f.Handed:
    """Messages for a member of a group, which nobody here is, or for a host farther on."""
    bodies = _bodies(rng)
    ticks = [rng.randrange(2**62) for _ in bodies]
    large = rng.choice((0, 1, 2**31, 2**62, 2**62 + 1, 2**64 - 1))
    attempts = [rng.choice((1, 1, 2, large)) for _ in bodies]
    member = rng.choice((b"", b"me", bytes(16), bytes(32), bytes(33)))
    # A neighbour that names no host would lose its link.
    host = rng.choice(_HOSTS[:-1])
    return f.Handed(
        rng.choice(_PUBENDS[:-1]), host, member, (1, 1, rng.choice((1, large)), large), ticks, attempts, bodies
    )


def _log(rng: Random) -> f.LogAnswer:
    bodies = _bodies(rng)
    ticks = sorted(rng.randrange(2**62) for _ in bodies)
    first, last = (ticks[0], ticks[-1]) if ticks and rng.random() < 0.8 else (rng.randrange(9), rng.randrange(9, 99))
    lost = tuple((rng.randrange(first, last + 1), last) for _ in range(rng.randrange(2)))
    pubend, host = rng.choice(_PUBENDS), rng.choice(_HOSTS)
    number, is_compacted = rng.choice((0, 1, 2**40, 2**64 - 1)), rng.random() < 0.2
    return f.LogAnswer(pubend, host, number, (first, last), ticks, bodies, lost, is_compacted=is_compacted)


def _knowledge(rng: Random) -> f.KnowledgeMessage:
    bodies = _bodies(rng)
    ticks = sorted(rng.randrange(2**62) for _ in bodies)
    first, last = rng.randrange(2**62), rng.randrange(2**62)
    if ticks and rng.random() < 0.8:
        first, last = ticks[0], ticks[-1]
    return f.KnowledgeMessage(
        rng.choice(("b1.a", "b2.a", "x", "$b2")),
        first,
        last,
        ticks,
        bodies,
        kind=rng.choice(list(f.KnowledgeKind)),
        versions=tuple((text, rng.randrange(-1, 4), rng.randrange(-1, 4)) for text in rng.choices(_TEXTS, k=2)),
        is_whole=rng.random() < 0.5,
    )


def _bodies(rng: Random) -> list[bytes]:
    bodies = []
    for _ in range(rng.randrange(4)):
        message = Message({"x": rng.randrange(5), "class": rng.choice(("S", ""))}, rng.randbytes(rng.randrange(9)))
        body = encode_body(MessageIdSource(publisher=7, broker=7).next(0), message)
        bodies.append(body if rng.random() < 0.98 else rng.randbytes(rng.randrange(40)))
    return bodies


_NO_FRAMES: Final = ("DurableEntry", "KnowledgeKind")
_KINDS: Final[tuple[type[Any], ...]] = tuple(
    getattr(f, name) for name in f.__all__ if isinstance(getattr(f, name), type) and name not in _NO_FRAMES
)
_CLIENT_KINDS: Final = (
    f.Publish,
    f.Subscribe,
    f.Subscribe,
    f.Unsubscribe,
    f.StatusRequest,
    f.Heartbeat,
    f.Acknowledge,
    f.ReadRequest,
    f.ReadRequest,
    f.SurveyRequest,
    f.TraceRequest,
    f.Rewound,
    f.Join,
    f.Join,
    f.Verdicts,
    f.Settle,
)
_LINK_KINDS: Final = (
    f.FilterUpdate,
    f.FilterUpdate,
    f.LinkState,
    f.LinkState,
    f.Forward,
    f.FilterProbe,
    f.Remembered,
    f.FilterApplied,
    f.MechanismMessage,
    f.Heartbeat,
    f.KnowledgeMessage,
    f.KnowledgeMessage,
    f.Nack,
    f.Positions,
    f.LogRequest,
    f.LogRequest,
    f.LogSpan,
    f.LogAnswer,
    f.TraceQuestion,
    f.TraceQuestion,
    f.TraceAnswer,
    f.Carry,
    f.Carry,
    f.Carried,
    f.Handed,
    f.WorkAsk,
    f.WorkJoined,
    f.WorkLeave,
    f.WorkVerdicts,
    f.WorkOutcomes,
    f.StreamSettle,
    f.StreamSettled,
)
