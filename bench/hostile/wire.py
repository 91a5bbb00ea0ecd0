"""Drives the attacker's end of a connection, with any content, in the frames of the tree that it attacks."""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Self, TypeVar, cast

from bench.hostile.arena import OVERLAY
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader, encode_frame

__all__ = ["Line", "Peer", "Rejected", "body", "head", "raw_publish"]

_CHUNK: Final = 256 * 1024
_KEPT_MAX: Final = 20_000
_DIAL_S_MAX: Final = 10.0
_BEAT_S: Final = 1.0

_Frame = TypeVar("_Frame")


class Rejected(Exception):  # noqa: N818 - it ends an attack, and is what we hope for
    """The broker refused or disconnected the attacker."""


class Line:
    """A connection to a broker, whatever is spoken on it."""

    _open: ClassVar[list[Line]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.counts: Counter[str] = Counter()
        """Received frames by their kind."""
        self.is_over = False
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._listen())
        self._beating: asyncio.Task[None] | None = None
        self._open.append(self)

    @classmethod
    async def dial(cls, port: int, *, tls: ssl.SSLContext | None = None) -> Self:
        """Open a connection, and send nothing."""
        async with asyncio.timeout(_DIAL_S_MAX):
            return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))

    @classmethod
    async def leave(cls) -> None:
        """Close all connections that an attack has left open."""
        while cls._open:
            await cls._open[-1].close()

    def take(self, data: bytes) -> None:
        """Take what was received; ``ValueError`` or ``PeerError`` if it is not what brokers say."""
        raise NotImplementedError

    def send_bytes(self, data: bytes) -> None:
        """Send any bytes."""
        if not self._writer.is_closing():
            self._writer.write(data)

    def turn_deaf(self) -> None:
        """Stop reading."""
        cast("asyncio.ReadTransport", self._writer.transport).pause_reading()

    async def drain(self, seconds: float = 10.0) -> bool:
        """Wait until the broker has accepted what was sent; return whether it did in time."""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self._writer.drain()
                return not self.is_over
        return False

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> bool:
        """Wait until received frames make the condition true, or time is up; return whether it holds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition() and not self.is_over:
                    self._news.clear()
                    await self._news.wait()
        return condition()

    async def ended(self, seconds: float = 10.0) -> bool:
        """Wait until the broker has ended the connection; return whether it has."""
        return await self.until(lambda: self.is_over, seconds)

    async def close(self) -> None:
        """Leave without a goodbye."""
        if self in self._open:
            self._open.remove(self)
        tasks = [each for each in (self._task, self._beating) if each is not None]
        for task in tasks:
            task.cancel()
        self._writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            while data := await self._reader.read(_CHUNK):
                self.take(data)
                self._news.set()
        except OSError:
            pass
        finally:
            self.is_over = True
            self._news.set()


class Peer(Line):
    """A connection on which Penstock's own protocol is spoken, and what was received on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.heard: list[f.Frame] = []
        """Received frames, except deliveries and heartbeats, of which there may be many."""
        self._frames = FrameReader()
        self._ids: MessageIdSource | None = None

    @classmethod
    async def client(cls, port: int, name: str = "mallory", **hello: Any) -> Self:
        """Connect as a client; raises ``Rejected`` if it is not welcomed."""
        peer = await cls.dial(port)
        try:
            peer.send(f.Hello(f.PROTOCOL_VERSION, "client", name, OVERLAY, **hello))
            if await peer.hear(f.Welcome) is None:
                raise Rejected(peer.last_words())
        except BaseException:
            await peer.close()
            raise
        peer.keep_alive()
        return peer

    @classmethod
    async def link(cls, port: int, secret: str, name: str = "b2") -> Self:
        """Connect as a neighbour with the link token, in whichever way this tree wants it proved."""
        peer = await cls.dial(port)
        life = int(time.time() * 1_000)
        if not hasattr(f, "LinkProof"):
            peer.send(f.Hello(f.PROTOCOL_VERSION, "broker", name, OVERLAY, life, secret))
        else:
            challenge = b"challenge of the attacker"
            peer.send(f.Hello(f.PROTOCOL_VERSION, "broker", name, OVERLAY, life, challenge=challenge))
            if (greeting := await peer.hear(f.Hello, 15.0)) is not None:
                proofs: Any = import_module("penstock.broker.neighbours.neighbourhood")
                own = SimpleNamespace(name=name, overlay=OVERLAY, link_credential=secret)
                seen = SimpleNamespace(dialled="b1", challenge=challenge, greeting=greeting)
                peer.send(f.LinkProof(proofs.proof_of(seen, own)))
        if await peer.hear(f.LinkState, 15.0) is None:
            raise Rejected(peer.last_words())
        return peer

    def body(self, attributes: Mapping[str, str | int | bool], payload: bytes = b"") -> bytes:
        """A message of this client as bytes, with an identifier of its own."""
        if self._ids is None:
            welcome = self.all(f.Welcome)[0]
            self._ids = MessageIdSource(welcome.publisher, welcome.broker_number)
        return encode_body(self._ids.next(int(time.time() * 1_000)), Message(attributes)) + payload

    def send(self, *frames: f.Frame) -> None:
        """Send frames."""
        self.send_bytes(b"".join(map(encode_frame, frames)))

    def keep_alive(self) -> None:
        """Send heartbeats from now on."""
        self._beating = asyncio.create_task(self._beat())

    def fall_silent(self) -> None:
        """Stop sending heartbeats."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def hear(self, kind: type[_Frame], seconds: float = 10.0, *, number: int | None = None) -> _Frame | None:
        """Wait for the first frame of a kind, and of a number if given; None if the connection or the time is over."""

        def found() -> _Frame | None:
            frames = (each for each in self.heard if isinstance(each, kind))
            return next((each for each in frames if number is None or getattr(each, "number", None) == number), None)

        await self.until(lambda: found() is not None, seconds)
        return found()

    def all(self, kind: type[_Frame]) -> list[_Frame]:
        """All received frames of a kind."""
        return [each for each in self.heard if isinstance(each, kind)]

    def last_words(self) -> str:
        """Why the broker ended the connection, or that it did not."""
        if goodbyes := self.all(f.Goodbye):
            return f"{goodbyes[-1].code}: {goodbyes[-1].reason}"
        return "cut off without a word" if self.is_over else "still connected"

    def take(self, data: bytes) -> None:
        """Take frames of the broker."""
        for frame in self._frames.feed(data):
            # Of deliveries the messages count, not the frames that carry them.
            self.counts[type(frame).__name__] += len(frame.bodies) if isinstance(frame, f.Deliver) else 1
            if not isinstance(frame, f.Deliver | f.Heartbeat) and len(self.heard) < _KEPT_MAX:
                self.heard.append(frame)

    async def _beat(self) -> None:
        while not self.is_over:
            await asyncio.sleep(_BEAT_S)
            self.send(f.Heartbeat(0))


def body(attributes: Mapping[str, str | int | bool]) -> bytes:
    """A message as bytes, with the identifier of another publisher."""
    return encode_body(MessageIdSource(publisher=1, broker=1).next(0), Message(attributes))


def raw_publish(first: int, bodies: list[bytes], pubend: str = "b1.a") -> f.Publish:
    """A batch of messages, with any sequence number."""
    return f.Publish(first, bodies, pubend)


def head(length: int, kind: int = 0) -> bytes:
    """The header of a frame, which announces its length."""
    return struct.pack(">IB", length, kind)
