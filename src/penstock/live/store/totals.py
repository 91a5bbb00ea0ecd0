"""Lets a store check itself: checksums of its rows, and one sealed row with the totals of every table.

SQLite's pages have no checksums. So every row of the index has one, over all its columns, and the totals hold per table
the number of rows and the exclusive or of their checksums. A row that was changed, lost or brought back shows up as a
difference. The totals also count commits, and every commit writes them: a store that reads back with fewer commits than
its witness saw has lost some.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from struct import error as StructError  # noqa: N812 (an exception, whose own name says nothing)
from typing import Final
from zlib import adler32, crc32

__all__ = [
    "ROW_ERRORS",
    "TOTALS_SCHEMA",
    "Tally",
    "Totals",
    "batch_checksum",
    "checksum_of",
    "doubtful_tally",
    "find_totals",
    "kept_checksum",
    "load_totals",
    "named_checksum",
    "pubend_checksum",
    "publisher_checksum",
    "row_problem",
    "schema_checksum",
]

TOTALS_SCHEMA: Final = "CREATE TABLE totals (stored BLOB NOT NULL)"
_WRONG_VALUES: Final = (StructError, TypeError, ValueError, AttributeError, OverflowError)
ROW_ERRORS: Final = (sqlite3.DatabaseError, *_WRONG_VALUES)
"""What reading a row and computing its checksum may raise when the row is damaged: a wrong type is damage, too."""


def row_problem(error: Exception) -> str:
    """What is wrong with a damaged row, in words for the operator, who need not know Python's."""
    return (
        "a row has values of the wrong kind"
        if isinstance(error, (*_WRONG_VALUES, KeyError, IndexError))
        else str(error)
    )


_MAGIC: Final = b"PenTotal"
_TOTALS: Final = Struct(">8s16sQQQqQqQqQqQqQq")
_CHECKSUM_BYTES: Final = 8
_STORED_BYTES: Final = _TOTALS.size + _CHECKSUM_BYTES
_PUBEND: Final = Struct(">q?q?qq")
_BATCH: Final = Struct(">7q")
_PUBLISHER: Final = Struct(">3q")
_NO_ID: Final = bytes(16)
_MASK: Final = 2**64 - 1
_OFFSET: Final = 2**63
_MIX: Final = 0xBF58476D1CE4E5B9


@dataclass(slots=True)
class Tally:
    """How many rows a table has, and the exclusive or of their checksums."""

    rows: int = 0
    digest: int = 0

    def add(self, checksum: int) -> None:
        """Count one more row."""
        self.rows += 1
        self.digest ^= checksum

    def remove(self, checksum: int) -> None:
        """Count one row less."""
        self.rows -= 1
        self.digest ^= checksum


@dataclass(slots=True)
class Totals:
    """The totals of a store as of one commit."""

    store_id: bytes = _NO_ID
    """Chosen at random when the store was made, so that files of two stores are never mixed up."""
    commits: int = 0
    """Transactions since the store was made."""
    highest_tick: int = 0
    """No pubend ever used or promised a tick above this one."""
    kept_place: int = 0
    """The highest place ever given to a kept record; no place is used twice."""
    schema: int = 0
    """Checksum of the table definitions and of the owner."""
    pubends: Tally = field(default_factory=Tally)
    batches: Tally = field(default_factory=Tally)
    publishers: Tally = field(default_factory=Tally)
    named: Tally = field(default_factory=Tally)
    kept: Tally = field(default_factory=Tally)

    def next(self) -> Totals:
        """A copy for the next commit to change."""
        return Totals(
            self.store_id,
            self.commits + 1,
            self.highest_tick,
            self.kept_place,
            self.schema,
            *(Tally(tally.rows, tally.digest) for tally in self.tallies().values()),
        )

    def tallies(self) -> dict[str, Tally]:
        """The tally of every table, by its name, in the order of the fields."""
        return {
            "pubends": self.pubends,
            "batches": self.batches,
            "publishers": self.publishers,
            "named": self.named,
            "kept": self.kept,
        }

    def encode(self) -> bytes:
        """The bytes to be stored, which end with their checksum."""
        packed = _TOTALS.pack(
            _MAGIC,
            self.store_id,
            self.commits,
            self.highest_tick,
            self.kept_place,
            self.schema,
            self.pubends.rows,
            self.pubends.digest,
            self.batches.rows,
            self.batches.digest,
            self.publishers.rows,
            self.publishers.digest,
            self.named.rows,
            self.named.digest,
            self.kept.rows,
            self.kept.digest,
        )
        return packed + blake2b(packed, digest_size=_CHECKSUM_BYTES).digest()

    @classmethod
    def decode(cls, stored: object) -> Totals | None:
        """The totals that were stored; None if these are not the bytes that were written."""
        if not isinstance(stored, bytes) or len(stored) != _STORED_BYTES:
            return None
        packed = stored[: _TOTALS.size]
        if blake2b(packed, digest_size=_CHECKSUM_BYTES).digest() != stored[_TOTALS.size :]:
            return None
        magic, store_id, commits, highest_tick, kept_place, schema, *rest = _TOTALS.unpack(packed)
        if magic != _MAGIC:
            return None
        tallies = [Tally(rows, digest) for rows, digest in zip(rest[::2], rest[1::2], strict=True)]
        return cls(store_id, commits, highest_tick, kept_place, schema, *tallies)


