"""Bounds the connections of the admin API, so that idle ones cannot keep others out.

A new connection that sends no request in time is closed. When there are too many, the oldest idle one is dropped: a
request for ``/health`` gets through, however many connections are just held open.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["CONNECTIONS_MAX", "REQUEST_S_MAX", "BoundedProtocol"]

CONNECTIONS_MAX: Final = 64
REQUEST_S_MAX: Final = 5.0
"""How long a new connection may take to send the head of its first request."""

_numbers: Final = count()


class BoundedProtocol(H11Protocol):
    """One connection, which makes room for itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.number: Final = next(_numbers)
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection in, and drop the oldest idle one if there are too many."""
        super().connection_made(transport)
        self._due = self.loop.call_later(REQUEST_S_MAX, self._on_due)
        others = [
            each
            for each in self.connections
            if isinstance(each, BoundedProtocol) and each is not self and not each.transport.is_closing()
        ]
        if len(others) >= CONNECTIONS_MAX:
            min(others, key=lambda each: (not each.is_idle, each.number)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether the connection has no request in progress."""
        return not self._has_asked or self.cycle.response_complete

    @property
    def _has_asked(self) -> bool:
        # The declared type hides that there is no cycle at first.
        return cast("object | None", self.cycle) is not None

    def _on_due(self) -> None:
        if not self._has_asked and not self.transport.is_closing():
            self.transport.abort()
