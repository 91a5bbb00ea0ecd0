"""Takes messages from the application in order, as fast as there is room for them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

from penstock.client.flushing import backlog, why_held_back
from penstock.client.reports import Owner, Reports
from penstock.client.shell import Shell
from penstock.model.body import encode_message
from penstock.model.message import Message
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.session.errors import PublishTimeoutError, WouldBlockError
from penstock.session.publish_queue import PublishQueue
from penstock.session.session import Session

__all__ = ["Publisher", "time_left", "wall_ms"]

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
        lock: AbstractContextManager[object],
    ) -> None:
        """Other threads hold the lock while they make identifiers."""
        self._lock = lock
        self._session = session
        self._publishing = session.publishing
        self._shell = shell
        self._until = until
        self._reports = reports
        self._turnstiles: dict[str, asyncio.Lock] = {}
        """Where messages that find no room wait, by pubend; or by the empty name, if none is chosen yet."""
        self._waiting: Counter[str] = Counter()
        """How many wait there. A lock that is handed on to the next one looks free for a moment."""
        # Looked up once: these are called for every message.
        self._stamp = session.stamp
        self._find = session.publishing.find
        self._now_ms = shell.now_ms

    def is_waiting(self, pubend: str) -> bool:
        """Whether a message to this pubend waits for room."""
        return bool(self._waiting) and bool(self._waiting[self._key(pubend)])

    def _key(self, pubend: str) -> str:
        queue = self._find(pubend)
        if queue is None or self._waiting[pubend]:
            # Behind those that began to wait before a pubend was chosen.
            return pubend
        return queue.pubend

    async def publish(
        self, content: bytes, pubend: str, owner: Owner | None, timeout_s: float | None = None
    ) -> MessageId:
        """Wait for room and queue a message, given as all but its identifier; its owner will hear if it is refused.

        Raises ``PublishTimeoutError`` if there is no room for so long; then the message is not queued.
        """
        queue = self._find(pubend)
        if queue is None or not queue.has_room(MESSAGE_ID_BYTES + len(content)) or self.is_waiting(pubend):
            return await self.publish_in_turn(content, pubend, owner, timeout_s=timeout_s)
        return self._put(content, queue, owner)

    async def publish_in_turn(
        self,
        content: bytes,
        pubend: str,
        owner: Owner | None,
        *,
        first: Callable[[], None] | None = None,
        timeout_s: float | None = None,
    ) -> MessageId:
        """Wait for room behind all that wait already, and queue a message; ``first`` is called when its turn comes."""
        if timeout_s is None:
            return await self._wait_and_put(content, pubend, owner, first)
        try:
            async with asyncio.timeout(timeout_s):
                # There is no await after the message was put: either it is queued, or the time is up.
                return await self._wait_and_put(content, pubend, owner, first)
        except TimeoutError:
            raise PublishTimeoutError(f"{self._why_waiting()}; no room for the message within {timeout_s} s") from None

    async def _wait_and_put(
        self, content: bytes, pubend: str, owner: Owner | None, first: Callable[[], None] | None
    ) -> MessageId:
        size = MESSAGE_ID_BYTES + len(content)

        def has_room() -> bool:
            queue = self._publishing.queue_for(pubend)
            return queue is not None and queue.has_room(size)

        # No message may overtake one that waits, or a large one might wait for ever.
        key = self._key(pubend)
        self._waiting[key] += 1
        try:
            async with self._turnstiles.setdefault(key, asyncio.Lock()):
                if first is not None:
                    first()
                await self._until(has_room)
                queue = self._publishing.queue_for(pubend)
                assert queue is not None, "it has room"
                return self._put(content, queue, owner)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    async def publish_many(
        self, messages: Iterable[Message], pubend: str, owner: Owner | None, timeout_s: float | None = None
    ) -> list[MessageId]:
        """Publish several messages in order, waiting for room for each; all of them within the time, if given."""
        message_ids: list[MessageId] = []
        left_s = time_left(timeout_s)
        for message in messages:
            try:
                message_ids.append(await self.publish(encode_message(message), pubend, owner, left_s()))
            except PublishTimeoutError as error:
                raise PublishTimeoutError(str(error), messages=tuple(message_ids)) from None
            if len(message_ids) % _FAIR == 0:
                await asyncio.sleep(0)
        return message_ids

    def publish_nowait(self, content: bytes, pubend: str, owner: Owner | None) -> MessageId:
        """Queue a message; raises ``WouldBlockError`` if there is no room for it, or other messages wait."""
        queue = self._publishing.queue_for(pubend)
        if queue is None or self.is_waiting(pubend) or not queue.has_room(MESSAGE_ID_BYTES + len(content)):
            raise WouldBlockError(self._why_waiting())
        return self._put(content, queue, owner)

    def put_all(self, messages: Iterable[tuple[bytes, PublishQueue, Owner | None]]) -> None:
        """Queue encoded messages with their queues and owners, for all of which there was room."""
        now_ms = self._now_ms()
        is_due = False
        for body, queue, owner in messages:
            if owner is not self._reports.owner_of(queue.pubend):
                self._reports.mark(queue, owner)
            is_due = queue.put(body, now_ms=now_ms, had_room=True) or is_due
            if queue.problem:
                # Its pubend has gone since the message was taken.
                self._publishing.fail(queue)
                self._reports.collect()
        if is_due:
            self._shell.pump()
        else:
            self._shell.schedule()

    def _why_waiting(self) -> str:
        if not self._session.is_up:
            return "there is no connection at the moment"
        return f"{backlog(self._session, 'are')} yet{why_held_back(self._session)}"

    def _put(self, content: bytes, queue: PublishQueue, owner: Owner | None) -> MessageId:
        if owner is not self._reports.owner_of(queue.pubend):
            self._reports.mark(queue, owner)
        # No longer than that: what follows may end the client, for which the lock is needed.
        with self._lock:
            message_id, body = self._stamp(content, wall_ms=time.time_ns() // 1_000_000)
        if queue.put(body, now_ms=self._now_ms()):
            self._shell.pump()
        elif queue.queued_bytes == len(body):
            self._shell.schedule()
        return message_id


def time_left(timeout_s: float | None) -> Callable[[], float | None]:
    """How much is left of a time that begins now, for a call made of several; None if there is no limit."""
    if timeout_s is None:
        return lambda: None
    end_s = time.monotonic() + timeout_s
    return lambda: max(0.0, end_s - time.monotonic())


def wall_ms() -> int:
    """The time of day."""
    return time.time_ns() // 1_000_000
