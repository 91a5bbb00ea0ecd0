"""A subscription as applications hold it: to be iterated over, message by message or batch by batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, Protocol

from penstock.model.errors import MisuseError
from penstock.session.errors import ClientClosedError, ClientError, RefusedError, TakenOverError
from penstock.session.inbox import Inbox, Lag
from penstock.session.positions import LostTicks
from penstock.session.received import Received

__all__ = ["Owner", "Subscription"]

_FAIR: Final = 255
"""After so many messages without a pause others get their turn: heartbeats above all. One less than a power of two."""


class Owner(Protocol):
    """What a subscription needs of its client."""

    @property
    def end(self) -> ClientError | None:
        """Why the client does no more, if that is so."""

    def on_taken(self, inbox: Inbox) -> None:
        """Messages were taken out of a queue that was full."""

    def on_moved(self, inbox: Inbox) -> None:
        """There may be something to acknowledge of a durable subscription."""

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""

    def unsubscribe(self, inbox: Inbox, *, is_done: bool) -> None:
        """The subscription is not wanted any more; the application is done with what it read last, or not."""

    def abandon(self, inbox: Inbox) -> None:
        """The subscription was forgotten by the application; may be called from any thread."""


class Subscription:
    """Messages that match a selector; made by ``client.subscribe(...)``.

    A subscription that is forgotten, as by a ``break`` out of ``async for message in client.subscribe(...)``, is
    withdrawn when Python collects it; ``async with`` or ``close`` does it at once.

    What was read from a durable one is acknowledged by itself about once a second, except what was read last: that
    counts when the application asks for more, or closes. With manual acknowledgement, ``acknowledge`` says what counts.
    """

    def __init__(self, inbox: Inbox, owner: Owner) -> None:
        self._inbox, self._owner = inbox, owner
        self._news = asyncio.Event()
        self._turn = 0

    @property
    def selector(self) -> str:
        """What is delivered: the selector, narrowed by what this client may see once the broker has answered."""
        return self._inbox.granted

    @property
    def pending(self) -> tuple[str, ...]:
        """The pubends that had not confirmed the subscription when the broker answered; their messages come later."""
        return self._inbox.pending

    @property
    def starts(self) -> dict[str, int]:
        """By pubend that guarantees delivery, the tick from which on nothing is missing."""
        return dict(self._inbox.starts)

    @property
    def positions(self) -> dict[str, int]:
        """By pubend that guarantees delivery, the first tick that was not read yet.

        An application that stores them together with the effects of what it has read, and gives them as the start of
        its next subscription, gets everything behind them, and nothing twice. Message by message it is cheaper to
        store ``message.tick + 1`` for ``message.pubend``: here all that waits may have to be looked at.
        """
        return self._inbox.read_positions()

    @property
    def acknowledged(self) -> dict[str, int]:
        """By pubend, the tick below which everything was acknowledged to the broker; of a durable subscription."""
        return dict(self._inbox.receipts.acknowledged) if self._inbox.receipts is not None else {}

    @property
    def lag(self) -> dict[str, Lag]:
        """By pubend that guarantees delivery, how far this subscription is behind it; silence counts as read.

        That is as far as this client has heard: without a connection, the lag stands still.
        """
        return self._owner.lag(self._inbox)

    @property
    def lost(self) -> list[LostTicks]:
        """What will never come, because the pubend has it no more; the newest notices of it."""
        return list(self._inbox.lost)

    @property
    def lost_count(self) -> int:
        """How many such notices there were."""
        return self._inbox.lost_count

    @property
    def is_ready(self) -> bool:
        """Whether the subscription is in force now; not between the loss of a connection and the next one."""
        return self._inbox.state == "ready"

    @property
    def queued(self) -> int:
        """Messages that have arrived and were not read yet."""
        return len(self._inbox.queue)

    def acknowledge(self, message: Received | None = None) -> None:
        """Everything up to this message, of its pubend, is done with; without one, everything that was read so far.

        The broker is told soon, not now; ``close`` tells it at once. Raises ``MisuseError`` if the subscription is not
        to be acknowledged manually, or the message has not been read from it.
        """
        inbox = self._inbox
        if inbox.receipts is None:
            raise MisuseError("only durable subscriptions are acknowledged")
        self._raise_if_over()
        inbox.receipts.acknowledge(message, waiting=inbox.fetched())
        self._owner.on_moved(inbox)

    async def ready(self) -> Subscription:
        """Wait until the subscription is in force on all paths; raises ``RefusedError`` if the broker says no."""
        while self._inbox.state != "ready":
            self._raise_if_over()
            await self._news.wait()
        return self

    async def get(self) -> Received:
        """The next message; raises ``ClientClosedError`` if there will be none."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise ClientClosedError(self._closed()) from None

    async def batch(self, messages_max: int | None = None) -> list[Received]:
        """All messages that wait, at least one; empty if there will be no more."""
        inbox = self._inbox
        if inbox.receipts is not None:
            self._settle()
        if not inbox.queue and not await self._wait():
            return []
        received = inbox.pop_many(messages_max)
        if inbox.blocking:
            self._owner.on_taken(inbox)
        return received

    async def batches(self) -> AsyncIterator[list[Received]]:
        """The messages in lists, as they arrive: the fastest way to read."""
        while received := await self.batch():
            yield received
            # Else a consumer that never waits would keep everything else from running.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Withdraw the subscription and forget what waits; returns when the broker has confirmed.

        Of a durable one, what was read is acknowledged before, unless that is done manually; its positions are kept.
        """
        await self._close(is_done=True)

    def read_through(self, not_read: Callable[[], tuple[Received, ...]]) -> bool:
        """Somebody takes messages on behalf of an application that may not have read them; whether that matters.

        For the blocking client, not for applications.
        """
        self._inbox.fetched = not_read
        return self._inbox.receipts is not None and not self._inbox.receipts.is_manual

    def in_hand(self, message: Received) -> None:
        """This is what such an application reads now; for the blocking client, from its own thread."""
        assert self._inbox.receipts is not None, "not durable"
        self._inbox.receipts.in_hand = (message,)

    def wake(self) -> None:
        """Something has changed; for the client, not for applications."""
        # Everyone who waits now is woken, and looks for itself.
        self._news.set()
        self._news.clear()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Received:
        inbox = self._inbox
        self._turn += 1
        if not self._turn & _FAIR:
            await asyncio.sleep(0)
        if inbox.receipts is not None:
            self._settle()
        if not inbox.queue and not await self._wait():
            raise StopAsyncIteration
        received = inbox.pop()
        if inbox.blocking:
            self._owner.on_taken(inbox)
        return received

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was read last is not done with, if doing so has failed.
        await self._close(is_done=error is None)

    def __repr__(self) -> str:
        return f"<Subscription {self._inbox.number} {self._inbox.state}: {self.selector}>"

    def __del__(self) -> None:
        if not self._inbox.is_over:
            self._owner.abandon(self._inbox)

    async def _close(self, *, is_done: bool) -> None:
        self._owner.unsubscribe(self._inbox, is_done=is_done)
        self.wake()
        while not self._inbox.is_over and self._owner.end is None:
            await self._news.wait()

    def _settle(self) -> None:
        """The application comes back for more: it is done with what it got before."""
        receipts = self._inbox.receipts
        assert receipts is not None, "not durable"
        if receipts.settle():
            self._owner.on_moved(self._inbox)

    async def _wait(self) -> bool:
        """Wait for a message; False if there will be none."""
        inbox = self._inbox
        while not inbox.queue:
            if inbox.state in ("closing", "closed") or isinstance(self._owner.end, ClientClosedError):
                return False
            self._raise_if_over()
            await self._news.wait()
        return True

    def _raise_if_over(self) -> None:
        if self._inbox.state == "refused":
            refused = TakenOverError if self._inbox.is_taken_over else RefusedError
            raise refused("subscribe", self._inbox.reason)
        if self._inbox.state in ("closing", "closed"):
            raise ClientClosedError(self._closed())
        if (end := self._owner.end) is not None:
            raise end.with_traceback(None)

    def _closed(self) -> str:
        return f"the subscription to {self._inbox.wanted.selector} is closed"
