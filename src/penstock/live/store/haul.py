"""Reads the rows of a damaged database that prove whole by themselves, for salvaging."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.live.store.batch import unpack_batch
from penstock.live.store.pubend_state import unsigned, unsigned_or_none
from penstock.live.store.sealed import unseal
from penstock.live.store.totals import (
    ROW_ERRORS,
    Tally,
    Totals,
    batch_checksum,
    kept_checksum,
    load_totals,
    named_checksum,
    pubend_checksum,
    publisher_checksum,
    schema_checksum,
)
from penstock.model.tick import TICK_MIN, Tick, TickRange

__all__ = ["Haul", "HaulBatch", "HaulPubend", "haul_from"]


@dataclass(slots=True)
class HaulPubend:
    """What could be read of a pubend."""

    number: int
    lease: Tick | None = None
    trimmed_below: Tick = TICK_MIN
    is_whole: bool = True
    """Whether its row was whole; otherwise only its name is known."""


@dataclass(slots=True, frozen=True)
class HaulBatch:
    """A batch whose row is whole."""

    ticks: TickRange
    place: int
    body: int


@dataclass(slots=True)
class Haul:
    """All rows that prove whole in one reading of a database."""

    place: Path | None = None
    """The folder that was read."""
    totals: Totals | None = None
    owner: tuple[str, str] | None = None
    """Overlay and broker; None if they may be damaged."""
    pubends: dict[str, HaulPubend] = field(default_factory=dict)
    batches: dict[int, list[HaulBatch]] = field(default_factory=dict)
    """Batches by the number of their pubend, in the order of their ticks."""
    sequences: dict[int, dict[bytes, int]] = field(default_factory=dict)
    values: list[tuple[str, bytes]] = field(default_factory=list)
    """Named values; empty for damaged ones."""
    kept: list[tuple[str, bytes]] = field(default_factory=list)
    """Kept records, in the order in which they were kept."""
    doubtful: set[str] = field(default_factory=set)
    """Tables whose rows do not match the totals exactly."""
    highest_tick: int = 0
    is_older: bool = False
    """Whether the format is too old to have row checksums."""

    @property
    def worth(self) -> tuple[int, int, int]:
        """How good a reading is: by batches, then exact tables, then commits."""
        commits = 0 if self.totals is None else self.totals.commits
        return (sum(map(len, self.batches.values())), -len(self.doubtful), commits)

    @property
    def has_rows(self) -> bool:
        """Whether anything in the database proves that it is a store."""
        return self.totals is not None or bool(self.pubends or self.batches or self.values or self.kept)

    @property
    def pubends_expected(self) -> int:
        """How many pubends the store must have."""
        numbers = [*self.batches, *self.sequences]
        return max(0 if self.totals is None else self.totals.pubends.rows, len(set(numbers)))

    def messages(self, database: sqlite3.Connection, batch: HaulBatch) -> list[tuple[Tick, bytes]] | None:
        """The messages of a batch; None if they are damaged."""
        with suppress(*ROW_ERRORS):
            (stored,) = database.execute("SELECT stored FROM bodies WHERE place=?", (batch.place,)).fetchone()
            messages = unpack_batch(batch.ticks.first, stored)
            if int.from_bytes(stored[:4]) == batch.body and messages[-1][0] == batch.ticks.last:
                return messages
        return None


def haul_from(database: sqlite3.Connection, place: Path) -> Haul:
    """Everything in a database that proves whole."""
    haul = Haul(place)
    with suppress(*ROW_ERRORS):
        batches = "SELECT sql FROM sqlite_schema WHERE name='batches' AND sql NOT LIKE '%checksum%'"
        haul.is_older = database.execute(batches).fetchone() is not None
    with suppress(*ROW_ERRORS):
        haul.totals = load_totals(database)
    with suppress(*ROW_ERRORS):
        if haul.totals is not None and schema_checksum(database) == haul.totals.schema:
            haul.owner = database.execute("SELECT overlay, broker FROM owner").fetchone()
    tallies = Totals().tallies() if haul.totals is None else haul.totals.tallies()
    readers: dict[str, Callable[[sqlite3.Connection, Haul], Tally]] = {
        "pubends": _pubends,
        "batches": _batches,
        "publishers": _publishers,
        "named": _named,
        "kept": _kept,
    }
    for table, read in readers.items():
        if read(database, haul) != tallies[table] or haul.totals is None:
            haul.doubtful.add(table)
    if haul.totals is not None:
        haul.highest_tick = max(haul.highest_tick, haul.totals.highest_tick)
    return haul


def _rows(database: sqlite3.Connection, table: str, columns: str, key: str) -> Iterator[tuple[Any, ...]]:
    """All rows that can be reached; each begins with its key.

    A damaged page hides the rows after it, so those that cannot be reached from the front are read from the back.
    """
    keys = key.split(", ")
    query = f"SELECT {columns} FROM {table} ORDER BY "  # noqa: S608 - names of our own tables
    reached: tuple[Any, ...] | None = None
    try:
        for row in database.execute(query + key):
            reached = row[: len(keys)]
            yield row
    except ROW_ERRORS:
        with suppress(*ROW_ERRORS):
            for row in database.execute(query + ", ".join(f"{each} DESC" for each in keys)):
                if reached is not None and row[: len(keys)] <= reached:
                    return
                yield row


def _whole(checksum_of: Callable[..., int], row: tuple[Any, ...], checksum: object) -> bool:
    try:
        return checksum_of(*row) == checksum
    except ROW_ERRORS:
        return False


def _pubends(database: sqlite3.Connection, haul: Haul) -> Tally:
    found = Tally()
    for *row, checksum in _rows(database, "pubends", "number, name, lease, last, trimmed, checksum", "number"):
        if _whole(pubend_checksum, tuple(row), checksum):
            number, name, lease, last, trimmed = row
            found.add(checksum)
            haul.pubends[name] = HaulPubend(number, unsigned_or_none(lease), unsigned(trimmed))
            ticks = [unsigned(each) for each in (lease, last) if each is not None]
            haul.highest_tick = max(haul.highest_tick, *ticks, 0)
    numbers = {pubend.number for pubend in haul.pubends.values()}
    # The index on names is stored on other pages than the rows.
    names = "SELECT name, number FROM pubends INDEXED BY sqlite_autoindex_pubends_1"
    with suppress(*ROW_ERRORS):
        for name, number in database.execute(names):
            if isinstance(name, str) and name not in haul.pubends and number not in numbers:
                haul.pubends[name] = HaulPubend(number, is_whole=False)
    return found


def _batches(database: sqlite3.Connection, haul: Haul) -> Tally:
    found = Tally()
    columns = "pubend, first, last, messages, bytes, place, body, checksum"
    for *row, checksum in _rows(database, "batches", columns, "pubend, first"):
        if _whole(lambda *row: batch_checksum(row), tuple(row), checksum):
            pubend, first, last, _, _, place, body = row
            found.add(checksum)
            ticks = TickRange(unsigned(first), unsigned(last))
            haul.batches.setdefault(pubend, []).append(HaulBatch(ticks, place, body))
            haul.highest_tick = max(haul.highest_tick, ticks.last)
    for batches in haul.batches.values():
        batches.sort(key=lambda batch: batch.ticks)
    return found


def _publishers(database: sqlite3.Connection, haul: Haul) -> Tally:
    found = Tally()
    columns = "pubend, publisher, sequence, tick, checksum"
    for *row, checksum in _rows(database, "publishers", columns, "pubend, publisher"):
        if _whole(publisher_checksum, tuple(row), checksum):
            pubend, publisher, sequence, _ = row
            found.add(checksum)
            haul.sequences.setdefault(pubend, {})[publisher] = sequence
    return found


def _named(database: sqlite3.Connection, haul: Haul) -> Tally:
    found = Tally()
    for name, stored in _rows(database, "named", "name, stored", "name"):
        if not isinstance(name, str):
            # Whose value this was is lost: the tally says that something is missing.
            continue
        with suppress(*ROW_ERRORS):
            value = unseal(name, stored)
            if value is not None:
                found.add(named_checksum(name, stored))
            # An empty value tells its reader that something was there.
            haul.values.append((name, value or b""))
    return found


def _kept(database: sqlite3.Connection, haul: Haul) -> Tally:
    found = Tally()
    places: list[tuple[int, str]] = []
    for name, place, checksum in _rows(database, "kept", "name, place, checksum", "name"):
        if _whole(kept_checksum, (name, place), checksum):
            found.add(checksum)
            places.append((place, name))
    for place, name in sorted(places):
        value: bytes | None = None
        with suppress(*ROW_ERRORS):
            (stored,) = database.execute("SELECT stored FROM kept_bodies WHERE place=?", (place,)).fetchone()
            value = unseal(name, stored)
        if value is None:
            haul.doubtful.add("kept")
        else:
            haul.kept.append((name, value))
    return found
