"""Takes messages from the application in order, as fast as there is room for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from penstock.client.flushing import backlog, why_held_back
from penstock.client.reports import Owner, Reports
from penstock.client.shell import Shell
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.session.errors import WouldBlockError
from penstock.session.session import Session

__all__ = ["Publisher"]

_FAIR: Final = 256
"""After this many messages, a call lets other tasks run."""


class Publisher:
    """Puts messages into the publish queue of a session, or makes them wait."""

    def __init__(
        self,
        session: Session,
        shell: Shell,
        reports: Reports,
        until: Callable[[Callable[[], bool]], Awaitable[None]],
    ) -> None:
        self._session = session
        self._shell = shell
        self._until = until
        self._reports = reports
        self._turnstile = asyncio.Lock()

    async def publish(self, message: Message, pubend: str, owner: Owner | None) -> MessageId:
        """Wait for room and queue the message; its owner will hear if it is refused."""
        queue = self._session.publishing
        if self._turnstile.locked() or not queue.has_room(1):
            async with self._turnstile:
                await self._until(lambda: queue.has_room(1))
                return await self._publish_identified(message, pubend, owner)
        return await self._publish_identified(message, pubend, owner)

    async def publish_many(self, messages: Iterable[Message], pubend: str, owner: Owner | None) -> list[MessageId]:
        """Publish several messages in order, waiting for room for each."""
        message_ids: list[MessageId] = []
        for message in messages:
            message_ids.append(await self.publish(message, pubend, owner))
            if len(message_ids) % _FAIR == 0:
                await asyncio.sleep(0)
        return message_ids

    def publish_nowait(self, message: Message, pubend: str, owner: Owner | None) -> MessageId:
        """Queue the message; raises ``WouldBlockError`` if there is no room for it, or other messages wait."""
        queue = self._session.publishing
        if self._turnstile.locked() or not queue.has_room(1):
            raise self._would_block()
        message_id, body = self._session.identify(message, wall_ms=_wall_ms())
        if not queue.has_room(len(body)):
            raise self._would_block()
        self._put(body, pubend, owner)
        return message_id

    def _would_block(self) -> WouldBlockError:
        if not self._session.is_up:
            return WouldBlockError("there is no connection at the moment")
        return WouldBlockError(f"{backlog(self._session, 'are')} yet{why_held_back(self._session)}")

    async def _publish_identified(self, message: Message, pubend: str, owner: Owner | None) -> MessageId:
        message_id, body = self._session.identify(message, wall_ms=_wall_ms())
        if not self._session.publishing.has_room(len(body)):
            await self._wait_for_room(len(body))
        self._put(body, pubend, owner)
        return message_id

    async def _wait_for_room(self, size: int) -> None:
        queue = self._session.publishing
        # No message may overtake one that waits, or a large one might wait for ever.
        is_mine = not self._turnstile.locked()
        if is_mine:
            await self._turnstile.acquire()
        try:
            await self._until(lambda: queue.has_room(size))
        finally:
            if is_mine:
                self._turnstile.release()

    def _put(self, body: bytes, pubend: str, owner: Owner | None) -> None:
        if owner is not self._reports.owner():
            self._reports.mark(owner)
        is_due = self._session.publish(body, pubend, now_ms=self._shell.now_ms())
        if is_due:
            self._shell.pump()
        elif self._session.publishing.queued_bytes == len(body):
            self._shell.schedule()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
