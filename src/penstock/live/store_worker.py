"""Carries out a broker's commits and reads in a thread of its own, which alone touches the store, whichever it is.

``broker.commit_queue`` decides what to do next, which commits share a sync, and what happens to them when there is no
space. The thread keeps counters for status and metrics, which the event loop reads without asking it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from penstock.broker.commit_queue import RETRY_MS, Ahead, CommitQueue, Full, Group, QueueReport, Read, Work
from penstock.broker.durable import KEPT_READ_BYTES_MAX, Append, Recovered, SetValue
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.live.backup import Backup
from penstock.live.store import BackupError, Recovery, StoreFailedError, StoreFullError, StoreRefusedError
from penstock.live.store.flushing import Flusher
from penstock.live.store.inspecting import FILE_NAME
from penstock.live.stores import COPYING, BackedUp, Place, Store
from penstock.model.tick import Tick, TickRange
from penstock.system.logs import log

__all__ = [
    "INCARNATION",
    "Ended",
    "Failed",
    "KeptRead",
    "LogRead",
    "Opened",
    "Report",
    "StoreFigures",
    "StoreWorker",
]

INCARNATION: Final = "incarnation"
"""The named value that tells runs of a broker apart even if its clock was set back in between."""

_STOPPED: Final = "the broker stops"
_FILES_MS: Final = 1_000
"""How often the size of the files is checked."""
_PAUSES: Final = 3
"""How many times as long as a slice of a backup the pause after it is; commits and reads have that time for sure."""
_FLUSH_S: Final = 0.002
"""How often a backup looks whether its file is on the disk as far as it was copied."""
_NAMED_MAX: Final = 1_000
"""Damaged records remembered as logged; further ones are neither logged nor counted."""


@dataclass(slots=True, frozen=True)
class Opened:
    """The store is open, and has recorded the broker's new incarnation."""

    recovered: Recovered
    incarnation: int
    recovery: Recovery


@dataclass(slots=True, frozen=True)
class LogRead:
    """The result of a read: all messages from the first tick requested up to ``last``."""

    number: int
    messages: list[tuple[int, bytes]]
    last: int
    damaged: TickRange | None = None
    """Ticks right after ``last`` that can never be read: their record is damaged, or they were trimmed meanwhile."""


@dataclass(slots=True, frozen=True)
class KeptRead:
    """Kept records that were read, None for each that is missing or damaged; names that did not fit are left out."""

    number: int
    values: dict[str, bytes | None]


@dataclass(slots=True, frozen=True)
class Failed:
    """The store cannot be used any more, or not opened at all."""

    error: Exception


@dataclass(slots=True, frozen=True)
class Ended:
    """The store is closed; ``left`` commits were not written, and never acknowledged."""

    left: int


Report: TypeAlias = Opened | QueueReport | LogRead | KeptRead | Failed | Ended
_Order: TypeAlias = Commit | Read | Backup


@dataclass(slots=True)
class StoreFigures:
    """Counters that one thread updates one by one: a reader may see some that are newer than others."""

    commits: int = 0
    syncs: int = 0
    """Groups of commits that became durable together."""
    messages: int = 0
    """Messages in durable commits."""
    reads: int = 0
    last_sync_ms: float = 0.0
    """How long the last group took, from its first write to the end of its sync."""
    full_reason: str = ""
    """Why commits wait for space; empty if they do not."""
    file_bytes: int = 0
    damaged_records: int = 0
    """Damaged log records that reads have met."""
    damaged_kept: int = 0
    """Damaged kept records that the start or reads have met."""
    replicas: int = 0
    """How many synchronous standbys the last group has reached."""
    kept_put_aside: int = 0
    """1 if the kept records of earlier runs had to be put aside when the store was opened, else 0."""

    def count(self, group: Sequence[Commit], *, sync_ms: float) -> None:
        """Count a group that has become durable."""
        self.commits += len(group)
        self.syncs += 1
        self.messages += sum(
            len(each.messages) for commit in group for each in commit.changes if isinstance(each, Append)
        )
        self.last_sync_ms = sync_ms

    def as_dict(self) -> dict[str, int | float | str]:
        """All counters by name, and figures derived from them."""
        per_sync = self.messages / self.syncs if self.syncs else 0.0
        return asdict(self) | {"full": int(bool(self.full_reason)), "messages_per_sync": round(per_sync, 3)}