def doubtful_tally() -> Tally:
    """A tally that no table has, so that every check finds damage."""
    return Tally(2**63 - 1, 0)


def load_totals(database: sqlite3.Connection) -> Totals | None:
    """The totals in a database; None if they are damaged."""
    rows = database.execute("SELECT stored FROM totals").fetchall()
    return Totals.decode(rows[0][0]) if len(rows) == 1 else None


def find_totals(page: bytes) -> Totals | None:
    """The newest totals in the bytes of a page, which may have leftovers of older ones."""
    newest: Totals | None = None
    at = page.find(_MAGIC)
    while at >= 0:
        found = Totals.decode(bytes(page[at : at + _STORED_BYTES]))
        if found is not None and (newest is None or found.commits > newest.commits):
            newest = found
        at = page.find(_MAGIC, at + 1)
    return newest


def checksum_of(content: bytes) -> int:
    """A checksum of 64 bits, as a signed integer that SQLite can store.

    Mixed, since tallies combine checksums by exclusive or: CRCs are linear, and changes in two rows could cancel out.
    """
    mixed = (crc32(content) << 32 | adler32(content)) * _MIX
    return ((mixed ^ mixed >> 64) & _MASK) - _OFFSET


def pubend_checksum(number: int, name: str, lease: int | None, last: int | None, trimmed: int) -> int:
    """The checksum of a row of pubends."""
    packed = _PUBEND.pack(number, lease is not None, lease or 0, last is not None, last or 0, trimmed)
    return checksum_of(packed + name.encode())


def batch_checksum(row: tuple[int, int, int, int, int, int, int]) -> int:
    """The checksum of a row of batches: pubend, first, last, messages, bytes, place, checksum of the body."""
    return checksum_of(_BATCH.pack(*row))


def publisher_checksum(pubend: int, publisher: bytes, sequence: int, tick: int) -> int:
    """The checksum of a row of publishers; ``checksum_of`` is inlined, since commits have hundreds of them."""
    content = _PUBLISHER.pack(pubend, sequence, tick) + publisher
    mixed = (crc32(content) << 32 | adler32(content)) * _MIX
    return ((mixed ^ mixed >> 64) & _MASK) - _OFFSET


def named_checksum(name: str, stored: bytes) -> int:
    """The checksum of a named value in the totals: over its name and its seal.

    Not over the value itself: a damaged value behind a good seal leaves the totals alone, and is reported by name.
    """
    return checksum_of(stored[:4] + name.encode())


def kept_checksum(name: str, place: int) -> int:
    """The checksum of a row of kept."""
    return checksum_of(place.to_bytes(8) + name.encode())


def schema_checksum(database: sqlite3.Connection) -> int:
    """The checksum of all table definitions, of where the tables begin, and of the owner."""
    rows: Iterable[tuple[object, ...]] = database.execute(
        "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY name"
    ).fetchall()
    owners: Iterable[tuple[object, ...]] = database.execute("SELECT overlay, broker FROM owner").fetchall()
    return checksum_of(repr((rows, owners)).encode("utf-8", "backslashreplace"))
