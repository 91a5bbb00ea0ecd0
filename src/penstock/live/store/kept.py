"""Stores the records that a broker keeps beside its logs, maybe millions ([Tracking] section 3.2: histories).

An index has their names and, for large ones, the beginning that a start needs; their bytes are stored separately, so
that a start does not read them. Damage must never make a record look as if it had not been there, or a broker would
deny what it has recorded: every row of the index has a checksum, and their tally is in the totals of the store. A
damaged record is reported by name, and its space is not used again; a damaged index is put aside with all its records.

No place is used twice, so an older version of a row never looks like the one that was written last.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from penstock.broker.durable import Change, KeepRecord, needed_at_start
from penstock.live.store.books import Books
from penstock.live.store.sealed import seal, unseal
from penstock.live.store.totals import ROW_ERRORS, Tally, Totals, doubtful_tally, kept_checksum, schema_checksum

__all__ = ["KEPT_SCHEMA", "KeptFound", "KeptPart", "KeptRecords"]

KEPT_SCHEMA: Final = (
    """CREATE TABLE kept (
        name TEXT PRIMARY KEY, place INTEGER NOT NULL, checksum INTEGER NOT NULL, start BLOB
    ) WITHOUT ROWID""",
    "CREATE TABLE kept_bodies (place INTEGER PRIMARY KEY, stored BLOB NOT NULL)",
)
_ROWS_MAX: Final = 64
"""Records that one statement writes or reads; a power of two."""
_TABLES: Final = ("kept", "kept_bodies", "kept_total")
"""All tables of kept records; the last one existed up to format 2."""

_Item = TypeVar("_Item")


@dataclass(slots=True)
class KeptFound:
    """The kept records that a start finds, the one kept last at the end."""

    records: dict[str, bytes] = field(default_factory=dict)
    """The beginnings that a start needs, by name; empty for damaged records."""
    damaged: list[str] = field(default_factory=list)
    """The names of damaged records."""
    is_put_aside: bool = False
    """Whether not even the names could be trusted, so that all records are lost."""


@dataclass(slots=True, frozen=True)
class KeptPart:
    """The result of a read."""

    values: dict[str, bytes | None]
    """Records by name, as many of the first as there was room for; None for a missing or damaged one."""
    damaged: list[str]
    """The names of damaged records."""


class KeptRecords:
    """The kept records in the database of a store."""

    def __init__(self, database: sqlite3.Connection, books: Books) -> None:
        self._database, self._books = database, books
        self.is_damaged = False
        """Whether damage keeps records from being written: then ``doubt`` must be called, outside a commit."""
        self._was_put_aside = False
        if books.totals.kept == doubtful_tally():
            self.put_aside()

    # Writing: all but ``doubt`` and ``put_aside`` within the transaction of a commit.

    def write(self, changes: Iterable[Change], totals: Totals) -> None:
        """Write the last change of each record, removals first as they make room; updates the totals."""
        last: dict[str, bytes | None] = {}
        for change in changes:
            if isinstance(change, KeepRecord):
                last.pop(change.name, None)
                last[change.name] = change.value
        if not last:
            return
        try:
            self._write(last, totals)
        except sqlite3.DatabaseError as error:
            self.is_damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT
            raise

    def _write(self, last: dict[str, bytes | None], totals: Totals) -> None:
        """Write many records with one statement: between statements a busy event loop takes the GIL."""
        before = self._rows(list(last))
        for _, checksum in before.values():
            totals.kept.remove(checksum)
        self._drop_bodies(before)
        for names in _parts([name for name in before if last[name] is None]):
            self._database.execute(f"DELETE FROM kept WHERE name IN ({_marks(names)})", names)  # noqa: S608
        for records in _parts([(name, value) for name, value in last.items() if value is not None]):
            self._put(records, totals)

    def _put(self, records: Sequence[tuple[str, bytes]], totals: Totals) -> None:
        bodies: list[int | bytes] = []
        rows: list[str | int | bytes | None] = []
        for place, (name, value) in enumerate(records, start=totals.kept_place + 1):
            bodies += (place, seal(name, value))
            checksum = kept_checksum(name, place)
            start = needed_at_start(name, value)
            rows += (name, place, checksum, seal(name, start) if len(start) < len(value) else None)
            totals.kept.add(checksum)
            totals.kept_place = place
        self._database.execute(f"INSERT INTO kept_bodies VALUES {_marks(records, '(?, ?)')}", bodies)  # noqa: S608
        self._database.execute(f"INSERT OR REPLACE INTO kept VALUES {_marks(records, '(?, ?, ?, ?)')}", rows)  # noqa: S608

    def _rows(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Place and checksum of the records that exist."""
        found: dict[str, tuple[int, int]] = {}
        for part in _parts(names):
            query = f"SELECT name, place, checksum FROM kept WHERE name IN ({_marks(part)})"  # noqa: S608
            found.update({name: (place, checksum) for name, place, checksum in self._database.execute(query, part)})
        return found

    def _drop_bodies(self, rows: dict[str, tuple[int, int]]) -> None:
        """Free the bytes of records, but not of damaged ones: their pages may point into those of others."""
        for names in _parts(list(rows)):
            bodies = self._bodies([rows[name][0] for name in names])
            whole = [rows[name][0] for name in names if unseal(name, bodies.get(rows[name][0])) is not None]
            for places in _parts(whole):
                self._database.execute(f"DELETE FROM kept_bodies WHERE place IN ({_marks(places)})", places)  # noqa: S608

    def doubt(self) -> None:
        """Make the next start put all records aside, and report it: in this run nobody would hear of it."""
        totals = self._books.totals.next()
        totals.kept = doubtful_tally()
        self._database.execute("BEGIN IMMEDIATE")
        self._books.write(totals)
        self._database.execute("COMMIT")
        self._books.adopt(totals)

    def put_aside(self) -> None:
        """Start with empty tables, and never free the old ones: freeing damaged pages might release those of others."""
        totals = self._books.totals.next()
        totals.kept = Tally()
        self._database.execute("BEGIN IMMEDIATE")
        try:
            tables = [name for (name,) in self._database.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
            for table in _TABLES:
                if table in tables:
                    # The name is free: there are more tables than at any time before.
                    self._database.execute(f"ALTER TABLE {table} RENAME TO damaged_{len(tables)}_{table}")
            for statement in KEPT_SCHEMA:
                self._database.execute(statement)
            totals.schema = schema_checksum(self._database)
            self._books.write(totals)
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self._books.adopt(totals)
        self.is_damaged = False
        self._was_put_aside = True

    # Reading.

    def at_start(self) -> KeptFound:
        """The part of every record that a start needs; puts all of them aside if their index is damaged."""
        rows = self._index()
        if rows is None:
            self.put_aside()
        found = KeptFound(is_put_aside=self._was_put_aside)
        for place, name, start in sorted(rows or [], key=lambda row: row[0]):
            value = None if start is None else unseal(name, start)
            if value is None and (body := self._body(name, place)) is not None:
                value = needed_at_start(name, body)
            if value is None:
                found.damaged.append(name)
            found.records[name] = value or b""
        return found

    def read(self, names: Sequence[str], *, bytes_max: int) -> KeptPart:
        """Read whole records by name, as many of the first as there is room for but at least one."""
        part = KeptPart({}, [])
        room = bytes_max
        for name in dict.fromkeys(names):
            value = self._value(name, part.damaged)
            size = len(value or b"")
            if part.values and size > room:
                break
            part.values[name] = value
            room -= size
        return part

    def _value(self, name: str, damaged: list[str]) -> bytes | None:
        try:
            found = self._rows([name])
        except sqlite3.DatabaseError:
            found = {name: (0, 0)}
        if name not in found:
            return None
        value = self._body(name, found[name][0])
        if value is None:
            damaged.append(name)
        return value

    def _body(self, name: str, place: int) -> bytes | None:
        """The bytes of a record, unless they are damaged."""
        return unseal(name, self._bodies([place]).get(place))

    def _bodies(self, places: Sequence[int]) -> dict[int, object]:
        """The bytes stored at these places, as far as they can be read."""
        query = f"SELECT place, stored FROM kept_bodies WHERE place IN ({_marks(places)})"  # noqa: S608
        try:
            return dict(self._database.execute(query, places))
        except sqlite3.DatabaseError:
            if len(places) == 1:
                return {}
        # A damaged one must not hide the others.
        return {place: stored for each in places for place, stored in self._bodies([each]).items()}

    def _index(self) -> list[tuple[int, str, object]] | None:
        """Place, name and beginning of every record; None if some may be missing or damaged."""
        rows: list[tuple[int, str, object]] = []
        found = Tally()
        try:
            for name, place, checksum, start in self._database.execute("SELECT name, place, checksum, start FROM kept"):
                if checksum != kept_checksum(name, place):
                    return None
                found.add(checksum)
                rows.append((place, name, start))
        except ROW_ERRORS:
            return None
        return rows if found == self._books.totals.kept else None


def _parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Split items into parts of few different lengths, powers of two: SQLite keeps a prepared statement for each."""
    start = 0
    while rest := len(items) - start:
        length = min(_ROWS_MAX, 1 << (rest.bit_length() - 1))
        yield items[start : start + length]
        start += length


def _marks(items: Sequence[object], mark: str = "?") -> str:
    return ", ".join([mark] * len(items))
