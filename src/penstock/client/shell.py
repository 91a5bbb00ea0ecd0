"""Runs a session on asyncio: makes the connections it wants, carries frames to and fro, and wakes it in time."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Final

from penstock.client.connection import Connection, is_hopeless
from penstock.protocol.frames import Frame
from penstock.session.address import Address
from penstock.session.changes import Abort, Changes, Dial, Effect, HangUp
from penstock.session.errors import ClientClosedError
from penstock.session.session import Session

__all__ = ["Shell"]

_log: Final = logging.getLogger("penstock.client")

_CLOSE_S_MAX: Final = 120.0
"""How long to wait for connections to end, long after the session has given them up."""
_LATE_MS: Final = 500
"""A timer later than this means that the application blocked the loop: the broker's silence is not held against it."""


class Shell:
    """The transports and the timer of one session."""

    def __init__(self, session: Session, *, tls: ssl.SSLContext | None, on_changes: Callable[[Changes], None]) -> None:
        self._session = session
        self._tls = tls
        self._on_changes = on_changes
        self._connections: dict[int, Connection] = {}
        """Connections by line, from the attempt to connect until nothing is left of them."""
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_pumping_soon = False
        self._opening: asyncio.Future[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._time_s: Callable[[], float] | None = None
        """The clock of the loop in which the session was opened; asking for the running one costs a system call in
        Python 3.11."""

    @property
    def is_idle(self) -> bool:
        """Whether there is no connection, and none is being made."""
        return not self._connections

    @property
    def connection(self) -> Connection | None:
        """The connection to the present broker; None if it is gone."""
        return self._connections.get(self._session.line)

    def now_ms(self) -> int:
        """The clock of the session."""
        time_s = self._time_s or asyncio.get_running_loop().time
        return int(time_s() * 1_000)

    # Called by the client.

    async def open(self) -> None:
        """Connect; raises ``ConnectionFailedError`` if no broker answers, ``RefusedError`` if one refuses."""
        loop = asyncio.get_running_loop()
        self._time_s = loop.time
        self._opening = loop.create_future()
        try:
            self._react(self._session.open(now_ms=self.now_ms()))
            await self._opening
        except BaseException:
            self.abort()
            raise
        finally:
            self._opening = None

    async def close(self) -> None:
        """End all connections; what a broker does not take in time is lost. An ``open`` that waits fails."""
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(ClientClosedError("this client was closed while it was connecting"))
        self._react(self._session.close(now_ms=self.now_ms()))
        try:
            async with asyncio.timeout(_CLOSE_S_MAX):
                await self._idle.wait()
        except TimeoutError:
            # The session gives up every connection much sooner: whatever keeps one, nobody must wait for it.
            _log.warning("%d connections did not end, and are cut off", len(self._connections))
            for connection in list(self._connections.values()):
                connection.abort()

    def abort(self) -> None:
        """Cut all connections now, without waiting for anything."""
        self._react(self._session.abort(now_ms=self.now_ms()))

    def pump(self) -> None:
        """Write all frames that are due, with one write per line, and set the timer."""
        now_ms = self.now_ms()
        for number, connection in list(self._connections.items()):
            frames = self._session.take_frames(number, now_ms=now_ms)
            if frames:
                connection.write(frames)
        self.schedule()

    def pump_soon(self) -> None:
        """Write at the end of this turn of the loop, so that many calls share one write."""
        # Without a connection there is nothing to write, and before the first one there may be no loop.
        if self._connections and not self._is_pumping_soon:
            self._is_pumping_soon = True
            asyncio.get_running_loop().call_soon(self._pump_later)

    def schedule(self) -> None:
        """Set the timer to the session's next deadline."""
        deadline_ms = self._session.next_deadline()
        if deadline_ms is not None and self._timer is not None and self._timer_ms <= deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            self._timer_ms = deadline_ms
            self._timer = asyncio.get_running_loop().call_at(deadline_ms / 1_000, self._on_timer)

    def resume_reading(self) -> None:
        """Read from the sockets again, since the application has made room."""
        for number, connection in self._connections.items():
            if connection.is_paused:
                self._session.on_reading(number, now_ms=self.now_ms())
                connection.resume_reading()
        self.schedule()

    def on_forked(self) -> None:
        """In a forked child, drop the connections, which are the parent's, and get a random generator of its own."""
        for connection in self._connections.values():
            connection.let_go()
        self._connections, self._dialling = {}, {}
        self._timer = self._time_s = None
        self._session.on_forked(Random())

    # Called by connections.

    def on_made(self, connection: Connection) -> None:
        """Let the session say hello."""
        if connection.number not in self._connections:
            connection.abort()
            return
        self._session.on_connected(connection.number, now_ms=self.now_ms())
        self.pump()

    def on_data(self, connection: Connection, frames: Iterable[Frame]) -> None:
        """Pass all frames to the session at once."""
        wall_ms = time.time_ns() // 1_000_000
        changes = self._session.on_frames(connection.number, frames, now_ms=self.now_ms(), wall_ms=wall_ms)
        self._react(changes)
        if not self._session.reading:
            connection.pause_reading()

    def on_writable(self, connection: Connection, *, is_writable: bool) -> None:
        """Tell the session whether a transport can take more."""
        self._session.on_writable(connection.number, is_writable=is_writable)
        if is_writable:
            self.pump()

    def on_gone(self, connection: Connection, problem: str, error: Exception | None) -> None:
        """Tell the session that nothing is left of a connection."""
        if self._connections.pop(connection.number, None) is not None:
            number, now_ms = connection.number, self.now_ms()
            self._react(self._session.on_lost(number, problem, now_ms=now_ms, is_hopeless=is_hopeless(error)))

    # Inside.

    def _react(self, changes: Changes) -> None:
        """Do what the session wants done, tell the application, and write."""
        for effect in changes.effects:
            self._carry_out(effect)
        if self._opening is not None and not self._opening.done():
            if changes.end is not None:
                self._opening.set_exception(changes.end)
                changes.end = None
            elif self._session.is_up:
                self._opening.set_result(None)
        self._on_changes(changes)
        if self._connections:
            self._idle.clear()
        else:
            self._idle.set()
        self.pump()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Dial(number, address):
                connection = self._connections[number] = Connection(number, self)
                task = asyncio.create_task(self._dial(connection, address), name=f"penstock: dial {address}")
                task.add_done_callback(partial(self._on_dialled, connection))
                self._dialling[number] = task
            case HangUp(number, last_words):
                connection = self._connections[number]
                connection.write(last_words)
                connection.close()
            case Abort(number):
                if number in self._dialling:
                    self._dialling[number].cancel()
                self._connections[number].abort()

    async def _dial(self, connection: Connection, address: Address) -> None:
        context = (self._tls or ssl.create_default_context()) if address.tls else None
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, address.host, address.port, ssl=context)

    def _on_dialled(self, connection: Connection, task: asyncio.Task[None]) -> None:
        """An attempt to connect has ended; not its own last act, since one that is cancelled at once never runs."""
        self._dialling.pop(connection.number, None)
        cause = None if task.cancelled() else task.exception()
        if connection.is_made:
            return
        if not isinstance(cause, OSError | ValueError):
            self.on_gone(connection, "the client gave up", None)
            if cause is not None:
                raise cause
            return
        # A value error: the name cannot be that of a host.
        problem = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        self.on_gone(connection, problem, cause)

    def _pump_later(self) -> None:
        self._is_pumping_soon = False
        self.pump()

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        if now_ms - self._timer_ms > _LATE_MS:
            for number in self._connections:
                self._session.on_reading(number, now_ms=now_ms)
        self._react(self._session.on_deadline(now_ms=now_ms))
