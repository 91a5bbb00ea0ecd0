"""Waits until the broker has settled what was published, and reports what it refused or what may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.client.errors import ConnectionFailedError, RefusedError
from penstock.client.session import Session
from penstock.client.supervisor import Supervisor

__all__ = ["Flushing", "backlog", "why_held_back"]


class Flushing:
    """The flushes of one client."""

    def __init__(
        self, session: Session, supervisor: Supervisor, *, check_usable: Callable[[], None], news: asyncio.Event
    ) -> None:
        self._session, self._supervisor = session, supervisor
        self._check_usable, self._news = check_usable, news
        self._reported = (0, 0)

    async def flush(self) -> None:
        """Wait until everything that was published so far is settled; raises what there is to report."""
        queue = self._session.publishing
        target, asked = queue.published, None
        while queue.settled < target and not queue.is_stopped:
            self._check_usable()
            connection, welcome = self._supervisor.connection, self._session.welcome
            # Once on each connection: a broker that cannot acknowledge yet would be asked for ever.
            if connection is not None and welcome is not asked:
                asked = welcome
                queue.hurry(now_ms=connection.now_ms())
                connection.pump()
            await self._news.wait()
        refused, lost = queue.refused - self._reported[0], queue.lost - self._reported[1]
        self._reported = queue.refused, queue.lost
        if refused:
            raise RefusedError("publish", f"{queue.refusal} (messages refused: {refused:,})")
        if lost:
            raise ConnectionFailedError(f"the connection was lost with {lost:,} messages on the wire")
        if queue.settled < target:
            raise RefusedError("publish", f"{queue.refusal}; nothing is published behind that")

    async def flush_within(self, limit_ms: int) -> None:
        """The same, for no longer than that; then raises ``ConnectionFailedError`` with the reason to wait."""
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self.flush()
        except TimeoutError:
            left, why = backlog(self._session, "were"), why_held_back(self._session)
            raise ConnectionFailedError(f"{left} within {limit_ms} ms{why}") from None


def backlog(session: Session, verb: str) -> str:
    """How many messages are not acknowledged, in words."""
    queue = session.publishing
    return f"{queue.published - queue.settled:,} messages {verb} not acknowledged"


def why_held_back(session: Session) -> str:
    """Why publishers wait, to be added to a message; empty if they do not."""
    return f"; the broker holds publishers back: {session.held_back}" if session.held_back else ""
