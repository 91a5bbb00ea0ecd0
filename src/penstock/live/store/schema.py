"""Makes the tables of a new store, and brings those of an older format up to date."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final
from zlib import crc32

from penstock.live.store.kept import KEPT_SCHEMA
from penstock.live.store.totals import (
    ROW_ERRORS,
    TOTALS_SCHEMA,
    Totals,
    batch_checksum,
    doubtful_tally,
    kept_checksum,
    named_checksum,
    pubend_checksum,
    publisher_checksum,
    row_problem,
    schema_checksum,
)

__all__ = ["APPLICATION_ID", "FORMAT_OLDEST", "FORMAT_VERSION", "bring_up_to_date", "make_tables", "old_problems"]

FORMAT_VERSION: Final = 3
"""Grows with every change that an older Penstock could not read; 2 brought kept records, 3 brought totals."""
FORMAT_OLDEST: Final = 1
"""Stores from this format on are brought up to date when they are opened."""
APPLICATION_ID: Final = 0x50454E53

_PUBENDS: Final = """CREATE TABLE pubends (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, lease INTEGER, last INTEGER, trimmed INTEGER NOT NULL,
    checksum INTEGER NOT NULL
)"""
# The index of batches is separate from their bytes: totals and ranges are found without reading messages, and the ticks
# of a damaged batch are still known. A body begins with its checksum, repeated here so that no other body can pass.
_BATCHES: Final = """CREATE TABLE batches (
    pubend INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL, place INTEGER NOT NULL, body INTEGER NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (pubend, first)
) WITHOUT ROWID"""
_PUBLISHERS: Final = """CREATE TABLE publishers (
    pubend INTEGER NOT NULL, publisher BLOB NOT NULL, sequence INTEGER NOT NULL, tick INTEGER NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (pubend, publisher)
) WITHOUT ROWID"""
_SCHEMA: Final = (
    "CREATE TABLE owner (overlay TEXT NOT NULL, broker TEXT NOT NULL)",
    TOTALS_SCHEMA,
    _PUBENDS,
    _BATCHES,
    "CREATE TABLE bodies (place INTEGER PRIMARY KEY, stored BLOB NOT NULL)",
    _PUBLISHERS,
    "CREATE TABLE named (name TEXT PRIMARY KEY, stored BLOB NOT NULL) WITHOUT ROWID",
    *KEPT_SCHEMA,
)

# Batches that are out of order or overlap: before format 3 the index had no checksums, but most damage shows here.
_DISORDER: Final = """
SELECT count(*) FROM (
    SELECT first, last, messages, lag(last) OVER (PARTITION BY pubend ORDER BY first) AS before FROM batches
) WHERE first > last OR first <= before OR messages NOT BETWEEN 1 AND last - first + 1
"""
_STRAYS: Final = "SELECT count(*) FROM batches WHERE pubend NOT IN (SELECT number FROM pubends)"


def make_tables(database: sqlite3.Connection, overlay: str, broker: str) -> None:
    """Make the tables of a new database, within a transaction."""
    for statement in _SCHEMA:
        database.execute(statement)
    database.execute("INSERT INTO owner VALUES (?, ?)", (overlay, broker))
    database.execute(f"PRAGMA application_id={APPLICATION_ID}")
    _seal(database, Totals())


def _seal(database: sqlite3.Connection, totals: Totals) -> None:
    """Write the first totals of a store; the definitions of tables do not change from here on."""
    totals.store_id = os.urandom(16)
    totals.commits = 1
    totals.schema = schema_checksum(database)
    database.execute("INSERT INTO totals VALUES (?)", (totals.encode(),))
    database.execute(f"PRAGMA user_version={FORMAT_VERSION}")


def old_problems(database: sqlite3.Connection) -> list[str]:
    """Visible damage in the index of a store of an older format, which has no checksums."""
    try:
        if database.execute("SELECT count(*) FROM sqlite_schema WHERE name='totals'").fetchone() != (0,):
            return ["the number of its format is damaged"]
        (disorder,) = database.execute(_DISORDER).fetchone()
        (strays,) = database.execute(_STRAYS).fetchone()
    except ROW_ERRORS as error:
        return [f"its index cannot be read: {row_problem(error)}"]
    return [f"{disorder + strays} batches are out of order"] if disorder or strays else []


def bring_up_to_date(database: sqlite3.Connection) -> None:
    """Convert a store of an older format; an older Penstock cannot open it from then on."""
    database.execute("BEGIN EXCLUSIVE")
    totals = Totals()
    database.execute(TOTALS_SCHEMA)
    for statement in _kept_tables(database, totals):
        database.execute(statement)
    _copy(database, "pubends", _PUBENDS, _pubends(database, totals))
    _copy(database, "batches", _BATCHES, _batches(database, totals))
    _copy(database, "publishers", _PUBLISHERS, _publishers(database, totals))
    for name, stored in database.execute("SELECT name, stored FROM named"):
        totals.named.add(named_checksum(name, stored))
    _seal(database, totals)
    database.execute("COMMIT")


def _copy(database: sqlite3.Connection, table: str, schema: str, rows: Iterator[tuple[Any, ...]]) -> None:
    """Recreate a table with these rows, made from the old ones."""
    database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    database.execute(schema)
    first = next(rows, None)
    if first is not None:
        insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(first))})"  # noqa: S608 - names of our own tables
        database.execute(insert, first)
        database.executemany(insert, rows)
    database.execute(f"DROP TABLE old_{table}")


def _pubends(database: sqlite3.Connection, totals: Totals) -> Iterator[tuple[Any, ...]]:
    for row in database.execute("SELECT number, name, lease, last, trimmed FROM old_pubends").fetchall():
        checksum = pubend_checksum(*row)
        totals.pubends.add(checksum)
        totals.highest_tick = max(totals.highest_tick, *(each + 2**63 for each in row[2:4] if each is not None), 0)
        yield (*row, checksum)


def _batches(database: sqlite3.Connection, totals: Totals) -> Iterator[tuple[Any, ...]]:
    for found in database.execute("SELECT pubend, first, last, messages, bytes, place FROM old_batches"):
        row = (*found, _body_checksum(database, found[5]))
        checksum = batch_checksum(row)
        totals.batches.add(checksum)
        totals.highest_tick = max(totals.highest_tick, found[2] + 2**63)
        yield (*row, checksum)


def _body_checksum(database: sqlite3.Connection, place: int) -> int:
    """The checksum that a body begins with; 0 for one that cannot be read, which stays damaged."""
    with suppress(*ROW_ERRORS), closing(database.blobopen("bodies", "stored", place, readonly=True)) as body:
        return int.from_bytes(body.read(4))
    return 0


def _publishers(database: sqlite3.Connection, totals: Totals) -> Iterator[tuple[Any, ...]]:
    for row in database.execute("SELECT pubend, publisher, sequence, tick FROM old_publishers"):
        checksum = publisher_checksum(*row)
        totals.publishers.add(checksum)
        yield (*row, checksum)


def _kept_tables(database: sqlite3.Connection, totals: Totals) -> tuple[str, ...]:
    """Bring kept records up to date; returns the statements that make the missing tables."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
    if "kept_total" not in tables and "kept" not in tables:
        return KEPT_SCHEMA
    try:
        rows = database.execute("SELECT name, place, checksum FROM kept").fetchall()
        digest = 0
        for name, place, checksum in rows:
            if checksum != crc32(place.to_bytes(8), crc32(name.encode())):
                raise ValueError("a row was changed")
            digest ^= checksum
        if database.execute("SELECT records, digest FROM kept_total").fetchall() != [(len(rows), digest)]:
            raise ValueError("rows are missing")
    except ROW_ERRORS:
        # The store puts them aside, and reports it, when it finds this tally.
        totals.kept = doubtful_tally()
        return ()
    for name, place, _ in rows:
        checksum = kept_checksum(name, place)
        totals.kept.add(checksum)
        totals.kept_place = max(totals.kept_place, place)
        database.execute("UPDATE kept SET checksum=? WHERE name=?", (checksum, name))
    database.execute("DROP TABLE kept_total")
    return ()