class StoreWorker:
    """The work of the store's thread, which calls ``run``; the other public methods are for other threads."""

    def __init__(self, place: Place, tell: Callable[[Report], None], *, retry_ms: int = RETRY_MS) -> None:
        self._place = place
        self._tell = tell
        self._inbox: SimpleQueue[_Order | None] = SimpleQueue()
        self._queue = CommitQueue(retry_ms=retry_ms)
        self._is_ending = False
        self._is_abandoned = False
        self._backups: deque[Backup] = deque()
        self._files_at_ms = 0
        self._named: dict[tuple[str, TickRange], None] = {}
        self._named_kept: dict[str, None] = {}
        self.figures: Final = StoreFigures()

    def put(self, order: _Order) -> None:
        """Queue an order; commits are carried out in sequence."""
        self._inbox.put(order)

    def end(self) -> None:
        """Commit what is queued, as far as there is space, and close the store."""
        self._inbox.put(None)

    def abandon(self) -> None:
        """Commit and read nothing more: whatever is under way ends when the store says next that it waits."""
        self._is_abandoned = True
        self._inbox.put(None)

    def run(self, started_ms: int) -> None:
        """Open the store, serve until the end, and close it; reports whatever goes wrong."""
        try:
            with closing(self._place.open(self._on_wait)) as store:
                self._tell(self._begin_life(store, started_ms))
                self._serve(store)
        except Exception as error:  # noqa: BLE001 - the thread must not end without a word
            self._tell(Failed(error))
        for backup in self._backups:
            backup.fail(_STOPPED)
        self._tell(Ended(len(self._queue)))

    def _on_wait(self, reason: str) -> None:
        """Hold publishers back while a commit takes long; the next durable group ends that."""
        if self._is_abandoned:
            raise StoreFailedError("the store was given up")
        if reason and reason != self.figures.full_reason:
            self._tell(Full(reason))
        self.figures.full_reason = reason

    def _begin_life(self, store: Store, started_ms: int) -> Opened:
        """Recover what the earlier run left, and make the new incarnation durable before it is used."""
        recovered = store.recovered()
        if COPYING in recovered.values:
            raise StoreRefusedError(f"a copy into {self._place.shown} was not finished: begin it anew")
        for name in store.damaged_values():
            log("store-value-damaged", (("broker", self._place.broker), ("name", name)))
        self._name_kept(store.kept_found.damaged)
        if store.kept_found.is_put_aside:
            self.figures.kept_put_aside = 1
            log("store-kept-lost", (("broker", self._place.broker), ("reason", "their index is damaged")))
        # If it is damaged or missing, only the clock tells runs apart, as without a store.
        stored = recovered.values.get(INCARNATION, b"")
        incarnation = max(started_ms, int(stored) + 1) if stored.isdigit() else started_ms
        store.commit([SetValue(INCARNATION, b"%d" % incarnation)])
        # Whatever it had to wait for, it does so no more.
        self.figures.full_reason = ""
        self._look_at_files(store)
        return Opened(recovered, incarnation, store.recovery)

    def _serve(self, store: Store) -> None:
        while True:
            while self._backups and not self._is_ending:
                self._back_up(store, self._backups[0])
            self._take_in()
            if self._is_abandoned:
                return
            work = self._queue.begin_next(now_ms=_now_ms())
            if work is not None:
                self._carry_out(store, work)
            elif self._is_ending:
                return

    def _take_in(self, *, idle_s_max: float | None = None) -> None:
        """Take in queued orders; wait for one only if there is nothing else to do, and at most so long."""
        waits_s = [each for each in (self._idle_s(), idle_s_max) if each is not None]
        with suppress(Empty):
            self._sort(self._inbox.get(timeout=min(waits_s, default=None)))
            for _ in range(self._inbox.qsize()):
                self._sort(self._inbox.get_nowait())

    def _idle_s(self) -> float | None:
        """How long to wait for orders; None to wait until one comes."""
        if self._is_ending:
            return 0.0
        due_ms = self._queue.next_deadline()
        return None if due_ms is None else max(0, due_ms - _now_ms()) / 1_000

    def _sort(self, order: _Order | None) -> None:
        if order is None:
            self._is_ending = True
            self._queue.end()
        elif isinstance(order, Commit):
            self._queue.put(order)
        elif isinstance(order, Backup):
            self._backups.append(order)
        else:
            self._queue.put_read(order)

    def _carry_out(self, store: Store, work: Work) -> None:
        if isinstance(work, Group | Ahead):
            self._write(store, work)
        else:
            self._read_next(store, work)

    # Backups.

    def _back_up(self, store: Store, backup: Backup) -> None:
        """Copy the store slice by slice, and serve in between."""
        slice_began_s = time.monotonic()

        def between(left: int, total: int) -> None:
            nonlocal slice_began_s
            pause_s = _PAUSES * (time.monotonic() - slice_began_s)
            backup.note(left, total)
            self._serve_for(store, pause_s)
            while flusher.is_flushing(total - left):
                self._serve_for(store, _FLUSH_S)
            slice_began_s = time.monotonic()

        try:
            if not isinstance(store, BackedUp):
                raise BackupError("the data is not in a folder")
            with Flusher(backup.folder / FILE_NAME) as flusher:
                store.back_up(backup.folder, between)
            backup.finish()
        except BackupError as error:
            backup.fail(str(error))
        except BaseException:
            backup.fail(_STOPPED)
            raise
        finally:
            self._backups.popleft()
            self._note_backup(backup)

    def _serve_for(self, store: Store, seconds: float) -> None:
        """Carry out commits and reads for so long, at least one if there are any."""
        until_s = time.monotonic() + seconds
        while True:
            self._take_in(idle_s_max=max(0.0, until_s - time.monotonic()))
            if self._is_abandoned:
                raise BackupError(_STOPPED)
            work = self._queue.begin_next(now_ms=_now_ms())
            if work is not None:
                self._carry_out(store, work)
            if self._is_ending:
                raise BackupError(_STOPPED)
            if time.monotonic() >= until_s:
                return

    def _note_backup(self, backup: Backup) -> None:
        fields = (("broker", self._place.broker), ("folder", str(backup.folder)))
        if backup.state == "done":
            log("backup-copied", (*fields, ("pages", backup.pages_total)))
        else:
            log("backup-failed", (*fields, ("reason", backup.reason)))

    # Commits.

    def _write(self, store: Store, write: Group | Ahead) -> None:
        try:
            reports = self._go_ahead(store, write) if isinstance(write, Ahead) else self._commit(store, write)
        except StoreFullError as error:
            reports = self._queue.on_full(str(error), now_ms=_now_ms())
        self.figures.full_reason = self._queue.full_reason
        for report in reports:
            self._tell(report)
        if _now_ms() >= self._files_at_ms:
            self._look_at_files(store)

    def _commit(self, store: Store, group: Group) -> list[QueueReport]:
        began_s = time.perf_counter()
        store.commit(group.changes())
        self.figures.count(group.commits, sync_ms=(time.perf_counter() - began_s) * 1_000)
        self.figures.replicas = store.replicas
        return self._queue.on_durable()

    def _go_ahead(self, store: Store, ahead: Ahead) -> list[QueueReport]:
        before = [store.trimmed_below(trim.pubend) for trim in ahead.trims]
        store.commit(ahead.changes())
        after = [store.trimmed_below(trim.pubend) for trim in ahead.trims]
        return self._queue.on_gone_ahead(has_made_room=before != after, now_ms=_now_ms())

    # Reads.

    def _read_next(self, store: Store, ask: Read) -> None:
        try:
            self._read(store, ask)
        except StoreFullError as error:
            # Out of descriptors or memory, which passes: the answer is late, but not wrong.
            self._queue.on_read_late(now_ms=_now_ms())
            log("store-read-late", (("broker", self._place.broker), ("reason", str(error))))
        else:
            self._queue.on_read()

    def _read(self, store: Store, ask: Read) -> None:
        self.figures.reads += 1
        if isinstance(ask, ReadKept):
            kept = store.read_kept(ask.names, bytes_max=KEPT_READ_BYTES_MAX)
            self._name_kept(kept.damaged)
            self._tell(KeptRead(ask.number, kept.values))
        else:
            self._read_log(store, ask)

    def _read_log(self, store: Store, ask: ReadLog) -> None:
        trimmed_below = store.trimmed_below(ask.pubend)
        if ask.first < trimmed_below:
            # Trimmed after the broker asked: messages that are gone must not look like silence.
            gone = TickRange(Tick(ask.first), Tick(min(ask.last, trimmed_below - 1)))
            self._tell(LogRead(ask.number, [], ask.first - 1, gone))
            return
        part = store.read_part(ask.pubend, Tick(ask.first), Tick(ask.last), bytes_max=ask.bytes_max)
        damaged = None
        if part.damaged is not None:
            self._name(ask.pubend, part.damaged.ticks, str(part.damaged))
            damaged = TickRange(Tick(part.last + 1), part.damaged.ticks.last)
        self._tell(LogRead(ask.number, [*part.messages], part.last, damaged))

    def _name(self, pubend: str, ticks: TickRange, reason: str) -> None:
        """Log a damaged record, once."""
        if (pubend, ticks) not in self._named and len(self._named) < _NAMED_MAX:
            self._named[pubend, ticks] = None
            self.figures.damaged_records = len(self._named)
            log("store-record-damaged", (("broker", self._place.broker), ("pubend", pubend), ("reason", reason)))

    def _name_kept(self, names: list[str]) -> None:
        """Log damaged kept records, each once."""
        for name in names:
            if name not in self._named_kept and len(self._named_kept) < _NAMED_MAX:
                self._named_kept[name] = None
                self.figures.damaged_kept = len(self._named_kept)
                log("store-kept-damaged", (("broker", self._place.broker), ("name", name)))

    def _look_at_files(self, store: Store) -> None:
        # Reading the folder takes a descriptor, and a figure is not worth failing for.
        with suppress(OSError):
            self.figures.file_bytes = store.file_bytes()
        self._files_at_ms = _now_ms() + _FILES_MS


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
