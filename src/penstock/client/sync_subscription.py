"""A subscription of the blocking client: fetches messages in batches from the client's thread, and hands them out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from penstock.client.subscription import Subscription
from penstock.session.errors import ClientClosedError, ForkedError
from penstock.session.inbox import Lag
from penstock.session.positions import LostTicks
from penstock.session.received import Received
from penstock.system.forking import tell_after_fork

__all__ = ["Caller", "SyncSubscription"]

_BATCH_MESSAGES: Final = 1024
"""Messages fetched from the thread at once; back-pressure does not reach them."""

_Result = TypeVar("_Result")


class Caller(Protocol):
    """What a subscription needs from the blocking client."""

    def call(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run a coroutine in the client's thread, and wait for it."""


class SyncSubscription:
    """The messages that match a selector, for a blocking program; one thread at a time may read from it."""

    def __init__(self, subscription: Subscription, client: Caller) -> None:
        self._subscription, self._client = subscription, client
        self._fetched: deque[Received] = deque()
        # Not a bound method: with one, the client would keep alive a subscription that the application has dropped.
        self._is_durable = subscription.read_through(partial(_snapshot, self._fetched))
        self._last_positions: dict[str, int] | None = None
        tell_after_fork(self)

    @property
    def selector(self) -> str:
        """The selector; once the broker has answered, narrowed to what this client may see."""
        return self._subscription.selector

    @property
    def pending(self) -> tuple[str, ...]:
        """The pubends that had not confirmed the subscription when the broker answered."""
        return self._subscription.pending

    @property
    def starts(self) -> dict[str, int]:
        """For each guaranteed pubend, the tick from which on nothing is missing."""
        return self._subscription.starts

    @property
    def positions(self) -> dict[str, int]:
        """For each guaranteed pubend, the first tick that the application has not read yet: where to resume."""
        if self._last_positions is not None:
            return dict(self._last_positions)
        return self._inside(lambda: self._subscription.positions)

    @property
    def acknowledged(self) -> dict[str, int]:
        """For each pubend, the tick below which everything was acknowledged to the broker; empty if not durable."""
        return self._inside(lambda: self._subscription.acknowledged)

    @property
    def lag(self) -> dict[str, Lag]:
        """For each guaranteed pubend, how far this subscription is behind it; silence counts as read."""
        return self._inside(lambda: self._subscription.lag)

    @property
    def lost(self) -> list[LostTicks]:
        """Ranges of ticks that will never arrive, because the pubend no longer has them; the newest notices only."""
        return self._subscription.lost

    @property
    def lost_count(self) -> int:
        """How many notices of lost ticks there were in total."""
        return self._subscription.lost_count

    @property
    def is_paused(self) -> bool:
        """Whether the application has paused the subscription."""
        return self._subscription.is_paused

    def pause(self) -> None:
        """Have the broker send nothing more; what has arrived may still be read."""

        async def pause() -> None:
            self._subscription.pause()

        self._client.call(pause)

    def resume(self) -> None:
        """Continue a paused subscription where it was, as after a lost connection."""

        async def resume() -> None:
            self._subscription.resume()

        self._client.call(resume)

    def ready(self) -> SyncSubscription:
        """Wait until the subscription is in force on all paths; raises ``RefusedError`` if the broker refuses it."""
        self._client.call(self._subscription.ready)
        return self

    def get(self, timeout_s: float | None = None) -> Received:
        """Wait for the next message; raises ``TimeoutError`` if it is late, ``ClientClosedError`` if none will come."""
        if not self._has_next(timeout_s):
            raise ClientClosedError(f"the subscription to {self.selector} is closed")
        return self._next()

    def acknowledge(self, message: Received | None = None) -> None:
        """Say that the work on this message is done, and wait until that counts.

        For a message of a group: raises ``WorkLostError`` if it does not count. For a message of a durable subscription
        with manual acknowledgement: returns when the pubend keeps it, so that it never comes again under this name. A
        pubend keeps up to 1,000 messages after the first one that is not acknowledged; further ones wait for that.
        """

        async def acknowledge() -> None:
            await self._subscription.acknowledge(message)

        self._client.call(acknowledge)

    def acknowledge_through(self, message: Received | None = None) -> None:
        """Acknowledge this message and all before it of its pubend; without a message, everything read so far.

        For durable subscriptions with manual acknowledgement. The broker is told soon, not immediately, and this does
        not wait for it; ``close`` tells it at once.
        """

        async def acknowledge_through() -> None:
            self._subscription.acknowledge_through(message)

        self._client.call(acknowledge_through)

    def refuse(self, message: Received, *, delay: float = 0.0, reason: str = "") -> None:
        """Give a message of a group back: it comes again, to anybody, after a delay in seconds."""

        async def refuse() -> None:
            await self._subscription.refuse(message, delay=delay, reason=reason)

        self._client.call(refuse)

    def extend(self, message: Received) -> None:
        """Ask for more time for a message of a group: another ``work_ms`` from now on."""

        async def extend() -> None:
            await self._subscription.extend(message)

        self._client.call(extend)

    def close(self) -> None:
        """Withdraw the subscription and drop unread messages; if it is durable, what was read is acknowledged first."""
        self._close(None)

    def on_forked(self) -> None:
        """In a forked child, drop the fetched messages, which are the parent's."""
        self._fetched.clear()

    def __iter__(self) -> SyncSubscription:
        return self

    def __next__(self) -> Received:
        if not self._has_next(None):
            raise StopIteration
        return self._next()

    def __enter__(self) -> SyncSubscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)

    def __repr__(self) -> str:
        return f"<Sync{repr(self._subscription)[1:]}"

    def _close(self, error: BaseException | None) -> None:
        try:
            # In a forked child there is nothing to withdraw: the subscription is the parent's.
            with suppress(ForkedError):
                self._last_positions = self.positions
                self._client.call(lambda: self._subscription.__aexit__(None, error, None))
        finally:
            # Not earlier: unread messages must not be acknowledged.
            self._fetched.clear()

    def _has_next(self, timeout_s: float | None) -> bool:
        """Wait until there is a message to read; False if there will be no more."""
        while self._fetched or self._fetch(timeout_s):
            if not self._subscription.was_taken_away(self._fetched[0]):
                return True
            self._fetched.popleft()
        return False

    def _next(self) -> Received:
        if self._is_durable:
            # Put in hand before it is removed, so that it never looks as if the application were done with it.
            self._subscription.in_hand(self._fetched[0])
        return self._fetched.popleft()

    def _inside(self, read: Callable[[], _Result]) -> _Result:
        """Read a value in the thread that changes it, or right here once that thread has ended."""

        async def inside() -> _Result:
            return read()

        try:
            return self._client.call(inside)
        except ClientClosedError:
            return read()

    def _fetch(self, timeout_s: float | None) -> bool:
        async def fetch() -> None:
            async with asyncio.timeout(timeout_s):
                # Stored here, not by the reader: if that is interrupted, the messages are still there.
                self._fetched.extend(await self._subscription.batch(_BATCH_MESSAGES))

        # The client may be closed by another thread while this one waits.
        with suppress(ClientClosedError):
            self._client.call(fetch)
        return bool(self._fetched)


def _snapshot(messages: deque[Received]) -> tuple[Received, ...]:
    """A copy of the messages that another thread has not read yet, and may be taking out meanwhile."""
    while True:
        with suppress(RuntimeError):
            return tuple(messages)
