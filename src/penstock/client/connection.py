"""One connection of a client on asyncio: carries bytes between a transport and the shell, and decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol, cast

from penstock.live.forking import let_go
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import Frame

__all__ = ["Connection", "Owner"]

_HIGH_WATER_BYTES: Final = 256 * 1024
"""Bytes in the transport above which batches wait in the session."""


class Owner(Protocol):
    """Who hears what happens to connections."""

    def on_made(self, connection: Connection) -> None:
        """The transport is there."""

    def on_data(self, connection: Connection, frames: Iterable[Frame]) -> None:
        """Bytes have come; they are decoded while they are looked at."""

    def on_writable(self, connection: Connection, *, is_writable: bool) -> None:
        """The transport can carry more, or has enough."""

    def on_gone(self, connection: Connection, problem: str) -> None:
        """The transport is gone."""


class Connection(asyncio.Protocol):
    """A transport, from its making to its end."""

    def __init__(self, number: int, owner: Owner) -> None:
        self.number: Final = number
        self._owner = owner
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self.is_paused = False
        """Whether nothing is read from the socket."""

    @property
    def is_made(self) -> bool:
        """Whether there is a transport, or was."""
        return self._transport is not None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Limit what waits in the transport."""
        # A cast, not an assert: uvloop's transports quack like asyncio's but do not inherit from them.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._owner.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Hand everything on at once."""
        self._owner.on_data(self, self._reader.feed(data))

    def pause_writing(self) -> None:
        """The transport has enough."""
        self._owner.on_writable(self, is_writable=False)

    def resume_writing(self) -> None:
        """The transport can carry more."""
        self._owner.on_writable(self, is_writable=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._owner.on_gone(self, str(exc) if exc else "the broker closed the connection")

    # What the shell calls.

    def write(self, frames: Iterable[Frame]) -> None:
        """Send these, in one piece."""
        assert self._transport is not None, "nobody is there to hear it"
        self._transport.write(b"".join([encode_frame(frame) for frame in frames]))

    def close(self) -> None:
        """End it when everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut it."""
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Read nothing from the socket."""
        if not self.is_paused and self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self.is_paused and self._transport is not None:
            self.is_paused = False
            self._transport.resume_reading()

    def let_go(self) -> None:
        """Forget the transport without touching it: in a forked child it is a copy of the parent's."""
        transport, self._transport = self._transport, None
        copied = transport.get_extra_info("socket") if transport is not None else None
        if copied is not None and copied.fileno() >= 0:
            let_go(copied.fileno())
