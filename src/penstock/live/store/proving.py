"""Reads a closed store to the last byte, in bounded memory, and says whose it is, what it has and what is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from penstock.live.store.errors import StoreDamagedError, StoreRefusedError, StoreVersionError
from penstock.live.store.inspecting import FILE_NAME, Inspection, inspect, reading
from penstock.live.store.reading import LogPart, LogReader
from penstock.live.store.schema import FORMAT_VERSION
from penstock.live.store.sealed import unseal
from penstock.live.store.totals import ROW_ERRORS, Tally, Totals, kept_checksum
from penstock.live.store.witness import Statement
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange

__all__ = ["PART_BYTES", "OnRead", "Proof", "PubendProof", "check_found", "following", "prove"]

PART_BYTES: Final = 4 << 20
"""Bytes of messages read at a time."""

OnRead: TypeAlias = Callable[[int, int], None]
"""Called now and then with the number of messages and records read, and of all."""


@dataclass(slots=True, frozen=True)
class PubendProof:
    """What a store has of one pubend."""

    messages: int
    size_bytes: int
    last_tick: Tick | None
    lease: Tick | None
    damaged: tuple[TickRange, ...] = ()
    """Ticks whose messages cannot be read: subscribers are told."""


@dataclass(slots=True)
class Proof:
    """The result of reading a whole store."""

    overlay: str
    broker: str
    totals: Totals
    pubends: dict[str, PubendProof] = field(default_factory=dict)
    records: list[str] = field(default_factory=list)
    """Named values and kept records that cannot be read."""

    @property
    def messages(self) -> int:
        """Messages of all pubends."""
        return sum(each.messages for each in self.pubends.values())

    @property
    def is_whole(self) -> bool:
        """Whether all messages and records can be read."""
        return not self.records and not any(each.damaged for each in self.pubends.values())


def prove(folder: Path, statement: Statement | None, on_read: OnRead) -> Proof:
    """Read the store in a folder whose lock is held; raises ``StoreRefusedError`` if no broker could open it."""
    found = inspect(folder, statement)
    owner = check_found(folder, found)
    proof = Proof(*owner, found.index.totals)
    states = found.index.states
    total = sum(state.message_count for state in states.values()) + proof.totals.named.rows + proof.totals.kept.rows
    done = 0
    with reading(folder) as database:
        for name, state in sorted(states.items()):
            reader = LogReader(database, folder, name, state.number)
            messages = size_bytes = 0
            damaged: list[TickRange] = []
            for part in _parts(reader):
                messages += len(part.messages)
                size_bytes += sum(len(body) for _, body in part.messages)
                if part.damaged is not None:
                    damaged.append(part.damaged.ticks)
                on_read(done + messages, total)
            done += messages
            proof.pubends[name] = PubendProof(messages, size_bytes, state.last_tick, state.lease, tuple(damaged))
        proof.records += _damaged_values(database)
        proof.records += _damaged_kept(database, proof.totals)
        on_read(total, total)
    return proof


def check_found(folder: Path, found: Inspection) -> tuple[str, str]:
    """The overlay and the broker of a store; raises if no broker could open it."""
    if found.problems:
        raise StoreDamagedError(folder, found.problems, can_be_salvaged=found.version == FORMAT_VERSION)
    if found.is_new:
        raise StoreRefusedError(f"there is no store in {folder}")
    if found.version != FORMAT_VERSION or found.owner is None:
        raise StoreVersionError(
            f"store {folder} has format {found.version}: start its broker once, which brings it to {FORMAT_VERSION}"
        )
    return found.owner


def following(part: LogPart) -> Tick | None:
    """The tick from which to read on after a part; None at the end of the log."""
    last = part.last if part.damaged is None else part.damaged.ticks.last
    return None if last >= TICK_MAX else Tick(last + 1)


def _parts(reader: LogReader) -> Iterator[LogPart]:
    first: Tick | None = TICK_MIN
    while first is not None:
        part = reader.part(first, TICK_MAX, bytes_max=PART_BYTES)
        yield part
        first = following(part)


def _damaged_values(database: sqlite3.Connection) -> Iterator[str]:
    with closing(database.execute("SELECT name, stored FROM named")) as rows:
        for name, stored in rows:
            if unseal(name, stored) is None:
                yield f"the named value {name!r} is damaged"


def _damaged_kept(database: sqlite3.Connection, totals: Totals) -> Iterator[str]:
    """Damaged kept records by name, or that their index is damaged."""
    found = Tally()
    try:
        with closing(database.execute("SELECT name, place, checksum FROM kept ORDER BY place")) as rows:
            for name, place, checksum in rows:
                if checksum == kept_checksum(name, place):
                    found.add(checksum)
                if not _is_kept(database, name, place):
                    yield f"the kept record {name!r} is damaged"
    except ROW_ERRORS:
        found = Tally()
    if found != totals.kept:
        yield f"the index of kept records in {FILE_NAME} is damaged"


def _is_kept(database: sqlite3.Connection, name: str, place: int) -> bool:
    with suppress(*ROW_ERRORS):
        (stored,) = database.execute("SELECT stored FROM kept_bodies WHERE place=?", (place,)).fetchone()
        return unseal(name, stored) is not None
    return False
