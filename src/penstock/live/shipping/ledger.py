"""Remembers across crashes what has been shipped, and which batch is in progress: a small database beside the store.

A batch counts when its files are whole and durable under temporary names and the ledger has it; then the files get
their final names, and the batch is done. After a crash, the next start completes the rest: a batch that counts gets its
names, files of any other are deleted. So every row is shipped once, as long as the ledger survives. If it is lost or
damaged, everything is shipped again under new names, and readers take the newest row of each key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import msgspec

from penstock.live.shipping.rows import Version
from penstock.live.store.private import FILE_MODE, make_private_folder

__all__ = ["FILE_NAME", "Batch", "Event", "Ledger"]

FILE_NAME: Final = "shipped.sqlite"
_FORMAT: Final = 1
_SCHEMA: Final = (
    """CREATE TABLE shipped (
        name TEXT PRIMARY KEY, version INTEGER NOT NULL, is_final INTEGER NOT NULL, settled_ms INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX settled ON shipped (settled_ms) WHERE settled_ms > 0",
    "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER, event TEXT, neighbour TEXT)",
    "CREATE TABLE batches (sequence INTEGER PRIMARY KEY, moves BLOB NOT NULL, names BLOB NOT NULL)",
    "CREATE TABLE last_batch (sequence INTEGER NOT NULL)",
    "INSERT INTO last_batch VALUES (0)",
    f"PRAGMA user_version={_FORMAT}",
)
_EVENTS_MAX: Final = 10_000
"""Events that may wait while the lake cannot be reached; beyond that the oldest are dropped."""
_PART: Final = 500
"""Names in one SQL statement."""

_moves: Final = msgspec.msgpack.Decoder(list[tuple[str, str]]).decode
_names: Final = msgspec.msgpack.Decoder(list[str]).decode
_encode: Final = msgspec.msgpack.Encoder().encode


@dataclass(slots=True, frozen=True)
class Event:
    """Something that happened to the broker or one of its links."""

    at_ms: int
    event: str
    neighbour: str = ""
    number: int = 0
    """Assigned by the ledger, in order."""


@dataclass(slots=True)
class Batch:
    """A batch, as the ledger records it."""

    sequence: int
    moves: list[tuple[str, str]] = field(default_factory=list)
    """Temporary and final names, both relative to the lake."""
    versions: dict[str, Version] = field(default_factory=dict)
    """Versions of the records in the batch, by name."""
    gone: list[str] = field(default_factory=list)
    """Names of records that no longer exist."""
    events_up_to: int = 0
    """The batch has the events up to this number."""


