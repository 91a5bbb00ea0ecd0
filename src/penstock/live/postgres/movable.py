"""A store in a database as the end of a copy: what a broker does not need, and must not do to its own data."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Final

import psycopg

from penstock.live.postgres.connecting import Connection, connect, reason_of, store_application
from penstock.live.postgres.errors import DatabaseError
from penstock.live.postgres.place import DatabasePlace
from penstock.live.postgres.schema import has_schema
from penstock.live.postgres.store import DatabaseStore
from penstock.live.store.errors import StoreLockedError, StoreRefusedError
from penstock.live.store.pubend_state import PubendState, unsigned
from penstock.live.store.publishers import PublisherMark
from penstock.live.store.sealed import seal
from penstock.live.stores import COPYING, OnWait

__all__ = ["MovableDatabasePlace", "MovableDatabaseStore"]

_PUBLISHERS: Final = (
    "SELECT tick, publisher, sequence FROM penstock.publishers WHERE store = %(store)s AND pubend = %(pubend)s"
)
_TABLES: Final = ("pubends", "batches", "publishers", "named", "kept")
_STORES: Final = "SELECT broker FROM penstock.stores WHERE overlay = %s ORDER BY broker"
_IN_USE: Final = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
_HOLDER: Final = (
    "SELECT holder FROM penstock.holdings "
    "WHERE overlay = %s AND broker = %s AND holder <> '' AND lease_until > clock_timestamp()"
)


class MovableDatabaseStore(DatabaseStore):
    """The store of a broker that does not run."""

    def publishers(self, pubend: str) -> list[PublisherMark]:
        """All publishers that are remembered, in the order of their ticks."""
        rows = self._connection.rows(_PUBLISHERS, pubend=self._state(pubend).number)
        return sorted(PublisherMark(unsigned(tick), publisher, sequence) for tick, publisher, sequence in rows)

    def erase(self) -> None:
        """Drop what a copy that was interrupted has left; the mark of the copy stays."""

        def write(connection: Connection) -> None:
            for table in _TABLES:
                connection.execute(f"DELETE FROM penstock.{table} WHERE store = %s", (self._connection.number,))  # noqa: S608
            mark = (self._connection.number, COPYING, seal(COPYING, b"1"))
            connection.execute("INSERT INTO penstock.named VALUES (%s, %s, %b)", mark)

        self._connection.commit(write)
        self._states: dict[str, PubendState] = {}


@dataclass(slots=True, frozen=True)
class MovableDatabasePlace(DatabasePlace):
    """A database of which one store is to be copied, or made by a copy."""

    def check(self, *, is_source: bool) -> None:
        """Raise ``StoreRefusedError`` if the store is in use, as opening would end that, or if a source is missing."""
        try:
            with closing(connect(self.url, application="penstock store copy", answer_ms=self.answer_ms)) as connection:
                self._check(connection, is_source=is_source)
        except (DatabaseError, psycopg.Error) as error:
            reason = reason_of(error) if isinstance(error, psycopg.Error) else str(error)
            raise StoreRefusedError(f"the database cannot be asked: {reason}") from error

    def _check(self, connection: Connection, *, is_source: bool) -> None:
        known = [str(row[0]) for row in connection.execute(_STORES, (self.overlay,))] if has_schema(connection) else []
        if self.broker not in known:
            if is_source:
                raise StoreRefusedError(
                    f"the database has no store of broker {self.broker!r} of overlay {self.overlay!r}; "
                    f"of this overlay it has: {', '.join(known) or 'none'}"
                )
            return
        connections = connection.execute(_IN_USE, (store_application(self.overlay, self.broker),)).fetchone()
        holder = connection.execute(_HOLDER, (self.overlay, self.broker)).fetchone()
        if holder is not None or (connections is not None and connections[0]):
            by = f" by {holder[0]}" if holder is not None else ""
            raise StoreLockedError(f"the store of {self.broker} in the database is in use{by}: stop its brokers first")

    def open(self, on_wait: OnWait) -> MovableDatabaseStore:
        """Open or make the store in an epoch of its own, so that whoever had it can write no more."""
        return self._opened(MovableDatabaseStore, on_wait)
