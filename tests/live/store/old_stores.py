"""Stores of formats 1 and 2, made without the code under test: tables, batches and checksums are written out here.

Format 3 is kept as files, in ``kept/format-3``.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from struct import pack
from zlib import crc32

FORMAT_1 = (
    "CREATE TABLE owner (overlay TEXT NOT NULL, broker TEXT NOT NULL)",
    """CREATE TABLE pubends (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, lease INTEGER, last INTEGER, trimmed INTEGER NOT NULL
    )""",
    """CREATE TABLE batches (
        pubend INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, messages INTEGER NOT NULL,
        bytes INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (pubend, first)
    ) WITHOUT ROWID""",
    "CREATE TABLE bodies (place INTEGER PRIMARY KEY, stored BLOB NOT NULL)",
    """CREATE TABLE publishers (
        pubend INTEGER NOT NULL, publisher BLOB NOT NULL, sequence INTEGER NOT NULL, tick INTEGER NOT NULL,
        PRIMARY KEY (pubend, publisher)
    ) WITHOUT ROWID""",
    "CREATE TABLE named (name TEXT PRIMARY KEY, stored BLOB NOT NULL) WITHOUT ROWID",
    "INSERT INTO owner VALUES ('o', 'b1')",
    "PRAGMA application_id=0x50454E53",
)
FORMAT_2 = (
    """CREATE TABLE kept (
        name TEXT PRIMARY KEY, place INTEGER NOT NULL, checksum INTEGER NOT NULL, start BLOB
    ) WITHOUT ROWID""",
    "CREATE TABLE kept_bodies (place INTEGER PRIMARY KEY, stored BLOB NOT NULL)",
    "CREATE TABLE kept_total (records INTEGER NOT NULL, digest INTEGER NOT NULL)",
)
OFFSET = 2**63


def old_store(folder: Path, version: int) -> None:
    """A closed store with ticks 1 to 5 of pubend p, a lease, a publisher, a value, and a kept record if it can."""
    with closing(sqlite3.connect(folder / "store.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        for statement in (*FORMAT_1, *(FORMAT_2 if version == 2 else ())):
            database.execute(statement)
        database.execute(f"PRAGMA user_version={version}")
        database.execute("INSERT INTO pubends VALUES (1, 'p', ?, NULL, ?)", (50 - OFFSET, -OFFSET))
        database.execute("INSERT INTO bodies VALUES (1, ?)", (batch(1, [bytes([tick]) * 10 for tick in range(1, 6)]),))
        database.execute("INSERT INTO batches VALUES (1, ?, ?, 5, 50, 1)", (1 - OFFSET, 5 - OFFSET))
        database.execute("INSERT INTO publishers VALUES (1, x'78', 3, ?)", (5 - OFFSET,))
        database.execute("INSERT INTO named VALUES ('v', ?)", (sealed("v", b"1"),))
        if version == 2:
            checksum = crc32((1).to_bytes(8), crc32(b"old"))
            database.execute("INSERT INTO kept VALUES ('old', 1, ?, NULL)", (checksum,))
            database.execute("INSERT INTO kept_bodies VALUES (1, ?)", (sealed("old", b"o"),))
            database.execute("INSERT INTO kept_total VALUES (1, ?)", (checksum,))


def batch(first: int, bodies: list[bytes]) -> bytes:
    """Bodies at consecutive ticks: checksum of first tick and rest, count, distances of ticks, lengths, bodies."""
    count = len(bodies)
    rest = pack(f">I{count}Q{count}I", count, *range(count), *map(len, bodies)) + b"".join(bodies)
    return crc32(pack(">Q", first) + rest).to_bytes(4) + rest


def sealed(name: str, value: bytes) -> bytes:
    """A named value or kept record, behind a checksum over its name and itself."""
    return crc32(name.encode() + value).to_bytes(4) + value
