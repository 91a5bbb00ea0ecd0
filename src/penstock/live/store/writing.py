"""Writes the changes of one commit as rows, except kept records, within the caller's transaction.

Appends to the same pubend are stored as one, cut into batches of bounded size, so that reading one is cheap; states
and totals are changed in copies, which the caller takes over once the transaction is durable. Every row is checked
before it is replaced or dropped: its checksum leaves the totals, and a wrong one would make them wrong for good.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final

from penstock.broker.durable import Append, Change, ForgetPublishers, SetValue, Trim
from penstock.live.store.batch import BatchDamagedError, is_whole, pack_batch, unpack_batch
from penstock.live.store.gathered import Gathered, Message, cut
from penstock.live.store.pubend_state import PubendState, signed, unsigned
from penstock.live.store.publishers import PublisherKey, PublisherRow, Publishers, check_row, padded_count
from penstock.live.store.sealed import seal
from penstock.live.store.totals import (
    Totals,
    batch_checksum,
    named_checksum,
    pubend_checksum,
    publisher_checksum,
)
from penstock.model.tick import TICK_MIN, Tick, TickRange

__all__ = ["Writing"]

_ROWS_MAX: Final = 128
"""Publishers that one statement writes; a power of two."""

_Row = tuple[int, int, int, int, int, int, int]
"""A batch: pubend, first, last, messages, bytes, place, checksum of the body."""


class Writing:
    """One commit in progress."""

    def __init__(
        self,
        database: sqlite3.Connection,
        states: dict[str, PubendState],
        publishers: Publishers,
        totals: Totals,
    ) -> None:
        self._database, self._states = database, states
        self._publishers = publishers
        self._totals = totals
        self.publishers: dict[PublisherKey, PublisherRow | None] = {}
        """New rows of publishers; None for those that were dropped."""
        self._gathered = Gathered(states)
        self.touched = self._gathered.touched
        """The states of the pubends that the commit concerns, as they will be."""

    def check(self, changes: Sequence[Change]) -> None:
        """Refuse changes that break a rule, before anything is written."""
        self._gathered.check(changes)

    def write(self, changes: Sequence[Change]) -> None:
        """Write everything that was checked."""
        gathered = self._gathered
        for pubend, messages in gathered.appended.items():
            state = self.touched[pubend]
            if not state.number or pubend in gathered.leased:
                self._put_pubend(pubend, state)
            for ticks in gathered.lost.get(pubend, ()):
                self._put_lost(state, ticks)
            for batch in cut(messages):
                self._put_batch(state, batch)
        self._put_sequences([change for change in changes if isinstance(change, Append) and change.sequences])
        for change in changes:
            if isinstance(change, Trim):
                self._trim(change)
        for change in changes:
            self._write_rest(change)

    def _write_rest(self, change: Change) -> None:
        match change:
            case ForgetPublishers(pubend, below_tick):
                self._forget(self._gathered.state_of(pubend).number, signed(below_tick))
            case SetValue(name, value):
                self._set_value(name, value)

    def _forget(self, pubend: int, below: int) -> None:
        where = "FROM publishers WHERE pubend=? AND tick<?"
        found = self._database.execute(f"SELECT publisher, sequence, tick, checksum {where}", (pubend, below))
        for publisher, sequence, tick, checksum in found:
            check_row(publisher_checksum, (pubend, publisher, sequence, tick), checksum)
            self._totals.publishers.remove(checksum)
            self.publishers[pubend, publisher] = None
        self._database.execute(f"DELETE {where}", (pubend, below))

    def _set_value(self, name: str, value: bytes | None) -> None:
        former = self._database.execute("SELECT stored FROM named WHERE name=?", (name,)).fetchone()
        if former is not None:
            self._totals.named.remove(named_checksum(name, former[0]))
        if value is None:
            self._database.execute("DELETE FROM named WHERE name=?", (name,))
            return
        stored = seal(name, value)
        self._totals.named.add(named_checksum(name, stored))
        self._database.execute("INSERT OR REPLACE INTO named VALUES (?, ?)", (name, stored))

    def _put_pubend(self, pubend: str, state: PubendState) -> None:
        lease = None if state.lease is None else signed(state.lease)
        last = None if state.last_tick is None else signed(state.last_tick)
        if state.number:
            self._totals.pubends.remove(state.checksum)
        else:
            numbers = [each.number for known in (self._states, self.touched) for each in known.values()]
            state.number = max(numbers) + 1
        row = (state.number, pubend, lease, last, signed(state.trimmed_below))
        state.checksum = pubend_checksum(*row)
        self._totals.pubends.add(state.checksum)
        self._totals.highest_tick = max(self._totals.highest_tick, state.lease or 0)
        self._database.execute("INSERT OR REPLACE INTO pubends VALUES (?, ?, ?, ?, ?, ?)", (*row, state.checksum))

    def _put_batch(self, state: PubendState, batch: Sequence[Message]) -> None:
        first, last = batch[0][0], batch[-1][0]
        size_bytes = sum(len(body) for _, body in batch)
        stored = pack_batch(batch)
        place = self._database.execute("INSERT INTO bodies (stored) VALUES (?)", (stored,)).lastrowid
        assert place
        body = int.from_bytes(stored[:4])
        self._put_row(state, (state.number, signed(first), signed(last), len(batch), size_bytes, place, body))

    def _put_lost(self, state: PubendState, ticks: TickRange) -> None:
        """Store a batch without a body, which reads report as damaged."""
        row = (state.number, signed(ticks.first), signed(ticks.last), 0, 0, 0, 0)
        self._put_row(state, row)

    def _put_row(self, state: PubendState, row: _Row) -> None:
        """Store a row of the index above all others of its pubend."""
        first, last = unsigned(row[1]), unsigned(row[2])
        checksum = batch_checksum(row)
        self._totals.batches.add(checksum)
        self._totals.highest_tick = max(self._totals.highest_tick, last)
        self._database.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum))
        if state.first_tick is None or first < state.first_tick:
            state.first_tick = first
        state.last_tick = last if state.last_tick is None else max(last, state.last_tick)
        state.message_count += row[3]
        state.size_bytes += row[4]

    def _put_sequences(self, changes: Sequence[Append]) -> None:
        """Write the rows of publishers, many per statement: between statements a busy event loop takes the GIL."""
        highest: dict[tuple[int, bytes], tuple[int, int]] = {}
        for change in changes:
            state = self.touched[change.pubend]
            tick = signed(change.messages[-1][0] if change.messages else state.last_tick or TICK_MIN)
            for publisher, sequence in change.sequences.items():
                key = (state.number, publisher)
                if (former := highest.get(key)) is None:
                    highest[key] = (sequence, tick)
                else:
                    highest[key] = (max(sequence, former[0]), max(tick, former[1]))
        known = self._publishers.known(highest.keys())
        rows: list[tuple[int, bytes, int, int, int]] = []
        replaced = digest = 0
        for key, (sequence, tick) in highest.items():
            if (stored := known.get(key)) is not None:
                replaced += 1
                digest ^= stored[2]
                # Not max(): it takes as long as the rest of this loop, and commits have hundreds of publishers.
                if stored[0] > sequence:  # noqa: PLR1730
                    sequence = stored[0]  # noqa: PLW2901
                if stored[1] > tick:  # noqa: PLR1730
                    tick = stored[1]  # noqa: PLW2901
            checksum = publisher_checksum(*key, sequence, tick)
            digest ^= checksum
            rows.append((*key, sequence, tick, checksum))
            self.publishers[key] = (sequence, tick, checksum)
        self._totals.publishers.rows += len(rows) - replaced
        self._totals.publishers.digest ^= digest
        for start in range(0, len(rows), _ROWS_MAX):
            part = rows[start : start + _ROWS_MAX]
            # Repeating the last row does no harm, and makes for few different statements, which SQLite keeps prepared.
            part += part[-1:] * (padded_count(len(part)) - len(part))
            self._database.execute(_insert_publishers(len(part)), [*chain.from_iterable(part)])

    def _trim(self, change: Trim) -> None:
        state = self._gathered.touch(change.pubend)
        if change.below_tick <= state.trimmed_below:
            return
        state.trimmed_below, at_most = change.below_tick, change.batches_max
        below = signed(change.below_tick)
        found = self._database.execute(
            "SELECT pubend, first, last, messages, bytes, place, body, checksum FROM batches "
            "WHERE pubend=? AND first<? ORDER BY first LIMIT ?",
            (state.number, below, at_most),
        ).fetchall()
        for *columns, checksum in found:
            row: _Row = tuple(columns)
            check_row(lambda *row: batch_checksum(row), row, checksum)
            if row[2] < below:
                self._drop(state, row, checksum)
            else:
                self._shorten(state, change.below_tick, row, checksum)
        oldest = "SELECT min(first) FROM batches WHERE pubend=?"
        (first,) = self._database.execute(oldest, (state.number,)).fetchone()
        state.first_tick = None if first is None else unsigned(first)
        if state.first_tick is not None:
            # If later commits have to drop more, the bound is where this one ended.
            state.trimmed_below = min(change.below_tick, state.first_tick)
        self._put_pubend(change.pubend, state)

    def _drop(self, state: PubendState, row: _Row, checksum: int) -> None:
        _, first, _, messages, size_bytes, place, body = row
        self._drop_body(first, place, body)
        self._database.execute("DELETE FROM batches WHERE pubend=? AND first=?", (state.number, first))
        self._totals.batches.remove(checksum)
        state.message_count -= messages
        state.size_bytes -= size_bytes

    def _drop_body(self, first: int, place: int, body: int) -> None:
        """Free the bytes of a batch, unless they are damaged.

        Damaged pages may point into those of other batches, and freeing them would free those, too: they stay unused.
        """
        try:
            found = self._database.execute("SELECT stored FROM bodies WHERE place=?", (place,)).fetchone()
            if found is None or int.from_bytes(found[0][:4]) != body or not is_whole(unsigned(first), found[0]):
                return
        except (sqlite3.DatabaseError, TypeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not _is_corrupt(error):
                raise
            return
        self._database.execute("DELETE FROM bodies WHERE place=?", (place,))

    def _shorten(self, state: PubendState, below: Tick, row: _Row, checksum: int) -> None:
        """Keep the later part of the batch in which a trim ends."""
        pubend, first, last, messages, size_bytes, place, body = row
        try:
            (stored,) = self._database.execute("SELECT stored FROM bodies WHERE place=?", (place,)).fetchone()
            if int.from_bytes(stored[:4]) != body:
                raise BatchDamagedError("its checksum differs from the one in the index")
            kept = [message for message in unpack_batch(unsigned(first), stored) if message[0] >= below]
        except (BatchDamagedError, sqlite3.DatabaseError, TypeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not _is_corrupt(error):
                raise
            # It must stay, or its ticks would look like silence; under its new first tick it is as damaged as before.
            changed = batch_checksum((pubend, signed(below), last, messages, size_bytes, place, body))
            self._totals.batches.remove(checksum)
            self._totals.batches.add(changed)
            where = (signed(below), changed, state.number, first)
            self._database.execute("UPDATE batches SET first=?, checksum=? WHERE pubend=? AND first=?", where)
            return
        self._drop(state, row, checksum)
        self._put_batch(state, kept)


@cache
def _insert_publishers(rows: int) -> str:
    marks = ", ".join(["(?, ?, ?, ?, ?)"] * rows)
    return f"INSERT OR REPLACE INTO publishers VALUES {marks}"  # noqa: S608 - question marks


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT
