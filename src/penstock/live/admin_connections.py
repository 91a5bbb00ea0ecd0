"""The connections of the admin API: few, and none of them keeps others out by saying nothing.

A connection without a whole request is closed soon. When there are too many, the one goes that has been without a
request under way for longest: whoever asks for ``/health`` is heard, however many others only hold on.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["CONNECTIONS_MAX", "REQUEST_S_MAX", "BoundedProtocol"]

CONNECTIONS_MAX: Final = 64
REQUEST_S_MAX: Final = 5.0
"""Time in which a new connection must have sent the head of its first request."""

_numbers: Final = count()


class BoundedProtocol(H11Protocol):
    """One connection, which makes room for itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.number: Final = next(_numbers)
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody comes: the one that has been idle for longest goes, if there is no room."""
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
        """It is gone."""
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is under way."""
        return not self._has_asked or self.cycle.response_complete

    @property
    def _has_asked(self) -> bool:
        # Its type does not say that there is none at first.
        return cast("object | None", self.cycle) is not None

    def _on_due(self) -> None:
        if not self._has_asked and not self.transport.is_closing():
            self.transport.abort()
