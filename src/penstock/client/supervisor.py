"""Keeps a client connected: tries the addresses in turn, and comes back after a loss when `Reconnect` says so."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from random import Random
from typing import Final

from penstock.client.connection import Connection, Endpoint
from penstock.client.migrating import Migrator
from penstock.session.address import Address
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError
from penstock.session.reconnect import Reconnect
from penstock.session.session import Changes, Session
from penstock.session.settings import ClientSettings

__all__ = ["Supervisor"]

_TOLD_MAX: Final = 8
"""Addresses that brokers told of, and that are tried besides those that the application gave."""


class Supervisor:
    """Makes the connections of one client, one after the other."""

    def __init__(
        self,
        session: Session,
        addresses: tuple[Address, ...],
        settings: ClientSettings,
        *,
        tls: ssl.SSLContext | None,
        on_changes: Callable[[Changes], None],
    ) -> None:
        self._session, self._settings = session, settings
        self._addresses = self._given = addresses
        self._tls = tls
        self._on_changes = on_changes
        self._migrator = Migrator(
            session,
            settings,
            attempt=self._attempt,
            current=lambda: (self.connection, self.address),
            learn=self._learn,
            adopt=self._adopt,
            on_changes=on_changes,
        )
        self._turned = asyncio.Event()
        self._told: dict[Address, None] = {}
        self._reconnect = Reconnect(settings, Random())
        self._turn = 0
        self.connection: Connection | None = None
        """The connection that was welcomed last, also when it is gone."""
        self.address: Address | None = None
        self.reconnects = 0

    async def connect(self) -> None:
        """Try every address once; raises ``RefusedError``, or ``ConnectionFailedError`` if none works."""
        problems: list[str] = []
        for _ in self._addresses:
            address = self._addresses[self._turn % len(self._addresses)]
            try:
                connection = await self._attempt(address, self._session)
            except ConnectionFailedError as error:
                problems.append(str(error))
                self._turn += 1
            else:
                self._hold(connection, address)
                self._catch_up(connection)
                return
        raise ConnectionFailedError("; ".join(problems))

    async def run(self) -> ClientError:
        """Reconnect for ever; returns the reason when that makes no more sense."""
        while True:
            await self._turned.wait()
            self._turned.clear()
            connection = self.connection
            assert connection is not None, "the first connection is the caller's to make"
            if not connection.ended.is_set() or self._migrator.rescue():
                continue
            goodbye = connection.goodbye
            if goodbye is not None and not self._reconnect.may_follow(goodbye.code):
                return RefusedError("go on", goodbye.reason)
            self._reconnect.on_lost(now_ms=connection.now_ms())
            problem = await self._connect_again(goodbye.reason if goodbye is not None else connection.problem)
            if problem is not None:
                return problem
            self.reconnects += 1

    async def close(self) -> None:
        """End the connection; what the broker does not take in time is lost."""
        self._migrator.close()
        connection = self.connection
        if connection is not None:
            connection.close()
            try:
                async with asyncio.timeout(self._settings.close_ms / 1000):
                    await connection.closed.wait()
            except TimeoutError:
                connection.abort()
                await connection.closed.wait()
        await self._migrator.ended()

    def abort(self) -> None:
        """Cut all connections now, without waiting for anything."""
        self._migrator.close()
        if self.connection is not None:
            self.connection.abort()

    def on_forked(self) -> None:
        """This is the copy in a forked child: the connections are the parent's, and so were the dice."""
        self._migrator.let_go()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.let_go()
        self._reconnect = Reconnect(self._settings, Random())

    async def _connect_again(self, reason: str) -> ClientError | None:
        loop = asyncio.get_running_loop()
        while (pause_ms := self._reconnect.pause_ms(now_ms=int(loop.time() * 1000))) is not None:
            await asyncio.sleep(pause_ms / 1000)
            try:
                await self.connect()
            except RefusedError as error:
                return error
            except ConnectionFailedError as error:
                reason = str(error)
            else:
                return None
        return ConnectionFailedError(f"no connection for {self._settings.give_up_ms} ms: {reason}")

    async def _attempt(self, address: Address, endpoint: Endpoint) -> Connection:
        connection = Connection(endpoint, self._pass_on)
        context = (self._tls or ssl.create_default_context()) if address.tls else None
        loop = asyncio.get_running_loop()
        is_good = False
        try:
            async with asyncio.timeout(self._settings.connect_ms / 1000):
                await loop.create_connection(lambda: connection, address.host, address.port, ssl=context)
                await connection.greeted.wait()
        except TimeoutError:
            raise ConnectionFailedError(f"{address}: no welcome within {self._settings.connect_ms} ms") from None
        except OSError as error:
            raise ConnectionFailedError(f"{address}: {error.strerror or error}") from error
        else:
            self._check_greeting(connection, address)
            is_good = True
            return connection
        finally:
            # Also when this task is cancelled, whatever the connection has come to by then.
            if not is_good:
                connection.abort()

    def resume_reading(self) -> None:
        """The application has taken enough out."""
        if self.connection is not None:
            self.connection.resume_reading()
        self._migrator.resume_reading()

    def pump_soon(self) -> None:
        """Write at the end of this turn what many calls have queued."""
        if self.connection is not None:
            self.connection.pump_soon()
        self._migrator.pump_soon()

    def _hold(self, connection: Connection, address: Address) -> None:
        self.connection, self.address = connection, address
        connection.on_ended = self._turned.set
        if connection.ended.is_set():
            self._turned.set()
        self._reconnect.on_welcome(now_ms=connection.now_ms())

    def _adopt(self, connection: Connection, address: Address) -> None:
        """The client has moved: from now on it is looked for there first."""
        self._hold(connection, address)
        self._learn(address)
        # Who waits for the end of the old one has to wait for the end of this one.
        self._turned.set()

    def _learn(self, address: Address) -> None:
        """Another address, to be tried when the present one and those that were given have failed."""
        if address not in self._given:
            self._told.pop(address, None)
            self._told[address] = None
            while len(self._told) > _TOLD_MAX:
                del self._told[next(iter(self._told))]
        present = () if self.address is None else (self.address,)
        self._addresses = tuple(dict.fromkeys((*present, *self._given, *reversed(self._told))))
        self._turn = 0

    def _pass_on(self, changes: Changes) -> None:
        self._on_changes(changes)
        if changes.order is not None:
            self._migrator.on_order(changes.order)
        if changes.must_come_back and self.connection is not None:
            self.connection.fail("again", "durable subscriptions are claimed back")

    def _catch_up(self, connection: Connection) -> None:
        """What the application did since the welcome has still been told to the connection before this one."""
        connection.pump()
        if self._session.reading:
            connection.resume_reading()

    def _check_greeting(self, connection: Connection, address: Address) -> None:
        goodbye = connection.goodbye
        if goodbye is not None:
            if not self._reconnect.may_follow(goodbye.code):
                raise RefusedError("let this client in", goodbye.reason)
            raise ConnectionFailedError(f"{address}: {goodbye.reason} ({goodbye.code})")
        if connection.ended.is_set():
            raise ConnectionFailedError(f"{address}: {connection.problem}")
