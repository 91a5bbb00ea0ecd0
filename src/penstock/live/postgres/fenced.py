"""The one connection of a store, through which commits and reads count only within its epoch (decision 24).

A commit whose connection was lost, or whose wait for the standby was cancelled, is in doubt: the next connection tells
whether it was done, by the number of commits that the store has had. So a commit is over only when it is known to be
durable, and lasts as long as that takes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing, suppress
from secrets import token_hex
from typing import Any, Final, LiteralString

import psycopg

from penstock.live.postgres.connecting import (
    Connection,
    Cursor,
    WatchedConnection,
    connect,
    reason_of,
    store_application,
)
from penstock.live.postgres.errors import DatabaseError
from penstock.live.postgres.schema import FENCED, OVERTAKEN, make_schema
from penstock.live.store.errors import (
    StoreFailedError,
    StoreFencedError,
    StoreFullError,
    StoreLostError,
    StoreRefusedError,
)
from penstock.live.stores import OnWait
from penstock.live.tenure import Tenure

__all__ = ["FencedConnection", "replicas_of"]

_SAID_AFTER_S: Final = 1.0
"""How long the database may be silent before anybody is told."""
_RETRY_S: Final = 0.05
"""How often a database that is not there, or promises too little, is tried again."""

_FULL: Final = frozenset({"53000", "53100", "53200", "53400"})
"""Errors that say that the server lacks space or memory, which may pass."""
_PASSING: Final = frozenset({"25006", "40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "57P04"})
"""Errors after which another try, maybe at another server, may succeed."""

# A session may be set to less than its server promises.
_SETTINGS: Final = (
    "SELECT set_config('lock_timeout', %(lock_ms)s, false), set_config('synchronous_commit', CASE WHEN "
    "current_setting('synchronous_commit') IN ('off', 'local') THEN 'on' "
    "ELSE current_setting('synchronous_commit') END, false), "
    # A warning is how the server says that it did not wait for a standby.
    "set_config('client_min_messages', 'warning', false)"
)
_CLAIM: Final = (
    "INSERT INTO penstock.holdings VALUES (%(overlay)s, %(broker)s, 0, '', '', clock_timestamp(), 0, 0, '', 'epoch') "
    "ON CONFLICT DO NOTHING"
)
_EVICT: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = %(application)s AND pid <> pg_backend_pid()"
)
_BEGIN: Final = (
    "UPDATE penstock.holdings SET epoch = epoch + 1, holder = %(broker)s, life = %(life)s "
    "WHERE overlay = %(overlay)s AND broker = %(broker)s RETURNING epoch"
)
_HELD: Final = (
    "SELECT FROM penstock.holdings WHERE overlay = %(overlay)s AND broker = %(broker)s "
    "AND epoch = %(epoch)s AND life = %(life)s"
)
_MAKE: Final = (
    "INSERT INTO penstock.stores (overlay, broker, commits, latest) VALUES (%(overlay)s, %(broker)s, 0, '') "
    "ON CONFLICT DO NOTHING"
)
_LOOK: Final = "SELECT number, commits, latest FROM penstock.stores WHERE overlay = %(overlay)s AND broker = %(broker)s"
_ENTER: Final = (
    "SELECT penstock.enter(%(overlay)s, %(broker)s, %(epoch)s, %(life)s, %(commits)s, %(latest)s, %(again)s), "
    "current_setting('synchronous_standby_names'), current_setting('synchronous_commit')"
)
_PROMISE: Final = "SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit')"
_FENCE_BEGINS: Final = "SELECT found.* FROM penstock.holdings AS fence LEFT JOIN LATERAL ("
_FENCE_ENDS: Final = (
    ") AS found ON true WHERE fence.overlay = %(overlay)s AND fence.broker = %(broker)s "
    "AND fence.epoch = %(epoch)s AND fence.life = %(life)s"
)
_WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = %(application)s "
    "AND pid <> pg_backend_pid() AND wait_event = 'SyncRep'"
)


class FencedConnection:
    """The connection of one store, which is made anew whenever it is lost."""

    def __init__(
        self, url: str, overlay: str, broker: str, *, answer_ms: int, replicas_min: int, on_wait: OnWait
    ) -> None:
        self._url, self._answer_ms = url, answer_ms
        self._replicas_min = replicas_min
        self._tell = on_wait
        self._application = store_application(overlay, broker)
        self._names = {"overlay": overlay, "broker": broker, "application": self._application}
        self._connection: WatchedConnection | None = None
        self._epoch = 0
        self._life = ""
        self._commits = 0
        """How many commits the store has had, as far as is known."""
        self._latest = ""
        """The mark of the commit under way: another process may have made as many commits."""
        self._is_unreplicated = False
        """Whether the database has warned that it did not wait for its standby."""
        self._reason = ""
        """Why the connection was given up, or could not be made, the last time."""
        self.number = 0
        """The key of the store in all tables."""
        self.created = False
        """Whether the store was new."""
        self.replicas = 0
        """How many synchronous standbys the last commit has waited for."""

    # Opening and closing.

    def open(self, tenure: Tenure | None) -> None:
        """Connect for an epoch that the caller holds; None to begin the next one, which ends those before.

        Raises ``StoreRefusedError``.
        """
        try:
            self._connection = connection = self._made()
            make_schema(connection)
            self._own(connection, tenure)
            self._find_store(connection)
            # What an earlier life has left in doubt is durable, too, once this is.
            self.commit(lambda _: None)
        except (DatabaseError, StoreFailedError, psycopg.Error) as error:
            self.close()
            raise StoreRefusedError(f"the store in the database cannot be opened: {self._explained(error)}") from error
        except BaseException:
            self.close()
            raise

    def _explained(self, error: Exception) -> str:
        """What has gone wrong; of a database that did not answer, whether it waits for its standby."""
        self._reason = ""
        if isinstance(error, DatabaseError):
            with suppress(DatabaseError, psycopg.Error), closing(self._made()) as connection:
                self._explain(connection)
        return self._reason or _said(error)

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _own(self, connection: Connection, tenure: Tenure | None) -> None:
        if tenure is None:
            self._life = token_hex(8)
            connection.execute(_CLAIM, self._names)
            # A commit that was stopped in the middle would keep the row locked.
            connection.execute(_EVICT, self._names)
            found = connection.execute(_BEGIN, {**self._names, "life": self._life}).fetchone()
            assert found is not None, "the row was made before"
            self._epoch = int(found[0])
            return
        self._epoch, self._life = tenure.epoch, tenure.life
        values = {**self._names, "epoch": self._epoch, "life": self._life}
        if connection.execute(_HELD, values).fetchone() is None:
            raise StoreRefusedError(
                f"epoch {self._epoch} of {self._names['broker']} is over: somebody else has taken it"
            )

    def _find_store(self, connection: Connection) -> None:
        self.created = connection.execute(_MAKE, self._names).rowcount == 1
        found = connection.execute(_LOOK, self._names).fetchone()
        assert found is not None, "the row was made before"
        self.number, self._commits = int(found[0]), int(found[1])

    # Commits.

    def commit(self, write: Callable[[Connection], None]) -> None:
        """Make durable what ``write`` does, which may be called more than once; returns when that is known.

        Raises ``StoreFullError`` if there is no space, and nothing was written; after any other error only opening the
        store anew can tell what is durable.
        """
        is_in_doubt = False
        self._latest = token_hex(8)
        while True:
            connection = self._connected()
            try:
                if not (is_in_doubt and self._is_done(connection)):
                    is_in_doubt = True
                    self._write(connection, write)
                self._prove(connection)
                self._commits += 1
                return
            except (DatabaseError, psycopg.Error) as error:
                if self._is_full(error):
                    said = f"the database is full: {_said(error)}; nothing of the commit was written"
                    raise StoreFullError(said) from error
                self._give_up(error)

    def _write(self, connection: Connection, write: Callable[[Connection], None]) -> None:
        self._is_unreplicated = False
        with connection.pipeline():
            connection.execute("BEGIN")
            before = self._enter(connection, is_again=False)
            write(connection)
            connection.execute("COMMIT")
            after = connection.execute(_PROMISE)
        self._note_promise(before, after)

    def _enter(self, connection: Connection, *, is_again: bool) -> Cursor:
        """Begin the commit under way, or enter it again; returns what the server promised then."""
        commit = {"commits": self._commits + 1, "latest": self._latest, "again": is_again}
        return connection.execute(_ENTER, {**self._names, "epoch": self._epoch, "life": self._life, **commit})

    def _prove(self, connection: Connection) -> None:
        """Return once the last commit has reached as many standbys as it must: a later one that has proves it."""
        while self._is_unreplicated or self.replicas < self._replicas_min:
            if self.replicas < self._replicas_min:
                self._wait(
                    f"the database waits for {self.replicas} standbys with each commit, and replicas_min is "
                    f"{self._replicas_min}"
                )
            self._is_unreplicated = False
            with connection.pipeline():
                connection.execute("BEGIN")
                before = self._enter(connection, is_again=True)
                connection.execute("COMMIT")
                after = connection.execute(_PROMISE)
            self._note_promise(before, after)

    def _note_promise(self, before: Cursor, after: Cursor) -> None:
        """Note for how many standbys a commit has waited: the settings may have changed meanwhile."""
        promises = [before.fetchone(), after.fetchone()]
        self.replicas = min(replicas_of(*row[-2:]) for row in promises if row is not None)

    def _is_done(self, connection: Connection) -> bool:
        """Whether the commit in doubt has happened; then it may still have to reach the standby."""
        commits, latest = self._commits_found(connection)
        if (commits, latest) == (self._commits + 1, self._latest):
            self._is_unreplicated = True
            return True
        self._check_not_less(commits)
        if commits > self._commits:
            raise StoreFencedError("somebody else has written to the store")
        return False

    def _commits_found(self, connection: Connection) -> tuple[int, str]:
        """How many commits the store has had, and the mark of the latest one."""
        found = connection.execute(_LOOK, self._names).fetchone()
        return (-1, "") if found is None else (int(found[1]), str(found[2]))

    def _check_not_less(self, commits: int) -> None:
        if commits < self._commits:
            raise StoreLostError(
                f"the database has lost commits: it has {max(0, commits)} of this store, which has made {self._commits}"
            )

    def _is_full(self, error: Exception) -> bool:
        """Whether nothing was written because the server lacks space or memory."""
        connection = self._connection
        if not isinstance(error, psycopg.Error) or error.sqlstate not in _FULL or connection is None:
            return False
        try:
            connection.rollback()
            return self._commits_found(connection)[0] == self._commits
        except psycopg.Error:
            return False

    # Reads.

    def rows(self, query: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query on the tables of the store, whose first column is never null; in any order.

        They are found beside the row of the epoch: what is read from a store that belongs to somebody else now may have
        been trimmed by the other. Raises ``StoreFencedError``.
        """
        fence = {"epoch": self._epoch, "life": self._life, "store": self.number}
        while True:
            connection = self._connected()
            try:
                found = connection.execute(_FENCE_BEGINS + query + _FENCE_ENDS, {**self._names, **fence, **values})
                rows = found.fetchall()
            except (DatabaseError, psycopg.Error) as error:
                self._give_up(error)
                continue
            if not rows:
                raise self._fenced()
            return [row for row in rows if row[0] is not None]

    # Connecting.

    def _connected(self) -> Connection:
        """The connection, made anew if it was lost, however long that takes."""
        while self._connection is None or self._connection.closed:
            try:
                connection = self._made()
            except (DatabaseError, psycopg.Error) as error:
                self._wait(_said(error))
                continue
            try:
                self._explain(connection)
                # Without what was lost, a read would take it for silence.
                self._check_not_less(self._commits_found(connection)[0])
            except (DatabaseError, psycopg.Error) as error:
                connection.close()
                self._wait(_said(error))
                continue
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _made(self) -> WatchedConnection:
        connection = connect(self._url, application=self._application, answer_ms=self._answer_ms)
        connection.on_silence = self._on_silence
        connection.add_notice_handler(self._on_notice)
        try:
            # Who gives up waiting for a row must not get it later.
            connection.execute(_SETTINGS, {"lock_ms": str(self._answer_ms * 3 // 4)})
        except BaseException:
            connection.close()
            raise
        return connection

    def _explain(self, connection: Connection) -> None:
        """Find out why the database did not answer, for those who wait."""
        found = connection.execute(_WAITING, self._names).fetchone()
        if found is not None and found[0]:
            self._reason = f"the database at {connection.info.host}:{connection.info.port} waits for its standby"
            self._tell(self._reason)

    def _give_up(self, error: Exception) -> None:
        """Drop the connection after an error that another one may not have; raises if that cannot help."""
        self.close()
        sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
        if sqlstate == FENCED:
            raise self._fenced() from error
        said = _said(error)
        is_lost = isinstance(error, DatabaseError | psycopg.OperationalError | psycopg.InterfaceError)
        if not is_lost and sqlstate not in _PASSING | _FULL | {OVERTAKEN}:
            raise StoreFailedError(f"the database refused what was asked: {said}") from error
        self._wait(said)

    def _fenced(self) -> StoreFencedError:
        return StoreFencedError(f"epoch {self._epoch} is over: somebody else has taken the store")

    def _wait(self, reason: str) -> None:
        self._reason = reason
        self._tell(reason)
        time.sleep(_RETRY_S)

    def _on_silence(self, silent_s: float) -> None:
        if silent_s >= self._answer_ms / 1_000:
            raise DatabaseError(f"the database did not answer within {self._answer_ms} ms")
        if silent_s >= _SAID_AFTER_S:
            self._tell(self._reason or "the database takes long to answer")

    def _on_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        # The one warning that these statements can bring: the wait for the standby was cancelled.
        if notice.severity_nonlocalized == "WARNING":
            self._is_unreplicated = True


def _said(error: Exception) -> str:
    return reason_of(error) if isinstance(error, psycopg.Error) else str(error)


def replicas_of(standby_names: str, synchronous_commit: str) -> int:
    """How many standbys have a commit on disk before it is acknowledged, by the settings of the primary."""
    names = standby_names.strip()
    if not names or synchronous_commit not in ("on", "remote_apply"):
        return 0
    counted = re.match(r"(?:(?:FIRST|ANY)\s*)?(\d+)\s*\(", names, re.IGNORECASE)
    return int(counted.group(1)) if counted else 1
