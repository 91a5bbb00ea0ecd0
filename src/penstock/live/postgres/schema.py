"""Makes the tables of Penstock in a database, and checks that they are of the format that this version reads.

All are in the schema ``penstock``. They are made by whoever comes first; what several make at once waits for a lock.
"""

from __future__ import annotations

from typing import Final

import psycopg

from penstock.live.postgres.connecting import Connection, reason_of
from penstock.live.store.errors import StoreRefusedError, StoreVersionError

__all__ = ["FENCED", "FORMAT", "OVERTAKEN", "has_schema", "make_schema"]

FORMAT: Final = 1
"""The version of all tables together."""

_LOCK: Final = 0x70656E7374_6F636B
"""Held while tables are made."""

FENCED: Final = "PS001"
"""The error of ``penstock.enter`` when the epoch is over: somebody else has the store now."""
OVERTAKEN: Final = "PS002"
"""Its error when the store has had another number of commits, or another one was the latest."""

_HOLDINGS: Final = """
CREATE TABLE penstock.holdings (
    overlay text NOT NULL,
    broker text NOT NULL,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    life text NOT NULL,
    lease_until timestamptz NOT NULL,
    lease_ms bigint NOT NULL,
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

_STORES: Final = """
CREATE TABLE penstock.stores (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    overlay text NOT NULL,
    broker text NOT NULL,
    commits bigint NOT NULL,
    latest text NOT NULL,
    UNIQUE (overlay, broker)
) WITH (fillfactor = 20)
"""
"""One row for each broker that keeps its data here, with the number of its commits, and a mark of the latest one.

By these a commit in doubt is found.
"""

_PUBENDS: Final = """
CREATE TABLE penstock.pubends (
    store bigint NOT NULL,
    number integer NOT NULL,
    name text NOT NULL,
    lease bigint,
    last bigint,
    trimmed bigint NOT NULL,
    PRIMARY KEY (store, number)
)
"""

_BATCHES: Final = """
CREATE TABLE penstock.batches (
    store bigint NOT NULL,
    pubend integer NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    messages integer NOT NULL,
    bytes bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (store, pubend, first)
)
"""

_PUBLISHERS: Final = """
CREATE TABLE penstock.publishers (
    store bigint NOT NULL,
    pubend integer NOT NULL,
    publisher bytea NOT NULL,
    sequence bigint NOT NULL,
    tick bigint NOT NULL,
    PRIMARY KEY (store, pubend, publisher)
)
"""

_NAMED: Final = """
CREATE TABLE penstock.named (
    store bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    stored bytea NOT NULL,
    PRIMARY KEY (store, name)
)
"""

_KEPT: Final = """
CREATE TABLE penstock.kept (
    store bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    place bigint NOT NULL,
    start bytea,
    stored bytea NOT NULL,
    PRIMARY KEY (store, name)
)
"""
"""Kept records in the order of their places; the beginning that a start needs is apart only if that is not all."""

_ENTER: Final = """
CREATE FUNCTION penstock.enter(
    the_overlay text, the_broker text, the_epoch bigint, the_life text,
    the_commits bigint, the_latest text, is_again boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM penstock.holdings
        WHERE overlay = the_overlay AND broker = the_broker AND epoch = the_epoch AND life = the_life FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % is over', the_epoch USING ERRCODE = 'PS001';
    END IF;
    UPDATE penstock.stores SET commits = the_commits, latest = the_latest
        WHERE overlay = the_overlay AND broker = the_broker
        AND CASE WHEN is_again THEN commits = the_commits AND latest = the_latest ELSE commits = the_commits - 1 END;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'commit % does not follow', the_commits USING ERRCODE = 'PS002';
    END IF;
END
$$
"""
"""Begins a commit: fails unless the epoch is the caller's, and lets no other begin until the commit has ended.

The commit is the next one, or the latest one again, which proves where it has got to. Whoever repeats a commit may wait
here for the first try to end: if that was done, this one is overtaken, and must write nothing.
"""

# Not by to_regclass(), which may not know yet what was made while somebody waited for the lock.
_HAS_FORMAT: Final = (
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'penstock' AND tablename = 'format')"
)
_HAS_NAMESPACE: Final = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'penstock')"

_STATEMENTS: Final = (
    "CREATE TABLE penstock.format (version integer NOT NULL)",
    _HOLDINGS,
    _STORES,
    _PUBENDS,
    _BATCHES,
    # Bodies are packed; compressing them again would cost more than the disk.
    "ALTER TABLE penstock.batches ALTER COLUMN body SET STORAGE EXTERNAL",
    _PUBLISHERS,
    _NAMED,
    _KEPT,
    "ALTER TABLE penstock.kept ALTER COLUMN stored SET STORAGE EXTERNAL",
    _ENTER,
)


def make_schema(connection: Connection) -> None:
    """Make the tables if they are not there.

    Raises ``StoreVersionError`` if they are of another format, and ``StoreRefusedError`` if they may not be made.
    """
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if has_schema(connection):
                _check_format(connection)
                return
            if connection.execute(_HAS_NAMESPACE).fetchone() != (True,):
                # An operator may have made it for a user who has no right to make one.
                connection.execute("CREATE SCHEMA penstock")
            for statement in _STATEMENTS:
                connection.execute(statement)
            connection.execute("INSERT INTO penstock.format VALUES (%s)", (FORMAT,))
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise StoreRefusedError(f"the tables of penstock cannot be made: {reason_of(error)}") from error


def has_schema(connection: Connection) -> bool:
    """Whether the tables are there."""
    return connection.execute(_HAS_FORMAT).fetchone() == (True,)


def _check_format(connection: Connection) -> None:
    versions = [int(row[0]) for row in connection.execute("SELECT version FROM penstock.format")]
    if versions != [FORMAT]:
        said = ", ".join(str(each) for each in versions) or "unknown"
        raise StoreVersionError(f"the tables in schema penstock are of format {said}; this version reads {FORMAT}")