class Ledger:
    """The ledger of one broker; for use by one thread."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.events_dropped = 0

    @classmethod
    def open(cls, folder: Path) -> tuple[Self, bool]:
        """Open the ledger in a store's folder; also tells whether a damaged one had to be put aside."""
        path = folder / FILE_NAME
        make_private_folder(folder)
        try:
            return cls(_opened(path)), False
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                # Not damage, but a folder that cannot be written, or a full disk.
                raise
        for each in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(path.name + each).replace(path.with_name(f"{path.name}{each}.damaged"))
        return cls(_opened(path)), True

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    # What has been shipped.

    def versions(self, names: Iterable[str]) -> dict[str, int]:
        """The version of each record that was shipped last, if any was."""
        found: dict[str, int] = {}
        for part in _parts(names):
            query = f"SELECT name, version FROM shipped WHERE name IN ({_marks(part)})"  # noqa: S608
            found.update(self._database.execute(query, part))
        return found

    def unsettled(self, names: Iterable[str]) -> list[str]:
        """The records of which a newer version may have to be shipped."""
        found: list[str] = []
        for part in _parts(names):
            query = f"SELECT name FROM shipped WHERE is_final AND name IN ({_marks(part)})"  # noqa: S608
            final = {name for (name,) in self._database.execute(query, part)}
            found += [name for name in part if name not in final]
        return found

    def names(self, prefix: str) -> list[str]:
        """The names of all shipped records with a prefix."""
        # The prefix is followed by text, and no character sorts above this one.
        bounds = prefix, prefix + "\U0010ffff"
        return [
            name for (name,) in self._database.execute("SELECT name FROM shipped WHERE name BETWEEN ? AND ?", bounds)
        ]

    def settled(self, before_ms: int, limit: int) -> list[str]:
        """Sealed filters that were shipped and last added to before a time, oldest first."""
        query = "SELECT name FROM shipped WHERE settled_ms > 0 AND settled_ms < ? ORDER BY settled_ms LIMIT ?"
        return [name for (name,) in self._database.execute(query, (before_ms, limit))]

    # Pending events.

    def remember(self, event: Event) -> None:
        """Keep an event until it is shipped."""
        with self._transaction():
            values = event.at_ms, event.event, event.neighbour
            self._database.execute("INSERT INTO events (at_ms, event, neighbour) VALUES (?, ?, ?)", values)
            (top,) = self._database.execute("SELECT max(number) FROM events").fetchone()
            gone = self._database.execute("DELETE FROM events WHERE number <= ?", (top - _EVENTS_MAX,))
            self.events_dropped += gone.rowcount

    def events(self) -> list[Event]:
        """The pending events, in order."""
        rows = self._database.execute("SELECT at_ms, event, neighbour, number FROM events ORDER BY number")
        return [Event(*row) for row in rows]

    # Batches.

    def next_sequence(self) -> int:
        """The number of the next batch."""
        (last,) = self._database.execute("SELECT sequence FROM last_batch").fetchone()
        return int(last) + 1

    def count(self, batch: Batch) -> None:
        """Make a batch count, once its files are durable under their temporary names."""
        with self._transaction():
            assert batch.sequence >= self.next_sequence(), f"batch {batch.sequence} counts already"
            self._database.execute("UPDATE last_batch SET sequence=?", (batch.sequence,))
            rows = [(name, each.number, each.is_final, each.settled_ms) for name, each in batch.versions.items()]
            self._database.executemany("INSERT OR REPLACE INTO shipped VALUES (?, ?, ?, ?)", rows)
            self._drop(batch.gone)
            self._database.execute("DELETE FROM events WHERE number <= ?", (batch.events_up_to,))
            values = batch.sequence, _encode(batch.moves), _encode(list(batch.versions))
            self._database.execute("INSERT INTO batches VALUES (?, ?, ?)", values)

    def pending(self) -> Mapping[int, list[tuple[str, str]]]:
        """The batches that count but may not have their final names yet, with the files to move."""
        rows = self._database.execute("SELECT sequence, moves FROM batches ORDER BY sequence")
        return {sequence: _moves(moves) for sequence, moves in rows}

    def done(self, sequence: int) -> None:
        """Forget a batch whose files have their final names."""
        with self._transaction():
            self._database.execute("DELETE FROM batches WHERE sequence=?", (sequence,))

    def undo(self, sequence: int) -> None:
        """Undo a batch whose files were lost, so that its records are shipped again."""
        with self._transaction():
            (names,) = self._database.execute("SELECT names FROM batches WHERE sequence=?", (sequence,)).fetchone()
            self._drop(_names(names))
            self._database.execute("DELETE FROM batches WHERE sequence=?", (sequence,))

    def _drop(self, names: Iterable[str]) -> None:
        self._database.executemany("DELETE FROM shipped WHERE name=?", [(name,) for name in names])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


def _opened(path: Path) -> sqlite3.Connection:
    with suppress(OSError):
        # Files that SQLite makes beside this one get the same mode; if it cannot be made, SQLite says so.
        path.touch(FILE_MODE, exist_ok=False)
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if not version:
            database.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute("COMMIT")
        elif version != _FORMAT:
            raise sqlite3.DatabaseError(f"{path} has format {version}")
        ((found,),) = database.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise sqlite3.DatabaseError(f"{path} is damaged: {found}")
    except BaseException:
        database.close()
        raise
    return database


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    listed = list(names)
    for start in range(0, len(listed), _PART):
        yield listed[start : start + _PART]


def _marks(items: list[str]) -> str:
    return ", ".join("?" * len(items))
