"""Carries out a move to another broker, unnoticed by the application ([Balancing] section on subscriber migration).

The new connection is made first, and all subscriptions are asked for on it with their positions. When they are in force
there, both connections go on for a moment: what was published to pubends that guarantee nothing before their paths led
to the new broker is still on its way to the old one. Then the new connection takes over, both brokers are told, and the
old one sends what it has left and ends. Whatever goes wrong before that means that the client stays where it is; if the
old broker is lost meanwhile, the new connection takes over as it is, if it goes on from all positions, and if not, the
client reconnects as after any loss.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.client.connection import Connection, Endpoint
from penstock.protocol.frames import Migrate
from penstock.session.address import Address, parse_addresses
from penstock.session.changes import Changes
from penstock.session.errors import AddressError, ClientError, ConnectionFailedError
from penstock.session.newcomer import Newcomer
from penstock.session.session import Session
from penstock.session.settings import ClientSettings

__all__ = ["Migrator"]

_log: Final = logging.getLogger("penstock.client")

_ARRIVE_S_MAX: Final = 20.0
"""In which the new broker has to take over; less than the old one waits for an answer."""
_OVERLAP_S: Final = 0.5
"""How long both connections go on when the new one is ready."""
_TRAIL_S: Final = 5.0
"""So much longer a message may take to the new broker than to the old one, and is still known to have come."""
_LOOK_S: Final = 0.25
"""How often it is looked whether too much waits for that."""
_LEAVE_S_MAX: Final = 12.0
"""In which the old broker has to send what it has left; more than it takes for that."""


class Migrator:
    """Makes the moves of one client, one at a time."""

    def __init__(
        self,
        session: Session,
        settings: ClientSettings,
        *,
        attempt: Callable[[Address, Endpoint], Awaitable[Connection]],
        current: Callable[[], tuple[Connection | None, Address | None]],
        learn: Callable[[Address], None],
        adopt: Callable[[Connection, Address], None],
        on_changes: Callable[[Changes], None],
    ) -> None:
        """Use these ways to make a connection, to find the present one, to keep an address, and to change over."""
        self._session, self._settings = session, settings
        self._attempt, self._current, self._learn, self._adopt = attempt, current, learn, adopt
        self._on_changes = on_changes
        self._task: asyncio.Task[None] | None = None
        self._newcomer: Newcomer | None = None
        self._arriving: tuple[Connection, Address] | None = None
        self._leaving: Connection | None = None

    # What the supervisor calls.

    def on_order(self, order: Migrate) -> None:
        """The broker wants this client to go to another one."""
        if problem := self._problem_with(order):
            self._answer(order, problem)
        else:
            (address,) = parse_addresses(order.address)
            self._cancel()
            self._learn(address)
            newcomer = self._newcomer = self._session.begin_move(order)
            self._task = asyncio.create_task(self._move(newcomer, address), name=f"move to {order.broker}")

    def rescue(self) -> bool:
        """The present connection is lost; whether the new one has taken its place."""
        newcomer, arriving = self._newcomer, self._arriving
        if newcomer is None:
            return False
        self._cancel()
        if arriving is None or not newcomer.can_rescue or arriving[0].ended.is_set():
            self._stay("the connection to the old broker was lost", newcomer)
            has_moved = False
        else:
            self._take_over(*arriving)
            self._on_changes(self._session.end_overlap())
            has_moved = True
        self._task = asyncio.create_task(self._trail(), name="end of a move")
        return has_moved

    def resume_reading(self) -> None:
        """The application has taken enough out."""
        for connection in (self._arriving[0] if self._arriving else None, self._leaving):
            if connection is not None:
                connection.resume_reading()

    def pump_soon(self) -> None:
        """There may be something to say on the new connection."""
        if self._arriving is not None:
            self._arriving[0].pump_soon()

    def close(self) -> None:
        """Make no more moves, and leave nothing behind."""
        self._cancel()
        if self._arriving is not None:
            self._arriving[0].abort()
        if self._leaving is not None:
            self._leaving.abort()

    def let_go(self) -> None:
        """Forget all connections without touching them, in a forked child."""
        for connection in (self._arriving[0] if self._arriving else None, self._leaving):
            if connection is not None:
                connection.let_go()
        self._newcomer = self._arriving = self._leaving = self._task = None

    async def ended(self) -> None:
        """Wait until nothing of a move goes on, after ``close``."""
        if self._task is not None:
            await asyncio.wait([self._task])

    # Inside.

    def _problem_with(self, order: Migrate) -> str:
        if self._newcomer is not None or self._leaving is not None:
            return "the client is moving already"
        if self._settings.pinned:
            return "the client is pinned"
        if self._session.publishing.published:
            return "the client publishes"
        _, present = self._current()
        try:
            addresses = parse_addresses(order.address)
        except AddressError as error:
            return str(error)
        # What is secret must not travel in the open because somebody says so.
        if len(addresses) != 1 or (present is not None and present.tls and not addresses[0].tls):
            return f"{order.address} is no address to go to from {present}"
        return ""

    async def _move(self, newcomer: Newcomer, address: Address) -> None:
        try:
            async with asyncio.timeout(_ARRIVE_S_MAX):
                connection = await self._arrive(newcomer, address)
        except TimeoutError:
            self._stay(f"the new broker was not ready within {_ARRIVE_S_MAX:g} s", newcomer)
        except ClientError as error:
            self._stay(str(error), newcomer)
        else:
            await self._leave(self._take_over(connection, address))
        await self._trail()

    async def _arrive(self, newcomer: Newcomer, address: Address) -> Connection:
        """A connection that can take over; raises ``ClientError`` if there is none."""
        news = asyncio.Event()
        newcomer.on_news = news.set
        connection = await self._attempt(address, newcomer)
        self._arriving = (connection, address)
        while True:
            connection.pump()
            if self._session.publishing.published:
                newcomer.fail("the client publishes")
            if newcomer.problem:
                raise ConnectionFailedError(f"{address}: {newcomer.problem}")
            if newcomer.is_ready:
                await asyncio.sleep(_OVERLAP_S)
                if newcomer.is_ready and not self._session.publishing.published:
                    return connection
                continue
            news.clear()
            await news.wait()

    def _take_over(self, connection: Connection, address: Address) -> Connection | None:
        """The new connection becomes the one of the session; the old one, if it is there."""
        old, _ = self._current()
        leaver, changes = self._session.take_over()
        self._newcomer = self._arriving = None
        connection.endpoint = self._session
        self._adopt(connection, address)
        if old is not None and leaver is not None:
            old.endpoint = leaver
            old.pump()
        connection.pump()
        self._on_changes(changes)
        return old if leaver is not None else None

    async def _leave(self, old: Connection | None) -> None:
        self._leaving = old
        try:
            async with asyncio.timeout(_LEAVE_S_MAX):
                while old is not None and not old.closed.is_set() and not self._session.moves.is_full:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(old.closed.wait(), _LOOK_S)
        except TimeoutError:
            _log.debug("the old broker has not sent all it had in time")
        finally:
            if old is not None:
                old.abort()
            self._leaving = None
            self._on_changes(self._session.end_overlap())

    async def _trail(self) -> None:
        """Wait until nothing comes any more that has come before, from this move or the one before."""
        if self._session.moves.overlap is not None:
            await asyncio.sleep(_TRAIL_S)
            self._session.moves.finish()

    def _stay(self, reason: str, newcomer: Newcomer) -> None:
        if self._arriving is not None:
            arriving = self._arriving[0]
            arriving.close()
            # Who does not take the last words is not waited for.
            asyncio.get_running_loop().call_later(self._settings.close_ms / 1000, arriving.abort)
        self._newcomer = self._arriving = None
        must_come_back = self._session.give_up_move()
        self._answer(newcomer.order, reason)
        connection, _ = self._current()
        if must_come_back and connection is not None:
            connection.pump()
            connection.fail("again", "durable subscriptions are claimed back")

    def _answer(self, order: Migrate, reason: str) -> None:
        _log.debug("stays where it is, and does not go to %s: %s", order.broker, reason)
        self._session.refuse_move(order, reason)
        connection, _ = self._current()
        if connection is not None:
            connection.pump_soon()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
