"""One connection of a client: carries bytes between a transport and the session, and decides nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from penstock.live.forking import let_go
from penstock.protocol.codec import encode_frame
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Frame, Goodbye
from penstock.session.changes import Changes

__all__ = ["Connection", "Endpoint"]

_HIGH_WATER_BYTES: Final = 256 * 1024
"""Bytes in the transport above which batches wait in the session."""

_LATE_MS: Final = 500
"""A timer that is so late shows that the application kept the loop busy: then we were deaf, and not the broker dumb."""


class Endpoint(Protocol):
    """Who hears what a connection brings, and has something to say: a session, or what takes part in a move of it."""

    writable: bool

    @property
    def reading(self) -> bool:
        """Whether to read from the socket."""

    def on_connected(self, *, now_ms: int) -> None:
        """There is a connection."""

    def on_data(self, data: bytes, *, now_ms: int, wall_ms: int) -> Changes:
        """Bytes have come."""

    def on_disconnected(self) -> Changes:
        """The connection is gone."""

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""

    def next_deadline(self) -> int | None:
        """When to ask again for frames."""

    def is_silent(self, *, now_ms: int) -> bool:
        """Whether the connection must be given up."""

    def on_reading(self, *, now_ms: int) -> None:
        """The socket is read from again."""


class Connection(asyncio.Protocol):
    """A transport, from its making to its end."""

    def __init__(self, endpoint: Endpoint, on_changes: Callable[[Changes], None]) -> None:
        self.endpoint = endpoint
        """Another one may take its place at any time."""
        self._on_changes = on_changes
        self._loop: Final = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_paused = self._is_pumping_soon = False
        self.greeted: Final = asyncio.Event()
        """Set when the broker has welcomed us, or never will."""
        self.ended: Final = asyncio.Event()
        """Set when the session has been told that this connection is gone."""
        self.closed: Final = asyncio.Event()
        """Set when the transport is gone, too."""
        self.on_ended: Callable[[], None] = lambda: None
        """Called when that is so."""
        self.goodbye: Goodbye | None = None
        """What the broker said at last."""
        self.problem = ""
        """Why the connection ended, if the broker did not say."""

    def now_ms(self) -> int:
        """The clock of the timers."""
        return int(self._loop.time() * 1000)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        # Not asserted: uvloop's transports are no instances of it.
        self._transport = cast("asyncio.Transport", transport)
        if self.ended.is_set():
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self.endpoint.on_connected(now_ms=self.now_ms())
        self.pump()

    def data_received(self, data: bytes) -> None:
        """Hand everything to the session at once, and its changes on."""
        if self.ended.is_set():
            return
        try:
            changes = self.endpoint.on_data(data, now_ms=self.now_ms(), wall_ms=time.time_ns() // 1_000_000)
        except ProtocolError as error:
            self.fail("protocol", str(error))
            return
        self._on_changes(changes)
        if changes.goodbye is not None:
            self.goodbye = changes.goodbye
            self._finish()
            return
        if changes.welcome is not None:
            self.greeted.set()
        if not self.endpoint.reading:
            self._pause_reading()
        self.pump()

    def pause_writing(self) -> None:
        """The transport has enough."""
        self.endpoint.writable = False

    def resume_writing(self) -> None:
        """The transport can carry more."""
        if not self.ended.is_set():
            self.endpoint.writable = True
            self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._end(str(exc) if exc else "the broker closed the connection")
        self.closed.set()

    # What the client calls.

    def pump(self) -> None:
        """Write what is to be sent now, in one piece."""
        if self.ended.is_set() or self._transport is None:
            return
        frames = self.endpoint.take_frames(now_ms=self.now_ms())
        if frames:
            self._transport.write(b"".join([encode_frame(frame) for frame in frames]))
        self.schedule()

    def pump_soon(self) -> None:
        """Write at the end of this turn what many calls have queued."""
        if not self._is_pumping_soon:
            self._is_pumping_soon = True
            self._loop.call_soon(self._pump_later)

    def schedule(self) -> None:
        """Wake when the session wants to."""
        deadline_ms = self.endpoint.next_deadline()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1000, self._on_timer)

    def resume_reading(self) -> None:
        """The application has taken enough out."""
        if self._is_paused and self._transport is not None and not self.ended.is_set():
            self._is_paused = False
            self.endpoint.on_reading(now_ms=self.now_ms())
            self._transport.resume_reading()
            self.schedule()

    def fail(self, code: str, reason: str) -> None:
        """Tell the broker what is wrong, and end."""
        self.problem = reason
        if self._transport is not None and not self.ended.is_set():
            self._transport.write(encode_frame(Goodbye(code, reason)))
        self._finish()

    def close(self) -> None:
        """Send what is written, and end."""
        self.fail("closed", "the client is done")

    def abort(self) -> None:
        """Cut it."""
        self._end(self.problem or "the client gave up")
        if self._transport is None:
            self.closed.set()
        else:
            self._transport.abort()

    def let_go(self) -> None:
        """Forget the transport without touching it: in a forked child it is a copy of the parent's."""
        transport, self._transport = self._transport, None
        copied = transport.get_extra_info("socket") if transport is not None else None
        if copied is not None and copied.fileno() >= 0:
            let_go(copied.fileno())

    def _finish(self) -> None:
        self._end(self.problem)
        if self._transport is not None:
            self._transport.close()

    def _end(self, problem: str) -> None:
        if self.ended.is_set():
            return
        self.problem = self.problem or problem
        if self._timer is not None:
            self._timer.cancel()
        self.ended.set()
        self.greeted.set()
        self.on_ended()
        if self._transport is not None:
            self._on_changes(self.endpoint.on_disconnected())

    def _pause_reading(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _pump_later(self) -> None:
        self._is_pumping_soon = False
        self.pump()

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        if now_ms - self._timer_ms > _LATE_MS:
            self.endpoint.on_reading(now_ms=now_ms)
        if self.endpoint.is_silent(now_ms=now_ms):
            self.fail("silent", "nothing was heard of the broker for too long")
        else:
            self.pump()
