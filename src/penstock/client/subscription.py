"""A subscription as applications use it: to iterate over, message by message or batch by batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol

from penstock.model.errors import MisuseError
from penstock.protocol.work_frames import Outcome, Verdict
from penstock.session.errors import ClientClosedError, ClientError, RefusedError, TakenOverError, WorkLostError
from penstock.session.inbox import Inbox, Lag
from penstock.session.positions import LostTicks
from penstock.session.received import HandedOut, Received
from penstock.session.work import Said

__all__ = ["Owner", "Subscription"]

_DELAY_S_MAX: Final = 30 * 86_400.0
_REASON_CHARS_MAX: Final = 200
_FAIR: Final = 255
"""After this many messages without a pause other tasks may run, heartbeats above all. One less than a power of two."""


class Owner(Protocol):
    """What a subscription needs from its client."""

    @property
    def end(self) -> ClientError | None:
        """Why the client has stopped; None while it is usable."""

    @property
    def close_s(self) -> float:
        """How long closing may wait for answers."""

    def on_taken(self, inbox: Inbox) -> None:
        """Messages were taken out of a queue that was full."""

    def on_moved(self, inbox: Inbox) -> None:
        """A durable subscription may have something to acknowledge."""

    def on_awaited(self, inbox: Inbox) -> None:
        """Somebody waits until something that was acknowledged is kept."""

    def judge(self, inbox: Inbox, message: Received, verdict: Verdict, delay_ms: int, reason: str) -> Said:
        """The application says what becomes of a message of a group."""

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""

    def pause(self, inbox: Inbox) -> None:
        """Have the broker send nothing more for a subscription."""

    def resume(self, inbox: Inbox) -> None:
        """Continue a paused subscription where it was."""

    def unsubscribe(self, inbox: Inbox, *, is_done: bool) -> None:
        """Withdraw a subscription; ``is_done`` if the application is done with what it read last."""

    def abandon(self, inbox: Inbox) -> None:
        """Withdraw a subscription that the application has dropped; callable from any thread."""


class Subscription:
    """The messages that match a selector, to iterate over; made by ``client.subscribe(...)``.

    A subscription that the application drops, as by a ``break`` out of ``async for message in client.subscribe(...)``,
    is withdrawn when Python collects it; ``async with`` or ``close`` withdraws it at once.

    What was read from a durable subscription is acknowledged automatically about once a second, except what the last
    call returned: that counts once the application asks for more, or closes. With manual acknowledgement, only what the
    application passes to ``acknowledge`` or ``acknowledge_through`` counts.
    """

    def __init__(self, inbox: Inbox, owner: Owner) -> None:
        self._inbox, self._owner = inbox, owner
        self._news = asyncio.Event()
        self._turn = 0

    @property
    def selector(self) -> str:
        """The selector; once the broker has answered, narrowed to what this client may see."""
        return self._inbox.granted

    @property
    def pending(self) -> tuple[str, ...]:
        """The pubends that had not confirmed the subscription when the broker answered; their messages come later."""
        return self._inbox.pending

    @property
    def starts(self) -> dict[str, int]:
        """For each guaranteed pubend, the tick from which on nothing is missing."""
        return dict(self._inbox.starts)

    @property
    def positions(self) -> dict[str, int]:
        """For each guaranteed pubend, the first tick that the application has not read yet.

        An application that stores the positions together with the effects of what it has read, and passes them as the
        ``start`` of its next subscription, gets everything from there on, and nothing twice. Message by message it is
        cheaper to store ``message.tick + 1`` for ``message.pubend``: this property may look at all waiting messages.
        """
        return self._inbox.read_positions()

    @property
    def acknowledged(self) -> dict[str, int]:
        """For each pubend, the tick below which everything was acknowledged to the broker; empty if not durable."""
        return dict(self._inbox.receipts.acknowledged) if self._inbox.receipts is not None else {}

    @property
    def lag(self) -> dict[str, Lag]:
        """For each guaranteed pubend, how far this subscription is behind it; silence counts as read.

        Based on what this client has heard: without a connection, the lag stands still.
        """
        return self._owner.lag(self._inbox)

    @property
    def lost(self) -> list[LostTicks]:
        """Ranges of ticks that will never arrive, because the pubend no longer has them; the newest notices only."""
        return list(self._inbox.lost)

    @property
    def lost_count(self) -> int:
        """How many notices of lost ticks there were in total."""
        return self._inbox.lost_count

    @property
    def is_ready(self) -> bool:
        """Whether the subscription is in force now; it is not between the loss of a connection and the next one."""
        return self._inbox.state == "ready"

    @property
    def is_paused(self) -> bool:
        """Whether the application has paused the subscription."""
        return self._inbox.state == "paused"

    @property
    def queued(self) -> int:
        """How many messages have arrived and are not read yet."""
        return len(self._inbox.queue)

    def acknowledge(self, message: Received | None = None) -> Awaitable[None]:
        """Say that the work on this message is done; await it to know that this counts.

        For a message of a group: raises ``WorkLostError`` if it does not count, since somebody else was handed the
        message, or it is a dead letter.

        For a message of a durable subscription with manual acknowledgement: returns when the pubend keeps it, so that
        the message never comes again under this name. Messages before it are not acknowledged. A pubend keeps up to
        1,000 messages after the first one that is not acknowledged; further ones wait for that. Raises
        ``TakenOverError`` or ``ClientClosedError`` if the subscription ends before.

        Takes effect without being awaited, too: then the broker is told soon. ``close`` tells it at once.
        """
        inbox = self._inbox
        if message is None:
            raise MisuseError("acknowledge needs the message; acknowledge_through() is for everything read so far")
        if inbox.work is not None:
            return self._judge(message, Verdict.DONE)
        if inbox.receipts is None:
            raise MisuseError("only durable subscriptions are acknowledged")
        self._raise_if_over()
        inbox.receipts.acknowledge(message)
        self._owner.on_moved(inbox)
        return _Kept(partial(self.kept, [(message.pubend, message.tick)] if message.is_guaranteed else []))

    def acknowledge_through(self, message: Received | None = None) -> Awaitable[None]:
        """Acknowledge this message and all before it of its pubend; without a message, everything read so far.

        For durable subscriptions with manual acknowledgement. The broker is told soon, not immediately; ``close`` tells
        it at once. Await it to know that the pubends keep it, as with ``acknowledge``.
        """
        inbox = self._inbox
        if inbox.work is not None:
            raise MisuseError("messages of groups (shared=...) are acknowledged one by one, with acknowledge")
        if inbox.receipts is None:
            raise MisuseError("only durable subscriptions are acknowledged")
        self._raise_if_over()
        waiting = inbox.fetched()
        ends = inbox.receipts.ends(waiting) if message is None else {}
        inbox.receipts.acknowledge_through(message, waiting=waiting)
        self._owner.on_moved(inbox)
        places = [(pubend, end - 1) for pubend, end in ends.items()]
        if message is not None and message.is_guaranteed:
            places = [(message.pubend, message.tick)]
        return _Kept(partial(self.kept, places))

    def refuse(self, message: Received, *, delay: float = 0.0, reason: str = "") -> Awaitable[None]:
        """Give a message of a group back: it comes again, to anybody, after a delay in seconds.

        After ``deliveries_max`` times it becomes a dead letter, with the reasons. Await it to know that this counts.
        """
        if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay <= _DELAY_S_MAX:
            raise MisuseError(f"delay is {delay!r} s; it must be 0 to {_DELAY_S_MAX:,.0f}")
        if not isinstance(reason, str):
            raise MisuseError(f"reason {reason!r} is not a text")
        return self._judge(message, Verdict.REFUSED, round(delay * 1_000), reason)

    def extend(self, message: Received) -> Awaitable[None]:
        """Ask for more time for a message of a group: another ``work_ms`` from now on."""
        return self._judge(message, Verdict.EXTENDED)

    def _judge(
        self, message: Received | None, verdict: Verdict, delay_ms: int = 0, reason: str = ""
    ) -> Awaitable[None]:
        if self._inbox.work is None:
            raise MisuseError("only messages of groups (shared=...) are refused or extended")
        if not isinstance(message, HandedOut):
            raise MisuseError(f"{message!r} was not handed out to this member")
        self._raise_if_over()
        said = self._owner.judge(self._inbox, message, verdict, delay_ms, reason[:_REASON_CHARS_MAX])
        return _Kept(partial(self.settled, said))

    def give_back(self, message: Received) -> None:
        """Return a message of a group that was read but not worked on: it comes again, and that is no failure."""
        if isinstance(message, HandedOut) and self._inbox.work is not None and self._inbox.work.is_held(message):
            self._judge(message, Verdict.RETURNED)

    def was_taken_away(self, message: Received) -> bool:
        """Whether a message of a group that was not read is somebody else's by now; for the blocking client."""
        work = self._inbox.work
        return work is not None and isinstance(message, HandedOut) and not work.is_held(message)

    async def settled(self, said: Said) -> None:
        """Wait until something that was said of a message counts; for the awaitables of this subscription."""
        while said.outcome is None:
            self._raise_if_over()
            await self._news.wait()
        if said.outcome is not Outcome.KEPT:
            raise WorkLostError(said.message.id, is_done=said.outcome is Outcome.UNKNOWN)

    async def kept(self, places: Iterable[tuple[str, int]]) -> None:
        """Wait until acknowledged messages are kept, each given by its pubend and tick."""
        receipts = self._inbox.receipts
        assert receipts is not None, "not durable"
        for pubend, tick in places:
            if receipts.is_kept(pubend, tick):
                continue
            self._raise_if_over()
            receipts.wait_for(pubend, tick)
            self._owner.on_awaited(self._inbox)
            try:
                while not receipts.is_kept(pubend, tick):
                    self._raise_if_over()
                    await self._news.wait()
            finally:
                receipts.wait_no_more(pubend, tick)

    def pause(self) -> None:
        """Have the broker send nothing more, whatever other subscriptions of the client get; idempotent.

        What has arrived may still be read. The subscription stays paused over lost connections and moves. A member of a
        group is not paused: if it reads nothing, it is handed nothing more.
        """
        if self._inbox.work is not None:
            raise MisuseError("a member of a group is not paused: if it reads nothing, it is handed nothing more")
        self._raise_if_over()
        self._owner.pause(self._inbox)

    def resume(self) -> None:
        """Continue a paused subscription where it was, as after a lost connection; idempotent.

        Messages of guaranteed pubends are delivered from its positions on; those that the logs no longer have are
        reported in ``lost``. Best-effort messages of the meantime are gone.
        """
        self._raise_if_over()
        self._owner.resume(self._inbox)

    async def ready(self) -> Subscription:
        """Wait until the subscription is in force on all paths; raises ``RefusedError`` if the broker refuses it."""
        while self._inbox.state != "ready":
            self._raise_if_over()
            await self._news.wait()
        return self

    async def get(self) -> Received:
        """Wait for the next message; raises ``ClientClosedError`` if there will be no more."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise ClientClosedError(self._closed()) from None

    async def batch(self, messages_max: int | None = None) -> list[Received]:
        """Wait for messages, and return all that have arrived, up to a maximum; empty if there will be no more."""
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
        """Yield the messages in lists, as they arrive: the fastest way to read."""
        while received := await self.batch():
            yield received
            # Otherwise a consumer that never waits would keep everything else from running.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Withdraw the subscription and drop unread messages; returns when the broker has confirmed.

        If it is durable, what was read is acknowledged first, unless that is done manually; its positions are kept. A
        member of a group waits up to ``close_ms`` until what it has acknowledged or refused is answered.
        """
        await self._close(is_done=True)

    def read_through(self, not_read: Callable[[], tuple[Received, ...]]) -> bool:
        """Let a caller fetch messages that its application may not have read yet; whether to report reads by `in_hand`.

        For the blocking client, not for applications.
        """
        self._inbox.fetched = not_read
        return self._inbox.receipts is not None and not self._inbox.receipts.is_manual

    def in_hand(self, message: Received) -> None:
        """Record the message that the application reads now; for the blocking client, from its own thread."""
        assert self._inbox.receipts is not None, "not durable"
        self._inbox.receipts.in_hand = (message,)

    def wake(self) -> None:
        """Wake everyone who waits, since something has changed; for the client, not for applications."""
        # Everyone who waits now wakes up and checks.
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
        if inbox.blocking and inbox.is_half_empty:
            self._owner.on_taken(inbox)
        return received

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # If the application failed, it is not done with what it read last.
        await self._close(is_done=error is None)

    def __repr__(self) -> str:
        return f"<Subscription {self._inbox.number} {self._inbox.state}: {self.selector}>"

    def __del__(self) -> None:
        if not self._inbox.is_over:
            self._owner.abandon(self._inbox)

    async def _close(self, *, is_done: bool) -> None:
        try:
            if self._inbox.unanswered:
                await self._answered()
        finally:
            self._owner.unsubscribe(self._inbox, is_done=is_done)
            self.wake()
        while not self._inbox.is_over and self._owner.end is None:
            await self._news.wait()

    async def _answered(self) -> None:
        """Wait until everything said of messages of a group is answered, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._owner.close_s):
                while self._inbox.unanswered and self._owner.end is None:
                    await self._news.wait()

    def _settle(self) -> None:
        """Count what the application got before as done, since it asks for more."""
        receipts = self._inbox.receipts
        assert receipts is not None, "not durable"
        if receipts.settle():
            self._owner.on_moved(self._inbox)

    async def _wait(self) -> bool:
        """Wait for a message; False if there will be no more."""
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


class _Kept:
    """Waits until something that was said of messages counts; need not be awaited."""

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._wait().__await__()
