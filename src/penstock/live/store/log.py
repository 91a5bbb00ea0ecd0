"""The durable logs of a broker's pubends, with leases, sequence numbers, named values and kept records beside them.

Everything in one commit becomes durable together or not at all, by one sync: a caller gathers what is pending (group
commit) and acknowledges when ``commit`` has returned. Synchronous, and confined to the thread that opened it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage
from typing import Any

from penstock.broker.durable import (
    Append,
    Change,
    MarkLost,
    Recovered,
    RecoveredPubend,
    Trim,
    parts_of,
    space_bytes,
)
from penstock.live.store.backing_up import Between, copy_database
from penstock.live.store.database import FILE_NAME, OpenDatabase, limit_pages, open_database
from penstock.live.store.errors import CorruptValueError, StoreFailedError, StoreFullError
from penstock.live.store.inspecting import RESERVE_NAME, size_of
from penstock.live.store.kept import KeptFound, KeptPart, KeptRecords
from penstock.live.store.pubend_state import PubendState, unsigned
from penstock.live.store.publishers import PublisherMark, Publishers
from penstock.live.store.reading import LogPart, LogReader
from penstock.live.store.reserve import RESERVE_BYTES, Reserve
from penstock.live.store.sealed import unseal
from penstock.live.store.starvation import DATABASE_ERRORS, is_starved
from penstock.live.store.totals import ROW_ERRORS, publisher_checksum, row_problem
from penstock.live.store.writing import Writing
from penstock.model.tick import Tick, TickRange

__all__ = ["LogStore"]

_SLACK_BYTES = 1 << 20
_SMALL_BYTES = 256 * 1024
"""How far one commit that makes room, or is small, may exceed the limit of the file, or its size if that is larger."""
_OPENING_BYTES = 16 << 20

_Messages = list[tuple[Tick, bytes]]


class LogStore:
    """The logs of all pubends of a broker, in one folder."""

    def __init__(self, opened: OpenDatabase, folder: Path, *, reserve_bytes: int, bytes_max: int | None = None) -> None:
        self._database, self._folder = opened.connection, folder
        self._bytes_max = bytes_max
        self._books = opened.books
        self._reserve = Reserve(folder / RESERVE_NAME, reserve_bytes)
        self._reserve.hold()
        self._states = opened.states
        self._publishers = Publishers(self._database)
        self._kept = KeptRecords(self._database, self._books)
        self.kept_found = KeptFound()
        """The kept records that the last ``recovered`` found."""
        self._failure = ""
        self.recovery = opened.recovery

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
        """Open or make the store in a folder; refuses one that is foreign, damaged, of another format or in use.

        At a file size of ``bytes_max`` the store is full, like a disk, except for trims and named values, which find a
        little room each time; the file never shrinks, but trimmed space is reused. The reserve is disk space set aside
        for the same purpose on a full disk.
        """
        # Opening needs some space, too, and the reserve is there to make room.
        # Without a database it stays, since it shows that there was a store.
        if size_of(path / FILE_NAME) and disk_usage(path).free < _OPENING_BYTES:
            (path / RESERVE_NAME).unlink(missing_ok=True)
        opened = open_database(path, overlay=overlay, broker=broker, bytes_max=bytes_max)
        return cls(opened, path, reserve_bytes=reserve_bytes, bytes_max=bytes_max)

    def close(self) -> None:
        """Close the files; committed changes stay, and others leave no trace."""
        self._database.close()
        self._books.close()

    @property
    def replicas(self) -> int:
        """How many other machines the last commit has reached: the folder is all there is."""
        return 0

    # Writing.

    def back_up(self, folder: Path, between: Between) -> None:
        """Copy the store into an empty folder; between slices the caller may commit and read, and the copy has that.

        Raises ``BackupError`` if the copy cannot be made. The copy is not synced.
        """
        copy_database(self._database, folder, between)

    def leave_out_syncs(self) -> None:
        """Stop syncing: for a store that is not relied on until the caller has synced its files."""
        self._database.execute("PRAGMA synchronous=OFF")

    def commit(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, all or none: appends, then trims, then the rest in their order."""
        if self._failure:
            raise StoreFailedError(self._failure)
        if not self._reserve.held:
            self._check_room(_body_bytes(changes))
        try:
            self._commit(changes)
        except StoreFullError:
            # Changes that only make room, or are small, may use the reserve; a log that was moved is overwritten.
            is_small = not _body_bytes(changes)
            if is_small:
                self._reserve.release()
                self._make_way()
            try:
                if not self.move_log():
                    raise
                self._commit(changes)
            finally:
                if is_small:
                    self._limit_to(self._bytes_max)

    def _limit_to(self, bytes_max: int | None) -> None:
        """Let the file grow up to a size, or no further if it is already larger."""
        if bytes_max is not None:
            limit_pages(self._database, bytes_max)

    def _make_way(self) -> None:
        """Let the file grow a little for changes that make room, or are small, however large it is.

        Last values that are kept of trimmed messages may take more room than these did. Trims must not get stuck for
        that: whoever keeps named values bounds them, and only messages have to wait at the limit of the file.
        """
        if self._bytes_max is not None:
            (pages,) = self._query("PRAGMA page_count").fetchone()
            (page_bytes,) = self._query("PRAGMA page_size").fetchone()
            self._limit_to(max(self._bytes_max, pages * page_bytes) + _SMALL_BYTES)

    def _commit(self, changes: Sequence[Change]) -> None:
        # States are copied on first use, and totals here, so that a failed commit leaves the old ones.
        totals = self._books.totals.next()
        writing = Writing(self._database, self._states, self._publishers, totals)
        writing.check(changes)
        try:
            self._database.execute("BEGIN IMMEDIATE")
            writing.write(changes)
            self._kept.write(changes, totals)
            self._books.write(totals)
            self._database.execute("COMMIT")
        except BaseException as error:
            self._roll_back(error)
            raise
        self._states.update(writing.touched)
        self._publishers.adopt(writing.publishers)
        self._books.adopt(totals)

    def _check_room(self, new_bytes: int) -> None:
        """Raise if messages do not fit: without the reserve they only get trimmed space; the rest is for trims."""
        if new_bytes and not self._reserve.hold() and self._free_bytes() < 2 * new_bytes + _SLACK_BYTES:
            raise StoreFullError(f"store {self._folder} is full: its reserve is in use until there is space")

    def _free_bytes(self) -> int:
        """Bytes of trimmed messages in the file that can be reused."""
        (pages,) = self._query("PRAGMA freelist_count").fetchone()
        (page_bytes,) = self._query("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)

    def move_log(self) -> bool:
        """Try to move the write-ahead log into the database; returns whether all of it was moved."""
        try:
            busy, frames, moved = self._database.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        except sqlite3.Error as error:
            if _is_full(error) or is_starved(error, self._folder):
                return False
            raise self._failed(error) from error
        return not busy and bool(frames == moved)

    def mark_lost(self, pubend: str, ticks: TickRange) -> None:
        """Record that messages with these ticks, above all others, may have been lost: reads report them as damaged."""
        self._commit([MarkLost(pubend, ticks)])

    def trim(self, pubend: str, below_tick: Tick) -> None:
        """Drop all messages below a tick, in as many commits as it takes."""
        while self.trimmed_below(pubend) < below_tick:
            self.commit([Trim(pubend, below_tick)])

    def _roll_back(self, error: BaseException) -> None:
        """Undo the transaction, and raise a better error in place of the database's."""
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if self._kept.is_damaged:
                # Otherwise every run would fail at the same record.
                self._kept.doubt()
        except sqlite3.Error as second:
            self._failure = f"store {self._folder} failed, and could not undo: {second}"
            raise StoreFailedError(self._failure) from error
        if isinstance(error, StoreFailedError):
            self._failure = f"store {self._folder} failed: {error}"
            raise StoreFailedError(self._failure) from error
        if is_starved(error, self._folder):
            problem = f"store {self._folder} lacks descriptors or memory: {error}; nothing of the commit was written"
            raise StoreFullError(problem) from error
        if not isinstance(error, sqlite3.Error):
            return
        if _is_full(error):
            raise StoreFullError(f"store {self._folder} is full: {error}; nothing of the commit was written") from error
        raise self._failed(error) from error

    def _failed(self, error: sqlite3.Error) -> StoreFailedError:
        """Refuse from now on: after a failed sync the system may have dropped bytes, and will not report it twice."""
        self._failure = f"store {self._folder} failed: {error}; {_remedy(self._folder, error)}"
        return StoreFailedError(self._failure)

    # Reading.

    def pubends(self) -> list[str]:
        """The names of all pubends that ever had a change, sorted."""
        return sorted(self._states)

    def first_tick(self, pubend: str) -> Tick | None:
        """The tick of the oldest message in the log."""
        return self._state(pubend).first_tick

    def last_tick(self, pubend: str) -> Tick | None:
        """The tick of the newest message there ever was, even if it has been trimmed since."""
        return self._state(pubend).last_tick

    def trimmed_below(self, pubend: str) -> Tick:
        """The tick below which messages were dropped."""
        return self._state(pubend).trimmed_below

    def lease(self, pubend: str) -> Tick | None:
        """The tick up to which the pubend may have made promises."""
        return self._state(pubend).lease

    def message_count(self, pubend: str) -> int:
        """Number of messages in the log, damaged ones included."""
        return self._state(pubend).message_count

    def size_bytes(self, pubend: str) -> int:
        """Bytes of the bodies in the log."""
        return self._state(pubend).size_bytes

    def file_bytes(self) -> int:
        """Bytes of the store's files."""
        return sum(each.stat().st_size for each in self._folder.glob(f"{FILE_NAME}*"))

    def recovered(self) -> Recovered:
        """All that a broker must know of its earlier run, without the messages.

        A damaged value does not keep the logs from being served: it is empty, so that its reader knows that something
        was there, and ``damaged_values`` names it. For kept records ``kept_found`` does.
        """
        sequences: dict[int, dict[bytes, int]] = {}
        for number, publisher, sequence, _ in self._publisher_rows():
            sequences.setdefault(number, {})[publisher] = sequence
        pubends = {
            name: RecoveredPubend(
                lease=state.lease,
                last_tick=state.last_tick,
                first_tick=state.first_tick,
                trimmed_below=state.trimmed_below,
                parts=self._parts(state),
                sequences=sequences.get(state.number, {}),
            )
            for name, state in sorted(self._states.items())
        }
        values = {name: value or b"" for name, value in self._values()}
        try:
            self.kept_found = self._kept.at_start()
        except DATABASE_ERRORS as error:
            raise self._unreadable(error) from error
        return Recovered(pubends, values, self.kept_found.records)

    def damaged_values(self) -> list[str]:
        """The names of values that cannot be read."""
        return [name for name, value in self._values() if value is None]

    def read_kept(self, names: Sequence[str], *, bytes_max: int) -> KeptPart:
        """Read kept records by name, up to ``bytes_max`` but at least one; None for a missing or damaged one."""
        return self._kept.read(names, bytes_max=bytes_max)

    def read_part(self, pubend: str, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> LogPart:
        """Messages with these ticks in order, up to ``bytes_max`` of bodies but at least one, and how far they go."""
        reader = LogReader(self._database, self._folder, pubend, self._state(pubend).number)
        return reader.part(first_tick, last_tick, bytes_max=bytes_max)

    def read(self, pubend: str, first_tick: Tick, last_tick: Tick, *, bytes_max: int) -> _Messages:
        """The messages of ``read_part``; empty only if there are no more.

        Raises ``CorruptRecordError`` if a damaged record would be the first.
        """
        part = self.read_part(pubend, first_tick, last_tick, bytes_max=bytes_max)
        if part.damaged is not None and not part.messages:
            raise part.damaged
        return part.messages

    def damaged(self, pubend: str) -> list[TickRange]:
        """Read the whole log of a pubend; returns the ticks that cannot be read."""
        return LogReader(self._database, self._folder, pubend, self._state(pubend).number).damaged()

    def publishers(self, pubend: str) -> list[PublisherMark]:
        """All publishers that are remembered, in the order of their ticks."""
        number = self._state(pubend).number
        rows = [row for row in self._publisher_rows() if row[0] == number]
        return sorted(PublisherMark(unsigned(tick), publisher, sequence) for _, publisher, sequence, tick in rows)

    def _publisher_rows(self) -> list[tuple[int, bytes, int, int]]:
        """Rows of publishers, each verified by its checksum."""
        rows = self._all("SELECT pubend, publisher, sequence, tick, checksum FROM publishers")
        try:
            for *row, checksum in rows:
                if publisher_checksum(*row) != checksum:
                    raise StoreFailedError(f"store {self._folder} cannot be read: a row of publishers is damaged")
        except ROW_ERRORS as error:
            raise self._unreadable(error) from error
        return [(pubend, publisher, sequence, tick) for pubend, publisher, sequence, tick, _ in rows]

    def value(self, name: str) -> bytes | None:
        """A named value, if it was set."""
        found = self._query("SELECT stored FROM named WHERE name=?", name).fetchone()
        if found is None:
            return None
        value = unseal(name, found[0])
        if value is None:
            raise CorruptValueError(name)
        return value

    def _parts(self, state: PubendState) -> tuple[tuple[int, int], ...]:
        """The parts of a pubend's log, as a broker needs them to trim by size."""
        rows = self._all("SELECT last, bytes FROM batches WHERE pubend=? ORDER BY first", state.number)
        return parts_of(((unsigned(last), size_bytes) for last, size_bytes in rows), state.size_bytes)

    def _values(self) -> list[tuple[str, bytes | None]]:
        """All named values with their names; None for damaged ones."""
        found = self._all("SELECT name, stored FROM named ORDER BY name")
        return [(name, unseal(name, stored)) for name, stored in found]

    def _state(self, pubend: str) -> PubendState:
        return self._states.get(pubend) or PubendState()

    def _query(self, statement: str, *parameters: int | str | bytes) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, parameters)
        except DATABASE_ERRORS as error:
            raise self._unreadable(error) from error

    def _all(self, statement: str, *parameters: int | str | bytes) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(statement, parameters).fetchall()
        except DATABASE_ERRORS as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> StoreFailedError | StoreFullError:
        if is_starved(error, self._folder):
            return StoreFullError(f"store {self._folder} lacks descriptors or memory: {error}")
        return StoreFailedError(f"store {self._folder} cannot be read: {row_problem(error)}")


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


def _remedy(folder: Path, error: sqlite3.Error) -> str:
    """What to do after an error of the database."""
    if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT:
        return f"if it fails again when it is opened anew, run 'penstock store salvage {folder}'"
    return "open it anew"


def _body_bytes(changes: Sequence[Change]) -> int:
    """Bytes that the changes need; more than 0 even for an empty message."""
    return sum(space_bytes(each) + (len(each.messages) if isinstance(each, Append) else 0) for each in changes)
