"""Leases in the database: who runs the home of a pubend, until when, and in which epoch (decision 24).

Each question is a transaction of its own, with one connection that is made when it is needed. Its answers are for
``broker.candidate``. They count only once they are durable at the standbys, too: otherwise somebody who was cut off
together with a former primary would believe that it still has the home.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

import psycopg
from psycopg import Notify, sql

from penstock.broker.candidate import Held, Lost, Renewed, Taken
from penstock.live.postgres.connecting import (
    Connection,
    answer_within,
    connect,
    reason_of,
    store_application,
    timeline_of,
)
from penstock.live.postgres.errors import DatabaseError, DatabaseUnreachableError
from penstock.live.postgres.schema import has_schema, make_schema

__all__ = ["Holdings"]

_WANTED_LEASES: Final = 3
"""For how many leases the wish lasts that a home moves to a candidate.

Once the home is given up, it is kept for that one for a single lease: then it is anybody's, as it may have died.
"""

_MAKE: Final = (
    "INSERT INTO penstock.holdings VALUES (%(overlay)s, %(home)s, 0, '', '', clock_timestamp(), 0, 0, '', 'epoch') "
    "ON CONFLICT DO NOTHING"
)
_LOOK: Final = (
    "SELECT epoch, holder, life, lease_ms, timeline, wanted, wanted_until > clock_timestamp(), "
    "ceil(1000 * extract(epoch FROM lease_until - clock_timestamp()))::bigint, xmin::text "
    "FROM penstock.holdings WHERE overlay = %(overlay)s AND broker = %(home)s"
)
_EVICT: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = %(store)s"
)
_TAKE: Final = (
    "UPDATE penstock.holdings SET epoch = epoch + 1, holder = %(holder)s, life = %(life)s, timeline = %(timeline)s, "
    "lease_ms = %(lease_ms)s, lease_until = clock_timestamp() + %(lease_ms)s * interval '1 ms', "
    "wanted = '', wanted_until = 'epoch' "
    # Not if anybody changed the row since we looked at it.
    "WHERE overlay = %(overlay)s AND broker = %(home)s AND xmin::text = %(version)s RETURNING epoch"
)
_RENEW: Final = (
    "UPDATE penstock.holdings SET timeline = %(timeline)s, "
    "lease_ms = %(lease_ms)s, lease_until = clock_timestamp() + %(lease_ms)s * interval '1 ms' "
    # A database that has lost a take-over gives the same epoch away again.
    "WHERE overlay = %(overlay)s AND broker = %(home)s AND epoch = %(epoch)s AND life = %(life)s "
    "RETURNING CASE WHEN wanted_until > clock_timestamp() THEN wanted ELSE '' END"
)
_RELEASE: Final = (
    "UPDATE penstock.holdings SET holder = '', lease_until = clock_timestamp(), wanted = %(to)s, "
    "wanted_until = clock_timestamp() + %(wanted_ms)s * interval '1 ms' "
    "WHERE overlay = %(overlay)s AND broker = %(home)s AND epoch = %(epoch)s AND life = %(life)s"
)
_WANT: Final = (
    "UPDATE penstock.holdings SET wanted = %(to)s, "
    "wanted_until = clock_timestamp() + %(wanted_ms)s * interval '1 ms' "
    "WHERE overlay = %(overlay)s AND broker = %(home)s"
)
_WAITING: Final = (
    "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'"
)
_TELL: Final = "SELECT pg_notify(%(channel)s, '')"
_CHANNEL_CHARS_MAX: Final = 63


@dataclass(slots=True, frozen=True)
class _Row:
    """What the database knows of a home."""

    epoch: int
    holder: str
    life: str
    """Which process of the holder took it, or part of one."""
    lease_ms: int
    """The length of the lease, which the holder has from its own overlay file."""
    timeline: int
    """The timeline of the primary by whose clock the lease was measured."""
    wanted: str
    is_reserved: bool
    """Whether the home is kept for the wanted candidate for some more time."""
    remaining_ms: int
    """How long the lease has still to run; negative if it is over."""
    version: str
    """Another one after each change."""


class Holdings:
    """The row of one home, as one candidate sees it; used by one thread at a time."""

    def __init__(self, url: str, *, overlay: str, home: str, answer_ms: int) -> None:
        self._url, self._answer_ms = url, answer_ms
        self._home = home
        self._names = {"overlay": overlay, "home": home}
        # Whoever shares the name of a channel is merely woken once too often.
        self._channel = f"penstock {overlay} {home}"[-_CHANNEL_CHARS_MAX:]
        self._store = store_application(overlay, home)
        self.life: Final = token_hex(8)
        """Tells what this candidate has taken in this life from what others have, and it itself in former lives."""
        self._connection: Connection | None = None
        self._timeline = 0
        self._is_doubtful = False
        """Whether the database has warned about the transaction under way."""
        self._waits = False
        """Whether somebody waited for a standby when the connection was made."""
        self._seen: tuple[str, float] | None = None
        """The version of the row that was found last, and when it was found first."""

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def connect(self) -> None:
        """Make the connection, if there is none."""
        self._connected()

    def fileno(self) -> int:
        """The socket that becomes readable when the database has news of the home; -1 if there is none."""
        connection = self._connection
        return -1 if connection is None or connection.closed else connection.fileno()

    def take(self, holder: str, *, lease_ms: int, place: int, stagger_ms: int) -> Taken | Held:
        """Take the home, if its lease ran out long enough ago for this place among the candidates.

        Whoever asks does not run the home, so it may have what it holds itself at once: it was cut off, or the answer
        to an earlier question was lost.
        """
        row = self._row()
        found = self._held(row)
        is_mine = bool(row.holder) and row.life == self.life
        is_kept_for_me = row.is_reserved and row.wanted == holder
        # Nor longer than a lease by our own clock.
        is_kept = row.is_reserved and not is_kept_for_me and self._seen_for_ms(row) < lease_ms
        is_early = self._remaining_ms(row) + place * stagger_ms > 0 and not is_kept_for_me
        if is_kept or (not is_mine and (found.holder or is_early)):
            return found
        if row.holder:
            # A holder that was stopped or cut off in the middle of a commit would keep the row locked.
            self._ask(_EVICT, store=self._store)
        rows = self._ask(
            _TAKE, holder=holder, life=self.life, lease_ms=lease_ms, version=row.version, timeline=self._timeline
        )
        if not rows:
            # Another one was faster.
            return self.look()
        return Taken(int(rows[0][0]))

    def renew(self, epoch: int, *, lease_ms: int) -> Renewed | Lost:
        """Let the lease of this epoch begin again."""
        rows = self._ask(_RENEW, epoch=epoch, life=self.life, lease_ms=lease_ms, timeline=self._timeline)
        return Renewed(str(rows[0][0])) if rows else Lost()

    def release(self, epoch: int, *, to: str, lease_ms: int) -> None:
        """Give the home up, if it is still in this epoch: to a candidate, for whom it is kept a while, or to all."""
        self._ask(_RELEASE, epoch=epoch, life=self.life, to=to, wanted_ms=lease_ms if to else 0)
        self._ask(_TELL, channel=self._channel)

    def want(self, to: str, *, lease_ms: int) -> None:
        """Ask its holder to give the home to a candidate."""
        self._ask(_WANT, to=to, wanted_ms=_WANTED_LEASES * lease_ms)
        self._ask(_TELL, channel=self._channel)

    def look(self) -> Held:
        """Who holds the home."""
        return self._held(self._row())

    def _held(self, row: _Row) -> Held:
        remaining_ms = self._remaining_ms(row) if row.holder else 0
        wanted = row.wanted if row.is_reserved else ""
        return Held(row.holder if remaining_ms > 0 else "", row.epoch, max(0, remaining_ms), wanted)

    def _remaining_ms(self, row: _Row) -> int:
        """How long the holder may still believe in its lease; negative if it has been over for some time."""
        # Whatever the clock of the database says: it may have been set back, or be another one since a promotion.
        at_most_ms = row.lease_ms - self._seen_for_ms(row)
        if row.holder and row.timeline != self._timeline:
            return at_most_ms
        return min(row.remaining_ms, at_most_ms)

    def _seen_for_ms(self, row: _Row) -> int:
        """For how long the row has not changed."""
        now_s = time.monotonic()
        if self._seen is None or self._seen[0] != row.version:
            self._seen = row.version, now_s
        return int(1_000 * (now_s - self._seen[1]))

    def _row(self) -> _Row:
        rows = self._ask(_LOOK)
        if not rows:
            self._ask(_MAKE)
            rows = self._ask(_LOOK)
        return _Row(*rows[0])

    def _ask(self, question: str, **values: Any) -> list[tuple[Any, ...]]:
        """One statement and its rows; raises ``DatabaseError`` if it is not known to be durable."""
        connection = self._connected()
        self._is_doubtful = False
        try:
            with answer_within(connection, self._answer_ms):
                cursor = connection.execute(sql.SQL(question), {**self._names, **values})
                rows = cursor.fetchall() if cursor.description else []
        except (DatabaseError, psycopg.errors.LockNotAvailable) as error:
            place = f"{connection.info.host}:{connection.info.port}" if self._waits else ""
            self.close()
            if self._waits:
                # An earlier question, which was given up, keeps the row until the standby has it.
                raise DatabaseError(f"the database at {place} waits for its standby") from error
            if isinstance(error, DatabaseError):
                raise
            raise self._refused(error) from error
        except psycopg.Error as error:
            self.close()
            raise self._refused(error) from error
        if self._is_doubtful:
            raise DatabaseError("the database did not wait for its standby, so its answer does not count")
        return rows

    def _refused(self, error: psycopg.Error) -> DatabaseError:
        return DatabaseError(f"the database could not say who holds {self._home}: {reason_of(error)}")

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            connection = connect(self._url, application=f"penstock {self._home}", answer_ms=self._answer_ms)
            try:
                with answer_within(connection, self._answer_ms):
                    self._prepare(connection)
            except psycopg.OperationalError as error:
                connection.close()
                raise DatabaseUnreachableError(f"the database went away: {reason_of(error)}") from error
            except psycopg.Error as error:
                connection.close()
                raise self._refused(error) from error
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: Connection) -> None:
        if not has_schema(connection):
            make_schema(connection)
        self._timeline = timeline_of(connection)
        # A warning is how the server says that it did not wait for a standby.
        connection.execute("SELECT set_config('client_min_messages', 'warning', false)")
        # A session may be set to less than its server is; leases are as durable as what they protect.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
        )
        # Who gives up waiting for the row must not get it later, when nobody is there any more to know of it.
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (str(self._answer_ms * 3 // 4),))
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._waits = connection.execute(_WAITING).fetchone() == (True,)
        connection.add_notice_handler(self._on_notice)
        connection.add_notify_handler(_on_notify)

    def _on_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        # The one warning that these statements can bring: the wait for the standby was cancelled.
        if notice.severity_nonlocalized == "WARNING":
            self._is_doubtful = True


def _on_notify(_: Notify) -> None:
    """Whoever asked was woken by it already; without a handler the driver would gather them."""
