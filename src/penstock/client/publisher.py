"""Takes messages from the application in order, as fast as there is room for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from penstock.client.flushing import backlog, why_held_back
from penstock.client.reports import Owner, Reports
from penstock.client.shell import Shell
from penstock.model.body import encode_message
from penstock.model.message import Message
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.session.errors import WouldBlockError
from penstock.session.session import Session

__all__ = ["Publisher", "wall_ms"]

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
        self._queue = session.publishing
        self._shell = shell
        self._until = until
        self._reports = reports
        self._turnstile = asyncio.Lock()
        # Looked up once: these are called for every message.
        self._stamp = session.stamp
        self._publish = session.publish
        self._now_ms = shell.now_ms

    @property
    def is_waiting(self) -> bool:
        """Whether a message waits for room."""
        return self._turnstile.locked()

    async def publish(self, content: bytes, pubend: str, owner: Owner | None) -> MessageId:
        """Wait for room and queue a message, given as all but its identifier; its owner will hear if it is refused."""
        if self._turnstile.locked() or not self._queue.has_room(MESSAGE_ID_BYTES + len(content)):
            return await self.publish_in_turn(content, pubend, owner)
        return self._put(content, pubend, owner)

    async def publish_in_turn(
        self, content: bytes, pubend: str, owner: Owner | None, *, first: Callable[[], None] | None = None
    ) -> MessageId:
        """Wait for room behind all that wait already, and queue a message; ``first`` is called when its turn comes."""
        size = MESSAGE_ID_BYTES + len(content)
        # No message may overtake one that waits, or a large one might wait for ever.
        async with self._turnstile:
            if first is not None:
                first()
            await self._until(lambda: self._queue.has_room(size))
            return self._put(content, pubend, owner)

    async def publish_many(self, messages: Iterable[Message], pubend: str, owner: Owner | None) -> list[MessageId]:
        """Publish several messages in order, waiting for room for each."""
        message_ids: list[MessageId] = []
        for message in messages:
            message_ids.append(await self.publish(encode_message(message), pubend, owner))
            if len(message_ids) % _FAIR == 0:
                await asyncio.sleep(0)
        return message_ids

    def publish_nowait(self, content: bytes, pubend: str, owner: Owner | None) -> MessageId:
        """Queue a message; raises ``WouldBlockError`` if there is no room for it, or other messages wait."""
        if self.is_waiting or not self._queue.has_room(MESSAGE_ID_BYTES + len(content)):
            raise self._would_block()
        return self._put(content, pubend, owner)

    def put_all(self, messages: Iterable[tuple[bytes, str, Owner | None]]) -> None:
        """Queue encoded messages with their pubends and owners, for all of which there was room."""
        now_ms = self._now_ms()
        is_due = False
        for body, pubend, owner in messages:
            if owner is not self._reports.owner():
                self._reports.mark(owner)
            is_due = self._publish(body, pubend, now_ms=now_ms, had_room=True)
        if is_due:
            self._shell.pump()
        else:
            self._shell.schedule()

    def _would_block(self) -> WouldBlockError:
        if not self._session.is_up:
            return WouldBlockError("there is no connection at the moment")
        return WouldBlockError(f"{backlog(self._session, 'are')} yet{why_held_back(self._session)}")

    def _put(self, content: bytes, pubend: str, owner: Owner | None) -> MessageId:
        if owner is not self._reports.owner():
            self._reports.mark(owner)
        message_id, body = self._stamp(content, wall_ms=time.time_ns() // 1_000_000)
        if self._publish(body, pubend, now_ms=self._now_ms()):
            self._shell.pump()
        elif self._queue.queued_bytes == len(body):
            self._shell.schedule()
        return message_id


def wall_ms() -> int:
    """The time of day."""
    return time.time_ns() // 1_000_000
