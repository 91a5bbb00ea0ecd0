"""One connection of a live node: turns bytes into batches of frames and an outbox into writes, and closes in order.

Little is handed to the transport at a time, so that control can overtake the data still in the outbox: as much as it
carries in a tenth of a second at its recent speed. With a fixed half megabyte, alerts of a slow link waited behind data
for ten seconds, and congestion control reacted too late (``gryphon-e2-live``).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, ClassVar, Final, Protocol, cast

from penstock.broker.outbox import Outbox
from penstock.live.counters import Counters
from penstock.live.dialect import Dialect, Native
from penstock.live.tls import common_name
from penstock.live.turns import Pace, Turns
from penstock.protocol.frames import Frame, Publish

__all__ = [
    "DRAIN_S",
    "LINGER_S",
    "WATER_BYTES_MAX",
    "WATER_BYTES_MIN",
    "WATER_BYTES_START",
    "Connection",
    "Owner",
]

WATER_BYTES_MIN: Final = 4 * 1024
"""Bytes that the transport may always hold, however slow it is; more would delay control on a narrow link."""
WATER_BYTES_START: Final = 16 * 1024
"""Bytes that the transport may hold before its speed is known; also the most that the kernel may hold unsent."""
WATER_BYTES_MAX: Final = 128 * 1024
"""Bytes in the transport above which nothing more is handed to it, however fast it is."""
_WATER_S: Final = 0.1
"""The transport may hold as much as it carries in this time."""
DRAIN_S: Final = 5.0
"""How long a closing connection may take to send what is left; then it is cut."""
LINGER_S: Final = 1.0
"""How long to wait for the peer to close its side after we have closed ours."""


class Owner(Protocol):
    """What a connection needs from its node."""

    counters: Counters

    @property
    def turns(self) -> Turns:
        """The turns in which connections work."""

    def on_made(self, connection: Connection) -> None:
        """The connection is up; the peer's certificate, if any, is verified."""

    def on_frames(self, connection: Connection, frames: list[Frame]) -> None:
        """A batch of frames has arrived."""

    def on_progress(self, connection: Connection, unfinished_bytes: int) -> None:
        """More of a frame has arrived, but not all of it."""

    def on_broken(self, connection: Connection, reason: str) -> None:
        """The peer broke the protocol; the connection is ending."""

    def on_lost(self, connection: Connection, *, is_news: bool) -> None:
        """The transport is closed; ``is_news`` unless this side was closing it."""


