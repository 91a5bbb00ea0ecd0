"""Makes the tables of Penstock in a database, and checks that they are of the format that this version reads.

All are in the schema ``penstock``. They are made by whoever comes first; what several make at once waits for a lock.
"""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg

from penstock.live.postgres.connecting import Connection, reason_of
from penstock.live.store.errors import StoreRefusedError, StoreVersionError

__all__ = ["FORMAT", "HOLDINGS", "make_schema"]

FORMAT: Final = 1
"""The version of all tables together."""

_LOCK: Final = 0x70656E7374_6F636B
"""Held while tables are made."""

HOLDINGS: Final = """
CREATE TABLE IF NOT EXISTS penstock.holdings (
    overlay text NOT NULL,
    broker text NOT NULL,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    life text NOT NULL,
    lease_until timestamptz NOT NULL,
    timeline integer NOT NULL,
    wanted text NOT NULL,
    wanted_until timestamptz NOT NULL,
    PRIMARY KEY (overlay, broker),
    -- So that commits can lock the epoch (FOR KEY SHARE), and neither wait for a renewal nor keep it waiting.
    UNIQUE (overlay, broker, epoch)
)
"""
"""Who runs each broker whose data is here: until when, and in which epoch; the rows that fence commits.

A lease that was set on another timeline, before a standby was promoted, was measured by another clock.
"""

_FORMAT: Final = (
    "CREATE TABLE IF NOT EXISTS penstock.format (version integer NOT NULL)",
    "INSERT INTO penstock.format SELECT %s WHERE NOT EXISTS (SELECT FROM penstock.format)",
)


def make_schema(connection: Connection, *tables: LiteralString) -> None:
    """Make the tables that are missing: those that keep leases, and others by their statements.

    Raises ``StoreVersionError`` if they are of another format, and ``StoreRefusedError`` if they may not be made.
    """
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            found = connection.execute("SELECT to_regnamespace('penstock') IS NOT NULL").fetchone()
            if found != (True,):
                # Asked first: "IF NOT EXISTS" needs the right to make schemas even if it is there.
                connection.execute("CREATE SCHEMA penstock")
            for statement in _FORMAT:
                connection.execute(statement, (FORMAT,) if "%s" in statement else None)
            _check_format(connection)
            for statement in (HOLDINGS, *tables):
                connection.execute(statement)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise StoreRefusedError(f"the tables of penstock cannot be made: {reason_of(error)}") from error


def _check_format(connection: Connection) -> None:
    versions = [int(row[0]) for row in connection.execute("SELECT version FROM penstock.format")]
    if versions != [FORMAT]:
        said = ", ".join(str(each) for each in versions)
        raise StoreVersionError(f"the tables in schema penstock are of format {said}; this version reads {FORMAT}")
