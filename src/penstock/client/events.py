"""Tells what happens to a client: to the log, and to every stream of events that the program reads.

This is the one place where an event becomes a line of the log. What brokers say is quoted there, so that none can
forge a line, and the lines of each kind are limited.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Final, Protocol
from weakref import WeakSet

from penstock.session.errors import ClientClosedError
from penstock.session.events import ClientEvent, Connected, EventsDropped, GaveUp, Moved
from penstock.system.line_limit import LineLimit

__all__ = ["EVENTS_MAX", "EventStream", "SyncEventStream", "Telling"]

EVENTS_MAX: Final = 1_000
"""Events that wait unread in one stream; then the oldest are dropped."""

_log: Final = logging.getLogger("penstock.client")
_LEVELS: Final[dict[type, int]] = {Connected: logging.INFO, Moved: logging.INFO, GaveUp: logging.ERROR}
"""The levels of events; all others are warnings."""


class Telling:
    """Tells the events of one client to the log and to all streams that are still in use."""

    def __init__(self) -> None:
        self._streams: WeakSet[_Stream] = WeakSet()
        self._lock = threading.Lock()
        """Programs with the blocking client add streams from other threads."""
        self._lines = LineLimit()
        self._is_over = False

    def add(self, stream: _Stream) -> None:
        """Tell a stream everything that happens from now on, until the program drops it."""
        with self._lock:
            self._streams.add(stream)
            is_over = self._is_over
        if is_over:
            stream.end()

    def tell(self, client: str, event: ClientEvent) -> None:
        """Tell what has happened to the client of this name."""
        level = _LEVELS.get(type(event), logging.WARNING)
        if _log.isEnabledFor(level):
            left_out = self._lines.left_out(type(event).__name__)
            if left_out is not None:
                _log.log(level, "%s: %s", client, _Line(event, left_out))
        for stream in self._present():
            stream.put(event)

    def end(self) -> None:
        """Nothing more will happen: the streams end once they are read to their end."""
        self._is_over = True
        for stream in self._present():
            stream.end()

    def on_forked(self) -> None:
        """In a forked child, use other locks: threads that do not exist here may hold the present ones."""
        self._lock = threading.Lock()
        for stream in self._present():
            stream.on_forked()

    def _present(self) -> list[_Stream]:
        with self._lock:
            return list(self._streams)


class _Stream(Protocol):
    """A stream of events, as the client sees it."""

    def put(self, event: ClientEvent) -> None:
        """Something has happened."""

    def end(self) -> None:
        """Nothing more will happen."""

    def on_forked(self) -> None:
        """This is a copy in a forked child."""


class _Backlog:
    """The events that wait in one stream; of too many, the newest."""

    def __init__(self) -> None:
        self._waiting: deque[ClientEvent] = deque(maxlen=EVENTS_MAX)
        self._dropped = 0
        self.is_over = False

    def put(self, event: ClientEvent) -> None:
        self._dropped += len(self._waiting) == EVENTS_MAX
        self._waiting.append(event)

    @property
    def has_some(self) -> bool:
        return bool(self._waiting or self._dropped)

    def take(self) -> ClientEvent | None:
        """The next event, or how many were dropped before it; None if none waits."""
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            return EventsDropped(dropped)
        return self._waiting.popleft() if self._waiting else None


class EventStream:
    """What happens to a client, to iterate over; made by ``client.events()``. Ends when the client is closed."""

    def __init__(self) -> None:
        self._backlog = _Backlog()
        self._news = asyncio.Event()

    async def get(self) -> ClientEvent:
        """Wait for the next event; raises ``ClientClosedError`` if there will be no more."""
        while (event := self._backlog.take()) is None:
            if self._backlog.is_over:
                raise ClientClosedError("nothing more happens to this client")
            self._news.clear()
            await self._news.wait()
        return event

    def put(self, event: ClientEvent) -> None:
        """Something has happened; for the client, not for applications."""
        self._backlog.put(event)
        self._news.set()

    def end(self) -> None:
        """Nothing more will happen; for the client, not for applications."""
        self._backlog.is_over = True
        self._news.set()

    def on_forked(self) -> None:
        """Nothing to do: no other thread uses it."""

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> ClientEvent:
        try:
            return await self.get()
        except ClientClosedError:
            raise StopAsyncIteration from None


class SyncEventStream:
    """What happens to a client, for a blocking program; any thread may read it. Ends when the client is closed."""

    def __init__(self) -> None:
        self._backlog = _Backlog()
        self._changed = threading.Condition()

    def get(self, timeout_s: float | None = None) -> ClientEvent:
        """Wait for the next event; raises ``TimeoutError`` if it is late, ``ClientClosedError`` if none will come."""
        with self._changed:
            event = self._backlog.take()
            if event is None:
                if not self._changed.wait_for(self._is_settled, timeout_s):
                    raise TimeoutError(f"nothing has happened for {timeout_s} s")
                event = self._backlog.take()
            if event is None:
                raise ClientClosedError("nothing more happens to this client")
            return event

    def put(self, event: ClientEvent) -> None:
        """Something has happened; for the client, not for applications."""
        with self._changed:
            self._backlog.put(event)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more will happen; for the client, not for applications."""
        with self._changed:
            self._backlog.is_over = True
            self._changed.notify_all()

    def on_forked(self) -> None:
        """Use another lock: a thread that does not exist here may hold the present one."""
        self._changed = threading.Condition()

    def __iter__(self) -> SyncEventStream:
        return self

    def __next__(self) -> ClientEvent:
        try:
            return self.get()
        except ClientClosedError:
            raise StopIteration from None

    def _is_settled(self) -> bool:
        return self._backlog.has_some or self._backlog.is_over


class _Line:
    """The text of one line of the log, made only if the line is written."""

    def __init__(self, event: ClientEvent, left_out: int) -> None:
        self._event, self._left_out = event, left_out

    def __str__(self) -> str:
        shown = [each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(self._event)]
        left_out = f" ({self._left_out:,} lines of this kind were left out)" if self._left_out else ""
        return "".join(shown) + left_out
