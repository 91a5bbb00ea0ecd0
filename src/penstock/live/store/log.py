"""The durable logs of a broker's pubends; leases, sequence numbers, named values and kept records beside them.

Everything in one commit becomes durable together or not at all, by one sync: a caller gathers what is waiting (group
commit) and acknowledges when ``commit`` has returned. Synchronous, and confined to the thread that opened it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from typing import Any

from penstock.broker.durable import Append, Change, Recovered, RecoveredPubend, Trim, space_bytes
from penstock.live.store.batch import BatchDamagedError, unpack_batch
from penstock.live.store.database import FILE_NAME, Recovery, open_database
from penstock.live.store.errors import CorruptRecordError, CorruptValueError, StoreFailedError, StoreFullError
from penstock.live.store.kept import KeptFound, KeptPart, KeptRecords
from penstock.live.store.pubend_state import PubendState, load_states, signed, unsigned
from penstock.live.store.reserve import RESERVE_BYTES, Reserve
from penstock.live.store.sealed import unseal
from penstock.live.store.writing import Writing
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange

__all__ = ["LogPart", "LogStore"]

_SLACK_BYTES = 1 << 20
_OPENING_BYTES = 16 << 20
_RESERVE = "reserve"

_Messages = list[tuple[Tick, bytes]]


@dataclass(slots=True, frozen=True)
class _Batch:
    """Where a stored batch is."""

    ticks: TickRange
    message_count: int
    size_bytes: int
    place: int


@dataclass(slots=True, frozen=True)
class LogPart:
    """What a read found: all messages from the first tick asked for up to the last one given here."""

    messages: _Messages
    last: Tick
    damaged: CorruptRecordError | None = None
    """What made the read end there, if a record right behind cannot be read."""


class LogStore:
    """The logs of all pubends of a broker, in one folder."""

    def __init__(self, database: sqlite3.Connection, folder: Path, recovery: Recovery, reserve_bytes: int) -> None:
        self._database, self._folder = database, folder
        self._reserve = Reserve(folder / _RESERVE, reserve_bytes)
        self._reserve.hold()
        self._states = load_states(database)
        self._kept = KeptRecords(database)
        self.kept_found = KeptFound()
        """Of the kept records, what was found by the last ``recovered``."""
        self._failure = ""
        self.recovery = recovery

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        overlay: str,
        broker: str,
        bytes_max: int | None = None,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> LogStore:
        """Open or make the store in a folder; refuses one that is foreign, of another format or in use.

        At ``bytes_max`` of file size the store is full, like a disk; the file never shrinks, but trimmed space is
        used again. The reserve is disk space set aside for trims on a full disk.
        """
        # Opening needs some space, too: what it was set aside for is to make room.
        if path.is_dir() and disk_usage(path).free < _OPENING_BYTES:
            (path / _RESERVE).unlink(missing_ok=True)
        database, recovery = open_database(path, overlay=overlay, broker=broker, bytes_max=bytes_max)
        try:
            return cls(database, path, recovery, reserve_bytes)
        except (sqlite3.Error, LookupError, TypeError) as error:
            database.close()
            raise StoreFailedError(f"store {path} cannot be read, its index is damaged: {error!r}") from error

    def close(self) -> None:
        """Let go of the files; what was committed stays, and what was not has never been there."""
        self._database.close()

    # Writing.

    def commit(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, all or none: appends, then trims, then the rest in their order."""
        if self._failure:
            raise StoreFailedError(self._failure)
        if not self._reserve.held:
            self._check_room(_body_bytes(changes))
        try:
            self._commit(changes)
        except StoreFullError:
            # Whatever only makes room, or is small, may use the reserve; a log that was moved begins anew in place.
            if not _body_bytes(changes):
                self._reserve.release()
            if not self._moved_log():
                raise
            self._commit(changes)

    def _commit(self, changes: Sequence[Change]) -> None:
        # States are copied on first use, so that a failed commit leaves the old ones.
        writing = Writing(self._database, self._states)
        writing.check(changes)
        try:
            self._database.execute("BEGIN IMMEDIATE")
            writing.write(changes)
            total = self._kept.write(changes)
            self._database.execute("COMMIT")
        except BaseException as error:
            self._roll_back(error)
            raise
        self._states.update(writing.touched)
        self._kept.total = total

    def _check_room(self, new_bytes: int) -> None:
        """Without the reserve, messages may only go where trimmed ones have been: the rest is for trims."""
        if new_bytes and not self._reserve.hold() and self._free_bytes() < 2 * new_bytes + _SLACK_BYTES:
            raise StoreFullError(f"store {self._folder} is full: its reserve is in use until there is space")

    def _free_bytes(self) -> int:
        """Bytes of trimmed messages in the file that can be used again."""
        (pages,) = self._query("PRAGMA freelist_count").fetchone()
        (page_bytes,) = self._query("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)

    def _moved_log(self) -> bool:
        """Try to move the write-ahead log into the database; says whether all of it went."""
        try:
            busy, frames, moved = self._database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error as error:
            if _is_full(error):
                return False
            raise self._failed(error) from error
        return not busy and bool(frames == moved)

    def trim(self, pubend: str, below_tick: Tick) -> None:
        """Drop all messages below a tick, in as many commits as it takes."""
        while self.trimmed_below(pubend) < below_tick:
            self.commit([Trim(pubend, below_tick)])

    def _roll_back(self, error: BaseException) -> None:
        """Undo what was begun, and raise a better error for one of the database's."""
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if self._kept.is_damaged:
                # Otherwise every life would fail at the same record.
                self._kept.put_aside()
        except sqlite3.Error as second:
            self._failure = f"store {self._folder} failed, and could not undo: {second}"
            raise StoreFailedError(self._failure) from error
        if not isinstance(error, sqlite3.Error):
            return
        if _is_full(error):
            raise StoreFullError(f"store {self._folder} is full: {error}; nothing of the commit was written") from error
        raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreFailedError:
        """Refuse from now on: after a failed sync the system may have dropped bytes, and will not say so twice."""
        self._failure = f"store {self._folder} failed: {error}; open it anew"
        return StoreFailedError(self._failure)

    # Reading.

    def pubends(self) -> list[str]:
        """The names of all pubends that ever had a change, sorted."""
        return sorted(self._states)

    def first_tick(self, pubend: str) -> Tick | None:
        """The tick of the oldest message that is kept."""
        return self._state(pubend).first_tick

    def last_tick(self, pubend: str) -> Tick | None:
        """The tick of the newest message there ever was, even if it has been trimmed since."""
        return self._state(pubend).last_tick

    def trimmed_below(self, pubend: str) -> Tick:
        """The tick below which messages were dropped."""
        return self._state(pubend).trimmed_below

    def lease(self, pubend: str) -> Tick | None:
        """The tick up to which the pubend may have promised something."""
        return self._state(pubend).lease

    def message_count(self, pubend: str) -> int:
        """Messages that are kept, damaged ones included."""
        return self._state(pubend).message_count

    def size_bytes(self, pubend: str) -> int:
        """Bytes of the bodies that are kept."""
        return self._state(pubend).size_bytes

    def file_bytes(self) -> int:
        """Bytes of the store's files."""
        return sum(each.stat().st_size for each in self._folder.glob(f"{FILE_NAME}*"))

    def recovered(self) -> Recovered:
        """All that a broker must know of its earlier life, without the messages.

        Values that are damaged are left out, for one of them must not keep the logs from being served: whoever needs
        one finds it missing, and ``damaged_values`` names them. For kept records ``kept_found`` does.
        """
        sequences: dict[int, dict[bytes, int]] = {}
        for number, publisher, sequence in self._all("SELECT pubend, publisher, sequence FROM publishers"):
            sequences.setdefault(number, {})[publisher] = sequence
        pubends = {
            name: RecoveredPubend(
                lease=state.lease,
                last_tick=state.last_tick,
                first_tick=state.first_tick,
                trimmed_below=state.trimmed_below,
                size_bytes=state.size_bytes,
                sequences=sequences.get(state.number, {}),
            )
            for name, state in sorted(self._states.items())
        }
        values = {name: value for name, value in self._values() if value is not None}
        try:
            self.kept_found = self._kept.at_start()
        except sqlite3.DatabaseError as error:
            raise self._unreadable(error) from error
        return Recovered(pubends, values, self.kept_found.records)

    def damaged_values(self) -> list[str]:
        """The names of values that cannot be read."""
        return [name for name, value in self._values() if value is None]

    def read_kept(self, names: Sequence[str], *, bytes_max: int) -> KeptPart:
        """Kept records by name, up to so many bytes but at least one; None for what is missing or damaged."""
        return self._kept.read(names, bytes_max=bytes_max)

    def read_part(self, pubend: str, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> LogPart:
        """Messages with these ticks in order, up to so many bytes of bodies but at least one, and how far that goes."""
        first_tick, last_tick = max(first_tick, TICK_MIN), min(last_tick, TICK_MAX)
        messages: _Messages = []
        room = bytes_max
        with closing(self._batches(pubend, first_tick, last_tick)) as batches:
            for batch in batches:
                try:
                    stored = self._unpacked(pubend, batch)
                except CorruptRecordError as error:
                    return LogPart(messages, Tick(max(first_tick, batch.ticks.first) - 1), error)
                if first_tick <= batch.ticks.first and batch.ticks.last <= last_tick and batch.size_bytes <= room:
                    messages += stored
                    room -= batch.size_bytes
                    continue
                for tick, body in stored:
                    if first_tick <= tick <= last_tick:
                        if len(body) > room and messages:
                            # Not up to the one that did not fit: the broker may ask anew from here, to the same effect.
                            return LogPart(messages, messages[-1][0])
                        messages.append((tick, body))
                        room -= len(body)
        return LogPart(messages, self._silent_until(pubend, last_tick))

    def _silent_until(self, pubend: str, tick: Tick) -> Tick:
        """The last tick before the next stored message, looking from this one upwards."""
        if tick >= TICK_MAX:
            return tick
        with closing(self._batches(pubend, Tick(tick + 1), TICK_MAX)) as batches:
            following = next(batches, None)
        if following is None:
            return TICK_MAX
        if following.ticks.first > tick:
            return Tick(following.ticks.first - 1)
        # In the midst of a batch: looking into it would cost more than being asked again.
        return tick

    def read(self, pubend: str, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> _Messages:
        """The messages of ``read_part``; nothing comes back only if there is nothing more.

        A damaged record is raised when it would be the first.
        """
        part = self.read_part(pubend, first_tick, last_tick, bytes_max=bytes_max)
        if part.damaged is not None and not part.messages:
            raise part.damaged
        return part.messages

    def damaged(self, pubend: str) -> list[TickRange]:
        """Read all that is stored of a pubend, and name what cannot be read."""
        ranges = []
        with closing(self._batches(pubend, TICK_MIN, TICK_MAX)) as batches:
            for batch in batches:
                try:
                    self._unpacked(pubend, batch)
                except CorruptRecordError as error:
                    ranges.append(error.ticks)
        return ranges

    def sequence_of(self, pubend: str, publisher: bytes) -> int | None:
        """The highest sequence number of a publisher, if it is remembered."""
        key = (self._state(pubend).number, publisher)
        found = self._query("SELECT sequence FROM publishers WHERE pubend=? AND publisher=?", *key).fetchone()
        return None if found is None else int(found[0])

    def publisher_count(self, pubend: str) -> int:
        """Publishers whose sequence numbers are remembered."""
        found = self._query("SELECT count(*) FROM publishers WHERE pubend=?", self._state(pubend).number).fetchone()
        return int(found[0])

    def value(self, name: str) -> bytes | None:
        """A named value, if it was set."""
        found = self._query("SELECT stored FROM named WHERE name=?", name).fetchone()
        if found is None:
            return None
        value = unseal(name, found[0])
        if value is None:
            raise CorruptValueError(name)
        return value

    def _values(self) -> list[tuple[str, bytes | None]]:
        """All named values, by name; none in place of those that are damaged."""
        found = self._all("SELECT name, stored FROM named ORDER BY name")
        return [(name, unseal(name, stored)) for name, stored in found]

    def _state(self, pubend: str) -> PubendState:
        return self._states.get(pubend) or PubendState()

    def _batches(self, pubend: str, first_tick: Tick, last_tick: Tick) -> Generator[_Batch, None, None]:
        """The stored batches that may have messages with these ticks, in order."""
        if first_tick > last_tick:
            return
        number = self._state(pubend).number
        # The batch that begins before the first tick may reach beyond it.
        start = "SELECT max(first) FROM batches WHERE pubend=? AND first<=?"
        (before,) = self._query(start, number, signed(first_tick)).fetchone()
        lowest = signed(first_tick) if before is None else before
        found = "SELECT first, last, messages, bytes, place FROM batches WHERE pubend=? AND first BETWEEN ? AND ?"
        with closing(self._query(f"{found} ORDER BY first", number, lowest, signed(last_tick))) as rows:
            while row := self._next(rows):
                first, last, messages, size_bytes, place = row
                ticks = TickRange(unsigned(first), unsigned(last))
                if ticks.last >= first_tick:
                    yield _Batch(ticks, messages, size_bytes, place)

    def _unpacked(self, pubend: str, batch: _Batch) -> _Messages:
        try:
            (stored,) = self._database.execute("SELECT stored FROM bodies WHERE place=?", (batch.place,)).fetchone()
            messages = unpack_batch(batch.ticks.first, stored)
            if (len(messages), messages[-1][0]) != (batch.message_count, batch.ticks.last):
                raise BatchDamagedError("it is not what the index says")
            return messages
        except (BatchDamagedError, sqlite3.DatabaseError, TypeError) as error:
            # A row that is missing counts like one whose page SQLite cannot follow: the index says what was there.
            raise CorruptRecordError(pubend, batch.ticks, batch.message_count) from error

    def _query(self, statement: str, *parameters: int | str | bytes) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, parameters)
        except sqlite3.DatabaseError as error:
            raise self._unreadable(error) from error

    def _all(self, statement: str) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._unreadable(error) from error

    def _next(self, rows: sqlite3.Cursor) -> tuple[int, ...] | None:
        try:
            row: tuple[int, ...] | None = rows.fetchone()
        except sqlite3.DatabaseError as error:
            raise self._unreadable(error) from error
        return row

    def _unreadable(self, error: sqlite3.DatabaseError) -> StoreFailedError:
        return StoreFailedError(f"store {self._folder} cannot be read: {error}")


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


def _body_bytes(changes: Sequence[Change]) -> int:
    """What the changes need; more than nothing for an empty message, too."""
    return sum(space_bytes(each) + (len(each.messages) if isinstance(each, Append) else 0) for each in changes)
