"""Records that a broker keeps beside its logs, of which there may be millions ([Tracking] section 3.2: histories).

An index has their names, and of large ones the beginning that a start needs; their bytes are apart, so that a start
does not read them. Damage must never make a record look as if it had not been there, for then a broker would deny what
it has recorded: every row of the index has a checksum, and their number and digest are kept, too. A record that is
damaged is named, and its space not used again; an index that is damaged is put aside with all that belongs to it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from zlib import crc32

from penstock.broker.durable import Change, KeepRecord, needed_at_start
from penstock.live.store.sealed import seal, unseal

__all__ = ["KEPT_SCHEMA", "KeptFound", "KeptPart", "KeptRecords", "KeptTotal"]

KEPT_SCHEMA: Final = (
    """CREATE TABLE kept (
        name TEXT PRIMARY KEY, place INTEGER NOT NULL, checksum INTEGER NOT NULL, start BLOB
    ) WITHOUT ROWID""",
    "CREATE TABLE kept_bodies (place INTEGER PRIMARY KEY, stored BLOB NOT NULL)",
    "CREATE TABLE kept_total (records INTEGER NOT NULL, digest INTEGER NOT NULL)",
    "INSERT INTO kept_total VALUES (0, 0)",
)
_ROWS_MAX: Final = 64
"""Records that one statement writes or reads; a power of two."""
_TABLES: Final = ("kept", "kept_bodies", "kept_total")

_Item = TypeVar("_Item")


@dataclass(slots=True, frozen=True)
class KeptTotal:
    """How many records there are, and the checksums of all of them in one."""

    records: int = 0
    digest: int = 0

    def plus(self, checksum: int) -> KeptTotal:
        """With one more record."""
        return KeptTotal(self.records + 1, self.digest ^ checksum)

    def minus(self, checksum: int) -> KeptTotal:
        """With one less."""
        return KeptTotal(self.records - 1, self.digest ^ checksum)


@dataclass(slots=True)
class KeptFound:
    """What a start finds, the record that was kept last behind all others."""

    records: dict[str, bytes] = field(default_factory=dict)
    """The beginnings that are needed, by name; nothing of those that are damaged."""
    damaged: list[str] = field(default_factory=list)
    """The names of these."""
    is_put_aside: bool = False
    """Whether not even the names could be trusted, so that all of it is lost."""


@dataclass(slots=True, frozen=True)
class KeptPart:
    """What a read found."""

    values: dict[str, bytes | None]
    """Of the first names as many as there was room for; None for what is missing or damaged."""
    damaged: list[str]
    """The names of the damaged ones."""


class KeptRecords:
    """The kept records in the database of a store."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        stored = _stored_total(database)
        self.total = stored or KeptTotal()
        """As of the last commit, which replaces it when it is durable."""
        self.is_damaged = stored is None
        """Whether damage was met that keeps records from being written: all must be put aside, outside a commit."""
        self._was_put_aside = False
        if self.is_damaged:
            self.put_aside()

    # Writing: all but ``put_aside`` within the transaction of a commit.

    def write(self, changes: Iterable[Change]) -> KeptTotal:
        """Write the last word on each record, removals first as they make room; gives the new total."""
        last: dict[str, bytes | None] = {}
        for change in changes:
            if isinstance(change, KeepRecord):
                last.pop(change.name, None)
                last[change.name] = change.value
        if not last:
            return self.total
        try:
            return self._write(last)
        except sqlite3.DatabaseError as error:
            self.is_damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT
            raise

    def _write(self, last: dict[str, bytes | None]) -> KeptTotal:
        """Many records with one statement each: between statements a busy event loop takes the GIL."""
        total = self.total
        before = self._rows(list(last))
        for _, checksum in before.values():
            total = total.minus(checksum)
        self._drop_bodies(before)
        for names in _parts([name for name in before if last[name] is None]):
            self._database.execute(f"DELETE FROM kept WHERE name IN ({_marks(names)})", names)  # noqa: S608
        for records in _parts([(name, value) for name, value in last.items() if value is not None]):
            total = self._put(records, total)
        self._database.execute("UPDATE kept_total SET records=?, digest=?", (total.records, total.digest))
        return total

    def _put(self, records: Sequence[tuple[str, bytes]], total: KeptTotal) -> KeptTotal:
        (top,) = self._database.execute("SELECT coalesce(max(place), 0) FROM kept_bodies").fetchone()
        bodies: list[int | bytes] = []
        rows: list[str | int | bytes | None] = []
        for place, (name, value) in enumerate(records, start=top + 1):
            bodies += (place, seal(name, value))
            checksum, start = _checksum(name, place), needed_at_start(name, value)
            rows += (name, place, checksum, seal(name, start) if len(start) < len(value) else None)
            total = total.plus(checksum)
        self._database.execute(f"INSERT INTO kept_bodies VALUES {_marks(records, '(?, ?)')}", bodies)  # noqa: S608
        self._database.execute(f"INSERT OR REPLACE INTO kept VALUES {_marks(records, '(?, ?, ?, ?)')}", rows)  # noqa: S608
        return total

    def _rows(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Place and checksum of those that there are."""
        found: dict[str, tuple[int, int]] = {}
        for part in _parts(names):
            query = f"SELECT name, place, checksum FROM kept WHERE name IN ({_marks(part)})"  # noqa: S608
            found.update({name: (place, checksum) for name, place, checksum in self._database.execute(query, part)})
        return found

    def _drop_bodies(self, rows: dict[str, tuple[int, int]]) -> None:
        """Free the bytes of records, but not of damaged ones: their pages may lead into those of others."""
        for names in _parts(list(rows)):
            bodies = self._bodies([rows[name][0] for name in names])
            whole = [rows[name][0] for name in names if unseal(name, bodies.get(rows[name][0])) is not None]
            for places in _parts(whole):
                self._database.execute(f"DELETE FROM kept_bodies WHERE place IN ({_marks(places)})", places)  # noqa: S608

    def put_aside(self) -> None:
        """Begin anew, and leave the space of what was there: freeing damaged pages might hand out those of others."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            tables = [name for (name,) in self._database.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
            for table in _TABLES:
                if table in tables:
                    # However often this happens, there are more tables than before.
                    self._database.execute(f"ALTER TABLE {table} RENAME TO damaged_{len(tables)}_{table}")
            for statement in KEPT_SCHEMA:
                self._database.execute(statement)
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self.total, self.is_damaged, self._was_put_aside = KeptTotal(), False, True

    # Reading.

    def at_start(self) -> KeptFound:
        """What of every record is needed at a start; puts all of them aside if their index is damaged."""
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
        """Whole records by name, as many of the first as there is room for but at least one."""
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
        """What is stored at these places, as far as it can be read."""
        query = f"SELECT place, stored FROM kept_bodies WHERE place IN ({_marks(places)})"  # noqa: S608
        try:
            return dict(self._database.execute(query, places))
        except sqlite3.DatabaseError:
            if len(places) == 1:
                return {}
        # One that is damaged must not hide the others.
        return {place: stored for each in places for place, stored in self._bodies([each]).items()}

    def _index(self) -> list[tuple[int, str, object]] | None:
        """Place, name and beginning of every record; None if there is any doubt that these are all."""
        rows: list[tuple[int, str, object]] = []
        digest = 0
        try:
            for name, place, checksum, start in self._database.execute("SELECT name, place, checksum, start FROM kept"):
                if checksum != _checksum(name, place):
                    return None
                digest ^= checksum
                rows.append((place, name, start))
        except (sqlite3.DatabaseError, AttributeError, TypeError, OverflowError):
            # Other types than were written are damage, too.
            return None
        return rows if KeptTotal(len(rows), digest) == self.total else None


def _stored_total(database: sqlite3.Connection) -> KeptTotal | None:
    try:
        rows = database.execute("SELECT records, digest FROM kept_total").fetchall()
    except sqlite3.DatabaseError:
        return None
    return KeptTotal(*rows[0]) if len(rows) == 1 else None


def _checksum(name: str, place: int) -> int:
    return crc32(place.to_bytes(8), crc32(name.encode()))


def _parts(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """All items in parts of few different lengths, powers of two: SQLite keeps statements for each prepared."""
    start = 0
    while rest := len(items) - start:
        length = min(_ROWS_MAX, 1 << (rest.bit_length() - 1))
        yield items[start : start + length]
        start += length


def _marks(items: Sequence[object], mark: str = "?") -> str:
    return ", ".join([mark] * len(items))
