"""Waits until everything published is settled, and reports messages that were refused or may be lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.client.reports import Owner, Reports
from penstock.client.shell import Shell
from penstock.session.errors import ClientError, ConnectionFailedError, PublishTimeoutError, RefusedError
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
        end: Callable[[], ClientError | None],
        news: asyncio.Event,
    ) -> None:
        """``end`` says why the client has stopped, if it has; ``check_usable`` raises it."""
        self._session, self._shell = session, shell
        self._reports = reports
        self._check_usable, self._end = check_usable, end
        self._news = news

    async def flush(self, asker: Owner | None, *, everything: bool = False) -> None:
        """Wait until everything published so far is settled; raises failures that concern the asker, or all of them.

        There is no await between taking a report and raising it, so a cancelled flush leaves it to the next one.
        """
        publishing = self._session.publishing
        mark = publishing.mark()
        if not publishing.is_settled(mark):
            self._check_usable()
            self._session.hurry(now_ms=self._shell.now_ms())
            self._shell.pump()
        while not publishing.is_settled(mark) and not publishing.is_stopped_at(mark):
            self._check_usable()
            await self._news.wait()
        refusal = self._reports.refusal(asker, everything=everything)
        if refusal is not None:
            raise refusal
        loss = self._reports.loss(asker, everything=everything, end=self._end())
        if loss is not None:
            raise loss
        if not publishing.is_settled(mark):
            raise RefusedError("publish", f"{publishing.refusal}; messages after it are not published")

    async def flush_within(self, asker: Owner | None, timeout_s: float | None) -> None:
        """Flush for one publisher; raises ``PublishTimeoutError`` if that takes longer than it allows."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush(asker)
        except TimeoutError:
            text = f"{backlog(self._session, 'were')} within {timeout_s} s{why_held_back(self._session)}"
            raise PublishTimeoutError(text) from None

    async def flush_at_last(self, limit_ms: int) -> None:
        """Flush for all publishers, and wait until members of groups are answered; both within the limit.

        Raises ``ConnectionFailedError`` if not everything published is settled by then.
        """
        end_s = asyncio.get_running_loop().time() + limit_ms / 1000
        try:
            await self._flush_all(limit_ms)
        except ClientError:
            await self._answered(end_s)
            raise
        await self._answered(end_s)

    async def _answered(self, end_s: float) -> None:
        """Wait until everything said of messages of groups is answered, until a time by the loop's clock."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                while self._session.unanswered() and self._end() is None:
                    await self._news.wait()

    async def _flush_all(self, limit_ms: int) -> None:
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self.flush(None, everything=True)
        except TimeoutError:
            text = f"{backlog(self._session, 'were')} within {limit_ms} ms{why_held_back(self._session)}"
            self._session.publishing.abandon()
            loss = self._reports.loss(None, everything=True)
            assert loss is not None, "something was outstanding"
            raise ConnectionFailedError(text, messages=loss.messages, count=loss.count) from None

    def give_up(self) -> None:
        """Log the failures that no flush has reported: nobody will flush any more, and they must not vanish."""
        for each in (self._reports.refusal(None, everything=True), self._reports.loss(None, everything=True)):
            if each is not None:
                _log.warning("closed before a flush could report: %s", each)


def backlog(session: Session, verb: str) -> str:
    """Says in words how many messages are not acknowledged."""
    queue = session.publishing
    return f"{queue.published - queue.settled:,} messages {verb} not acknowledged"


def why_held_back(session: Session) -> str:
    """Why publishers wait, to append to an error message; empty if they do not."""
    return f"; the broker holds publishers back: {session.held_back}" if session.held_back else ""
