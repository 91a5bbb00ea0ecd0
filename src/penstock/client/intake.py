"""Takes messages from any thread without a round trip to the client's own, which fetches them in batches.

A message is taken only while there is room for it in the publish window, and counts against that room at once. One for
which there is none waits its turn in the client's thread. An interrupt may come between any two steps of the thread
that publishes, so that thread never touches the publish queue: it makes an identifier and appends to a list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from penstock.client.publisher import Publisher, wall_ms
from penstock.client.reports import Owner
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.session.errors import ClientError
from penstock.session.publish_queue import PublishQueue
from penstock.session.session import Session

__all__ = ["Intake"]


class Intake:
    """The messages of one client that other threads have published, and its own has not fetched yet."""

    def __init__(self, session: Session, publisher: Publisher, lock: threading.Lock) -> None:
        """The lock is the one that the session holds while it changes the source of its identifiers."""
        self._session = session
        self._publishing = session.publishing
        self._find = session.publishing.find
        self._publisher = publisher
        self._lock: Final = lock
        self._waiting: list[tuple[bytes, PublishQueue, Owner | None]] = []
        self._waiting_bytes = 0
        """At least as many bytes as wait; the window of the publish queue bounds them."""
        self._is_called = False
        """Whether the client's thread has been asked to fetch, and has not done so yet."""
        self._end: ClientError | None = None

    @property
    def published(self) -> int:
        """Messages accepted from the application, fetched or not; without those that are being fetched right now."""
        # Without the lock: in a forked child, a thread that does not exist there may hold it.
        return self._publishing.published + len(self._waiting)

    def take(
        self, content: bytes, pubend: str, owner: Owner | None, call: Callable[[Callable[[], None]], object]
    ) -> MessageId | None:
        """Take a message from any thread; None if it has to wait its turn. ``call`` calls in the client's thread."""
        size = MESSAGE_ID_BYTES + len(content)
        with self._lock:
            if self._end is not None:
                raise self._end.with_traceback(None)
            queue = self._find(pubend)
            if queue is None or self._publisher.is_waiting(pubend):
                # The client's own thread finds out whether there is such a pubend.
                return None
            if not queue.has_room(size, beside=self._waiting_bytes):
                return None
            message_id, body = self._session.stamp(content, wall_ms=wall_ms())
            # Before the message: if an interrupt comes in between, too much is counted until the next fetch.
            self._waiting_bytes += size
            self._waiting.append((body, queue, owner))
            if not self._is_called:
                call(self.fetch)
                self._is_called = True
        return message_id

    async def take_in_turn(
        self, content: bytes, pubend: str, owner: Owner | None, timeout_s: float | None = None
    ) -> MessageId:
        """Wait for room in the client's thread, behind all that wait already and all that was taken before.

        While it waits, nothing else to the same pubend is taken.
        """
        return await self._publisher.publish_in_turn(content, pubend, owner, first=self.fetch, timeout_s=timeout_s)

    def fetch(self) -> None:
        """Queue everything taken so far; in the client's thread."""
        with self._lock:
            self._fetch()

    def close(self, end: ClientError) -> None:
        """Fetch what is there, and take no more."""
        with self._lock:
            self._end = end
            self._fetch()

    def _fetch(self) -> None:
        self._is_called = False
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        if waiting:
            self._publisher.put_all(waiting)
