"""Accepts connections as long as there is room for them; TLS handshakes in progress take up room, too.

A connection too many is accepted and closed at once: a socket that nobody accepts leaves the peer without an answer,
and running out of descriptors would hit the store and the links. Among unfinished handshakes the oldest is dropped
first, since an honest peer finishes soon. If the system runs out of resources all the same, accepting pauses for a
moment.

It calls ``accept`` itself because the servers of event loops do not report the handshakes they have in progress.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from penstock.broker.settings import BrokerSettings
from penstock.live.counters import Counters
from penstock.live.descriptors import affordable
from penstock.live.dialect import native_farewell
from penstock.live.dialler import DIAL_S_MAX
from penstock.live.websocket import WebSocketProtocol
from penstock.system.line_limit import LineLimit

__all__ = ["Door", "Entrance"]

_NOTED_EACH: Final = 1_000
"""Of this many connections turned away, the first is logged."""
_ACCEPTED_MAX: Final = 8
"""Connections accepted in one turn, at a third of a millisecond each; the others stay in the backlog."""
_PAUSE_S: Final = 0.5
"""How long accepting pauses when the system has run out of resources."""


@dataclass(slots=True, frozen=True)
class Door:
    """Sockets on which one dialect is spoken."""

    sockets: Sequence[socket.socket]
    make: Callable[[], asyncio.BaseProtocol]
    """Makes what handles one accepted connection."""
    farewell: Callable[[str, str], bytes] = native_farewell
    """The bytes that turn somebody away, for a code and a reason."""


class Entrance:
    """The sockets on which a node listens; the first door has the address by which the node is known."""

    def __init__(
        self,
        doors: Sequence[Door],
        context: ssl.SSLContext | None,
        *,
        counters: Counters,
        note: Callable[..., None],
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._doors = {each: door for door in doors for each in door.sockets}
        self._address = ("", 0)
        self._context = context
        self._counters = counters
        self._note = note
        self._failed_lines = LineLimit()
        """Anybody who reaches the port can cause these lines, as often as they like."""
        self._pause_s = pause_s
        self._affordable = affordable()
        self.room = 1
        """How many open connections and handshakes there may be in total."""
        self._handshakes_max = 1
        self._coming: dict[asyncio.Task[None], None] = {}
        """Connections that have no transport yet, oldest first."""
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which it listens, or listened last; an empty host and 0 if it never did."""
        return self._address

    @property
    def is_open(self) -> bool:
        """Whether it accepts connections."""
        return bool(self._doors)

    @property
    def handshakes(self) -> int:
        """How many handshakes are in progress."""
        return len(self._coming)

    def open(self) -> None:
        """Start to accept connections."""
        for each in self._doors:
            if not self._address[0]:
                host, port = each.getsockname()[:2]
                self._address = str(host), int(port)
            self._listen(each)

    def limit(self, settings: BrokerSettings) -> None:
        """Allow as many connections as the settings say, as far as descriptors suffice."""
        before = self.room
        # Some more than connections_max: the broker tells those why they cannot stay.
        self.room = min(self._affordable, settings.connections_max + settings.strangers_max)
        self._handshakes_max = settings.strangers_max
        if self.room < settings.connections_max and self.room != before:
            self._note(
                "descriptors-short",
                connections_max=settings.connections_max,
                connections=self.room,
                advice="raise the limit of open files (ulimit -n, LimitNOFILE), or lower connections_max",
            )

    async def close(self) -> None:
        """Stop accepting, and cancel all handshakes."""
        loop = asyncio.get_running_loop()
        for each in self._doors:
            loop.remove_reader(each)
            each.close()
        self._doors.clear()
        for timer in self._pauses.values():
            timer.cancel()
        coming = list(self._coming)
        for task in coming:
            task.cancel()
        await asyncio.gather(*coming, return_exceptions=True)

    def _listen(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_MAX):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: retrying at once would not help.
                self._note("accept-paused", reason=error.strerror or str(error))
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                self._pauses[listening] = loop.call_later(self._pause_s, self._listen, listening)
                return
            accepted.settimeout(0.0)
            self._come(accepted, str(address[0]), self._doors[listening])

    def _come(self, accepted: socket.socket, source: str, door: Door) -> None:
        if self._coming and (len(self._coming) >= self._handshakes_max or not self._has_room()):
            oldest = next(iter(self._coming))
            del self._coming[oldest]
            oldest.cancel()
            self._count("the handshake was the oldest of too many")
        if not self._has_room():
            self._turn_away(accepted, door)
            return
        task = asyncio.get_running_loop().create_task(self._let_in(accepted, source, door), name="newcomer")
        self._coming[task] = None
        task.add_done_callback(lambda done: self._on_come(done, accepted))

    def _on_come(self, task: asyncio.Task[None], accepted: socket.socket) -> None:
        self._coming.pop(task, None)
        if task.cancelled():
            # There may have been no transport yet that would close it.
            accepted.close()

    async def _let_in(self, accepted: socket.socket, source: str, door: Door) -> None:
        # Too slow, or gone: there is nobody to tell.
        with suppress(OSError, TimeoutError):
            try:
                _, made = await asyncio.get_running_loop().connect_accepted_socket(
                    door.make,
                    accepted,
                    ssl=self._context,
                    ssl_handshake_timeout=DIAL_S_MAX if self._context is not None else None,
                )
            except ssl.SSLError as error:
                self._note_failed(source, error)
                return
            if isinstance(made, WebSocketProtocol):
                await self._settle(made, source)

    async def _settle(self, made: WebSocketProtocol, source: str) -> None:
        """Wait for the second handshake of a WebSocket: until then it takes up room as a newcomer."""
        try:
            await made.settled.wait()
        except asyncio.CancelledError:
            made.abort()
            raise
        if made.problem and (left_out := self._failed_lines.left_out("websocket-refused")) is not None:
            more = {"left_out": left_out} if left_out else {}
            self._note("websocket-refused", address=source, reason=made.problem, **more)

    def _note_failed(self, source: str, error: ssl.SSLError) -> None:
        """Tell the operator of a handshake that failed: wrong certificate, or none, or another protocol."""
        left_out = self._failed_lines.left_out("tls-refused")
        if left_out is not None:
            reason = (error.reason or str(error)).replace("_", " ").lower()
            problem = getattr(error, "verify_message", "")
            more = {"left_out": left_out} if left_out else {}
            self._note("tls-refused", address=source, reason=f"{reason}: {problem}" if problem else reason, **more)

    def _has_room(self) -> bool:
        return self._counters.open_connections + len(self._coming) < self.room

    def _turn_away(self, accepted: socket.socket, door: Door) -> None:
        self._count("there is no room for more connections")
        with accepted, suppress(OSError):
            if self._context is None:
                accepted.send(door.farewell("full", f"this broker has room for {self.room:,} connections"))

    def _count(self, reason: str) -> None:
        # A flood of connections must not flood the log.
        if self._counters.turned_away % _NOTED_EACH == 0:
            self._note("turned-away", reason=reason, connections=self._counters.open_connections)
        self._counters.turned_away += 1
