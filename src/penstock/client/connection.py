"""One connection of a client on asyncio: carries bytes between a transport and the shell, and decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol, cast

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import Frame
from penstock.system.forking import let_go

__all__ = ["Connection", "Owner"]

_HIGH_WATER_BYTES: Final = 256 * 1024
"""Bytes in the transport above which batches wait in the session."""


class Owner(Protocol):
    """Hears what happens to connections."""

    def on_made(self, connection: Connection) -> None:
        """The connection has its transport."""

    def on_data(self, connection: Connection, frames: Iterable[Frame]) -> None:
        """Bytes have arrived; frames are decoded while the owner iterates."""

    def on_writable(self, connection: Connection, *, is_writable: bool) -> None:
        """The transport can take more, or its buffer is full."""

    def on_gone(self, connection: Connection, problem: str) -> None:
        """The transport is gone."""


class Connection(asyncio.Protocol):
    """One transport, from its creation to its end."""

    def __init__(self, number: int, owner: Owner) -> None:
        self.number: Final = number
        self._owner = owner
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self.is_paused = False
        """Whether reading from the socket is paused."""

    @property
    def is_made(self) -> bool:
        """Whether there is or was a transport."""
        return self._transport is not None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit the transport's write buffer, and tell the owner."""
        # A cast, not an assert: uvloop's transports quack like asyncio's but do not inherit from them.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._owner.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on at once, as frames."""
        self._owner.on_data(self, self._reader.feed(data))

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self._owner.on_writable(self, is_writable=False)

    def resume_writing(self) -> None:
        """The transport can take more."""
        self._owner.on_writable(self, is_writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._owner.on_gone(self, str(exc) if exc else "the broker closed the connection")

    # Called by the shell.

    def write(self, frames: Iterable[Frame]) -> None:
        """Send these frames in one write."""
        assert self._transport is not None, "nobody is there to hear it"
        self._transport.write(b"".join([encode_frame(frame) for frame in frames]))

    def close(self) -> None:
        """End the connection once everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self.is_paused and self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self.is_paused and self._transport is not None:
            self.is_paused = False
            self._transport.resume_reading()

    def let_go(self) -> None:
        """Forget the transport without touching it: in a forked child it is a copy of the parent's."""
        transport, self._transport = self._transport, None
        copied = transport.get_extra_info("socket") if transport is not None else None
        if copied is not None and copied.fileno() >= 0:
            let_go(copied.fileno())
