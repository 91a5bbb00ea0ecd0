"""Waits until the broker has settled what was published, and reports what it refused or what may be lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from penstock.client.reports import Owner, Reports
from penstock.client.shell import Shell
from penstock.session.errors import ConnectionFailedError, RefusedError
from penstock.session.session import Session

__all__ = ["Flushing", "backlog", "why_held_back"]

_log: Final = logging.getLogger("penstock.client")


class Flushing:
    """The flushes of one client."""

    def __init__(
        self,
        session: Session,
        shell: Shell,
        reports: Reports,
        *,
        check_usable: Callable[[], None],
        news: asyncio.Event,
    ) -> None:
        self._session, self._shell = session, shell
        self._reports = reports
        self._check_usable, self._news = check_usable, news

    async def flush(self, asker: Owner | None, *, everything: bool = False) -> None:
        """Wait until everything that was published so far is settled; raises what this one has to hear, or everything.

        Nothing waits between taking a report and raising it: a flush that is cancelled leaves it to the next one.
        """
        queue = self._session.publishing
        target = queue.published
        if queue.settled < target:
            self._check_usable()
            self._session.hurry(now_ms=self._shell.now_ms())
            self._shell.pump()
        while queue.settled < target and not queue.is_stopped:
            self._check_usable()
            await self._news.wait()
        refusal = self._reports.refusal(asker, everything=everything)
        if refusal is not None:
            raise refusal
        loss = self._reports.loss(asker, everything=everything)
        if loss is not None:
            raise loss
        if queue.settled < target:
            raise RefusedError("publish", f"{queue.refusal}; nothing is published behind that")

    async def flush_at_last(self, limit_ms: int) -> None:
        """The same for all publishers, for no longer than that; then raises ``ConnectionFailedError``."""
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self.flush(None, everything=True)
        except TimeoutError:
            left, why = backlog(self._session, "were"), why_held_back(self._session)
            raise ConnectionFailedError(f"{left} within {limit_ms} ms{why}") from None

    def give_up(self) -> None:
        """Nobody will flush any more: what nobody has heard is logged, since it must not vanish."""
        for each in (self._reports.refusal(None, everything=True), self._reports.loss(None, everything=True)):
            if each is not None:
                _log.warning("closed before a flush could report: %s", each)


def backlog(session: Session, verb: str) -> str:
    """How many messages are not acknowledged, in words."""
    queue = session.publishing
    return f"{queue.published - queue.settled:,} messages {verb} not acknowledged"


def why_held_back(session: Session) -> str:
    """Why publishers wait, to be added to a message; empty if they do not."""
    return f"; the broker holds publishers back: {session.held_back}" if session.held_back else ""