class Connection(asyncio.Protocol):
    """A transport, and the frames on it."""

    is_movable: ClassVar[bool] = True
    """Whether a client at the other end can be moved to another broker."""

    def __init__(
        self,
        number: int,
        owner: Owner,
        *,
        dialled: str = "",
        drain_s: float = DRAIN_S,
        linger_s: float = LINGER_S,
        clock: Callable[[], float] = monotonic,
        dialect: Dialect | None = None,
    ) -> None:
        self.number: Final = number
        self.dialled: Final = dialled
        """The name of the neighbour that was dialled; empty if the peer made the connection."""
        self.certificate = ""
        """The common name in the peer's certificate, or empty."""
        self.peer = ""
        self.source = ""
        """The address of the peer, without the port."""
        self.outbox: Outbox | None = None
        self.ended: asyncio.Event = asyncio.Event()
        self.is_closing = False
        self._owner, self._clock = owner, clock
        self._drain_s, self._linger_s = drain_s, linger_s
        self._dialect: Final[Dialect] = dialect if dialect is not None else Native()
        self._pace = Pace()
        self._is_known = False
        self._is_behind = False
        """Whether received data waits for a later turn."""
        self._is_held = False
        """Whether reading from the transport is paused."""
        self._must_wait = False
        """Whether the broker has to finish something before it takes more frames."""
        self._transport: asyncio.Transport | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._is_paused = False
        self._paused_s = 0.0
        self._paused_bytes = 0
        self._water_bytes = WATER_BYTES_START
        self._has_said_all = False
        self._lingers = True
        self._socket: Any = None
        self._unsent_bytes = 0

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the transport up, and tell the node."""
        # A cast, not an assert: uvloop's transports quack like asyncio's but do not inherit from them.
        self._transport = cast("asyncio.Transport", transport)
        found = self._socket = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._set_water(WATER_BYTES_START)
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if address else ""
        self.source = str(address[0]) if address else ""
        self.certificate = common_name(transport)
        self._owner.on_made(self)

    def data_received(self, data: bytes) -> None:
        """Handle the data, now or in a later turn."""
        if self.is_closing:
            return
        self._owner.counters.bytes_in += len(data)
        if self._is_behind:
            # The transport had already read it when it was told to pause.
            self._dialect.add(data)
            return
        batch = None if self._must_wait or self._pace.is_heavy else self._dialect.only_batch(data)
        if batch is not None and len(batch.bodies) <= self._pace.weight_max:
            self._publish(batch)
            return
        self._dialect.add(data)
        if self._pace.is_heavy and self._owner.turns.is_spent:
            self._put_off()
        else:
            self.work()

    def _publish(self, batch: Publish) -> None:
        """Handle one batch of messages that came alone: ``work``, for the most frequent case."""
        owner = self._owner
        turns = owner.turns
        started_s = turns.clock()
        owner.counters.frames_in += 1
        owner.on_frames(self, [batch])
        took_s = turns.spend(started_s)
        self._pace.note(len(batch.bodies), took_s, now_s=turns.now_s)
        if self._must_wait:
            self._hold_back()

    def eof_received(self) -> bool:
        """Close our side after the peer has closed its own."""
        return False

    def pause_writing(self) -> None:
        """Pause: the transport's buffer is full."""
        self._is_paused = True
        assert self._transport is not None
        self._paused_s = self._clock()
        self._paused_bytes = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """Continue writing, with a buffer sized by the transport's speed since the pause."""
        self._is_paused = False
        if self._transport is not None:
            carried = self._paused_bytes - self._transport.get_write_buffer_size()
            took_s = max(self._clock() - self._paused_s, 1e-6)
            # Double it at most: a link that has just become slow should notice it soon.
            self._set_water(min(int(_WATER_S * carried / took_s), 2 * self._water_bytes))
        if self.outbox:
            self._owner.turns.wake(self)
        elif self.is_closing:
            self._say_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, and tell the node."""
        del exc
        is_news = not self.is_closing
        self.is_closing, self._transport = True, None
        self._dialect.drop()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.ended.set()
        self._owner.on_lost(self, is_news=is_news)

    # Called by the node.

    @property
    def uses_much(self) -> bool:
        """Whether it has used so much time lately that others go first; true for peers that have not authenticated."""
        return not self._is_known or self._pace.uses_much

    def charge(self, took_s: float) -> None:
        """Account for time spent on its frames at the end of a turn."""
        self._pace.charge(took_s)

    def know(self) -> None:
        """Note that the peer has authenticated."""
        self._is_known = True
        self._dialect.know()

    @property
    def is_known(self) -> bool:
        """Whether the peer has authenticated."""
        return self._is_known

    def work(self) -> None:
        """Handle received data slice by slice, until the turn is spent; data after a malformed frame is dropped."""
        owner, pace = self._owner, self._pace
        if self._has_to_wait():
            self._hold_back()
            return
        self._is_behind = False
        while not self.is_closing:
            found = self._dialect.take(pace.weight_max)
            if found.frames:
                owner.counters.frames_in += len(found.frames)
                took_s = owner.turns.timed(partial(owner.on_frames, self, found.frames))
                pace.note(found.weight, took_s, now_s=owner.turns.now_s)
            elif self._is_known and (unfinished_bytes := self._dialect.unfinished_bytes):
                owner.on_progress(self, unfinished_bytes)
            if found.problem and not self.is_closing:
                self.refuse("protocol", found.problem)
                owner.on_broken(self, found.problem)
            if self._has_to_wait():
                # Wait for the broker's ``resume``, not for the next turn.
                self._hold_back()
                return
            if found.is_last:
                break
            if owner.turns.is_spent:
                self._put_off()
                return
        if self._is_held and self._transport is not None:
            self._is_held = False
            self._transport.resume_reading()

    def _has_to_wait(self) -> bool:
        # Checked again after each slice: the broker may have called ``hold`` meanwhile.
        return self._must_wait

    def hold(self) -> None:
        """Stop reading and handling frames until ``resume``."""
        self._must_wait = True

    def resume(self) -> None:
        """Continue in the next turn."""
        if self._must_wait:
            self._must_wait = False
            self._put_off()

    def flush(self) -> None:
        """Write as much of the outbox as suits one write; asks for another turn if there is more."""
        outbox, transport = self.outbox, self._transport
        if transport is None or outbox is None or self._is_paused or self._has_said_all:
            return
        frames = outbox.take(self._water_bytes)
        if frames:
            data = self._dialect.encode(frames)
            counters = self._owner.counters
            counters.frames_out += len(frames)
            counters.bytes_out += len(data)
            counters.writes += 1
            transport.write(data)
        # Its own truth value would cost a call.
        if outbox.data_bytes or outbox.control_bytes:
            if not self._is_paused:
                self._owner.turns.wake(self)
        elif self.is_closing:
            self._say_no_more()

    def close(self, *, lingers: bool = True) -> None:
        """Send what is queued, then close; what could not be sent after a while is lost.

        Where connections are scarce, it should not linger until the peer has closed its side.
        """
        if self.is_closing:
            return
        self.is_closing, self._lingers = True, lingers
        self._later(self._drain_s, self.abort)
        self._owner.turns.wake(self)

    def refuse(self, code: str, reason: str) -> None:
        """Tell the peer why, and close; what is queued is lost."""
        self.outbox = None
        if self._has_said_all or self._transport is None:
            return
        self.is_closing = True
        self._later(self._drain_s, self.abort)
        self._transport.write(self._dialect.farewell(code, reason))
        self._say_no_more()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._owner.counters.aborted += 1
            self._transport.abort()

    def _put_off(self) -> None:
        """Leave received data for a later turn, and read nothing more until then."""
        self._owner.turns.put_off(self)
        self._hold_back()

    def _hold_back(self) -> None:
        self._is_behind = True
        if not self._is_held and self._transport is not None:
            self._is_held = True
            self._transport.pause_reading()

    def _set_water(self, wanted_bytes: int) -> None:
        assert self._transport is not None
        self._water_bytes = min(max(wanted_bytes, WATER_BYTES_MIN), WATER_BYTES_MAX)
        self._transport.set_write_buffer_limits(high=self._water_bytes, low=self._water_bytes // 4)
        unsent_bytes = min(self._water_bytes, WATER_BYTES_START)
        if self._socket is not None and unsent_bytes != self._unsent_bytes and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Otherwise the kernel buffers megabytes below the transport.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
            self._unsent_bytes = unsent_bytes

    def _say_no_more(self) -> None:
        """Close our side only, where possible: a full close while the peer still sends would lose our last frames."""
        if self._has_said_all or self._transport is None:
            return
        self._has_said_all = True
        if not self._lingers or not self._transport.can_write_eof():
            self._transport.close()
            return
        try:
            self._transport.write_eof()
        except OSError:
            # The peer has already gone, and the loop has not noticed yet: there is nobody to send anything to.
            self._transport.abort()
            return
        self._later(self._linger_s, self._transport.close)

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, action))
