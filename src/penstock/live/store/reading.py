"""Reads the stored messages of one pubend, and names the ticks of records that are damaged.

``BatchReader`` is for any store; ``LogReader`` reads from SQLite.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from penstock.live.store.batch import BatchDamagedError, unpack_batch
from penstock.live.store.errors import CorruptRecordError, StoreFailedError, StoreFullError
from penstock.live.store.pubend_state import signed, unsigned
from penstock.live.store.starvation import DATABASE_ERRORS, is_starved
from penstock.live.store.totals import ROW_ERRORS, batch_checksum, row_problem
from penstock.model.limits import BODY_BYTES_MAX
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange

__all__ = ["BatchReader", "LogPart", "LogReader", "StoredBatch", "checked_messages"]

_Messages = list[tuple[Tick, bytes]]


@dataclass(slots=True, frozen=True)
class StoredBatch:
    """What the index says of a batch."""

    ticks: TickRange
    message_count: int
    size_bytes: int


@dataclass(slots=True, frozen=True)
class _Batch(StoredBatch):
    """Where a batch is stored."""

    place: int
    body: int
    """The checksum that its bytes begin with."""


@dataclass(slots=True, frozen=True)
class LogPart:
    """The result of a read: all messages from the first tick requested up to ``last``."""

    messages: _Messages
    last: Tick
    damaged: CorruptRecordError | None = None
    """Why the read ended there, if the record right after it cannot be read."""


_AnyBatch = TypeVar("_AnyBatch", bound=StoredBatch)


class BatchReader(ABC, Generic[_AnyBatch]):
    """Reads the log of one pubend batch by batch, whatever they are stored in."""

    @abstractmethod
    def batches(self, first_tick: Tick, last_tick: Tick) -> Generator[_AnyBatch, None, None]:
        """The stored batches that may have messages with these ticks, in order."""

    @abstractmethod
    def unpacked(self, batch: _AnyBatch) -> _Messages:
        """The messages of a batch; raises ``CorruptRecordError`` if they are damaged."""

    def part(self, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> LogPart:
        """Messages with these ticks in order, up to ``bytes_max`` of bodies but at least one, and how far they go."""
        first_tick, last_tick = max(first_tick, TICK_MIN), min(last_tick, TICK_MAX)
        messages: _Messages = []
        room = bytes_max
        with closing(self.batches(first_tick, last_tick)) as batches:
            for batch in batches:
                try:
                    stored = self.unpacked(batch)
                except CorruptRecordError as error:
                    return LogPart(messages, Tick(max(first_tick, batch.ticks.first) - 1), error)
                if first_tick <= batch.ticks.first and batch.ticks.last <= last_tick and batch.size_bytes <= room:
                    messages += stored
                    room -= batch.size_bytes
                    continue
                for tick, body in stored:
                    if first_tick <= tick <= last_tick:
                        if len(body) > room and messages:
                            # Not up to the one that did not fit: asking again from here has the same effect.
                            return LogPart(messages, messages[-1][0])
                        messages.append((tick, body))
                        room -= len(body)
        return LogPart(messages, self._silent_until(last_tick))

    def _silent_until(self, tick: Tick) -> Tick:
        """The last tick before the next stored message, looking from this one upwards."""
        if tick >= TICK_MAX:
            return tick
        with closing(self.batches(Tick(tick + 1), TICK_MAX)) as batches:
            following = next(batches, None)
        if following is None:
            return TICK_MAX
        if following.ticks.first > tick:
            return Tick(following.ticks.first - 1)
        # In the middle of a batch: reading it would cost more than being asked again.
        return tick

    def damaged(self) -> list[TickRange]:
        """Read the whole log; returns the ticks that cannot be read."""
        ranges = []
        with closing(self.batches(TICK_MIN, TICK_MAX)) as batches:
            for batch in batches:
                try:
                    self.unpacked(batch)
                except CorruptRecordError as error:
                    ranges.append(error.ticks)
        return ranges


class LogReader(BatchReader[_Batch]):
    """Reads the log of one pubend, by its number in the tables."""

    def __init__(self, database: sqlite3.Connection, folder: Path, pubend: str, number: int) -> None:
        self._database, self._folder = database, folder
        self._pubend, self._number = pubend, number

    def batches(self, first_tick: Tick, last_tick: Tick) -> Generator[_Batch, None, None]:
        """The stored batches that may have messages with these ticks, in order."""
        if first_tick > last_tick:
            return
        # The batch that begins before the first tick may reach beyond it.
        start = "SELECT max(first) FROM batches WHERE pubend=? AND first<=?"
        (before,) = self._row(self._query(start, self._number, signed(first_tick))) or (None,)
        lowest = signed(first_tick) if before is None else before
        found = "SELECT pubend, first, last, messages, bytes, place, body, checksum FROM batches"
        where = "WHERE pubend=? AND first BETWEEN ? AND ? ORDER BY first"
        with closing(self._query(f"{found} {where}", self._number, lowest, signed(last_tick))) as rows:
            while row := self._row(rows):
                batch = self._batch(row)
                if batch.ticks.last >= first_tick:
                    yield batch

    def _batch(self, row: tuple[int, ...]) -> _Batch:
        """The batch of a row; raises if the row is damaged, since more of the index may be missing then."""
        try:
            _, first, last, messages, size_bytes, place, body, checksum = row
            if batch_checksum((self._number, first, last, messages, size_bytes, place, body)) == checksum:
                return _Batch(TickRange(unsigned(first), unsigned(last)), messages, size_bytes, place, body)
        except ROW_ERRORS as error:
            raise self._unreadable(error) from error
        raise self._unreadable("a row of batches is damaged")

    def unpacked(self, batch: _Batch) -> _Messages:
        """The messages of a batch; raises ``CorruptRecordError`` if they are damaged."""
        try:
            (stored,) = self._database.execute("SELECT stored FROM bodies WHERE place=?", (batch.place,)).fetchone()
            if int.from_bytes(stored[:4]) != batch.body:
                raise BatchDamagedError("its checksum differs from the one in the index")
            return checked_messages(batch, stored)
        except (BatchDamagedError, *DATABASE_ERRORS, TypeError) as error:
            if is_starved(error, self._folder):
                raise self._unreadable(error) from error
            # A missing row counts like one that SQLite cannot reach: the index says what was there.
            raise CorruptRecordError(self._pubend, batch.ticks, batch.message_count) from error

    def _query(self, statement: str, *parameters: int) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, parameters)
        except DATABASE_ERRORS as error:
            raise self._unreadable(error) from error

    def _row(self, rows: sqlite3.Cursor) -> tuple[int, ...] | None:
        try:
            row: tuple[int, ...] | None = rows.fetchone()
        except DATABASE_ERRORS as error:
            raise self._unreadable(error) from error
        return row

    def _unreadable(self, reason: object) -> StoreFailedError | StoreFullError:
        if isinstance(reason, Exception) and is_starved(reason, self._folder):
            return StoreFullError(f"store {self._folder} lacks descriptors or memory: {reason}")
        said = row_problem(reason) if isinstance(reason, Exception) else reason
        return StoreFailedError(f"store {self._folder} cannot be read: {said}")


def checked_messages(batch: StoredBatch, stored: bytes) -> _Messages:
    """The messages in the stored bytes of a batch; raises if they are not those that the index knows of."""
    messages = unpack_batch(batch.ticks.first, stored)
    if (len(messages), messages[-1][0]) != (batch.message_count, batch.ticks.last):
        raise BatchDamagedError("its messages differ from those in the index")
    if len(stored) > BODY_BYTES_MAX and any(len(body) > BODY_BYTES_MAX for _, body in messages):
        # An older broker accepted it. No frame can carry it, and all that follows would wait for ever.
        raise BatchDamagedError("a message in it is larger than any may be")
    return messages
