"""Carries out a broker's commits and reads in a thread of its own, which alone touches the store.

All commits that wait become durable by one sync (group commit): nothing is delayed to gather more, since others gather
while a sync is under way. Between two syncs there is at most one read, so neither waits for many of the other.

When there is no space the commits keep their order, and are tried again every second, or at once when a trim comes:
trims and named values are made durable ahead of what waits before them (``broker.ahead``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from penstock.broker.ahead import changes_ahead, without_values
from penstock.broker.durable import (
    KEPT_READ_BYTES_MAX,
    ForgetPublishers,
    Recovered,
    SetValue,
    Trim,
    space_bytes,
)
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.live.logs import log
from penstock.live.store import LogStore, Recovery, StoreFullError
from penstock.live.store.reserve import RESERVE_BYTES
from penstock.live.store_figures import StoreFigures
from penstock.model.tick import Tick, TickRange

__all__ = [
    "GROUP_BYTES_MAX",
    "INCARNATION",
    "Committed",
    "Ended",
    "Failed",
    "Full",
    "KeptRead",
    "LogRead",
    "Opened",
    "Report",
    "StorePlace",
    "StoreWorker",
    "ValuesKept",
    "body_bytes",
]

GROUP_BYTES_MAX: Final = 8 << 20
"""Bodies and large records made durable by one sync, unless a single commit has more.

The store's reserve counts on a bounded one.
"""
INCARNATION: Final = "incarnation"
"""The named value that tells lives of a broker apart even if its clock was set back in between."""

_GROUP_MAX: Final = 1 << 16
"""Commits made durable by one sync, if there is space for all."""
_RETRY_S: Final = 1.0
_FILES_S: Final = 1.0
"""How often the size of the files is looked at."""
_NAMED_MAX: Final = 1_000
"""Damaged records that are remembered as logged; further ones are only counted."""


@dataclass(slots=True, frozen=True)
class StorePlace:
    """Which store to open, for whom."""

    folder: Path
    overlay: str
    broker: str
    bytes_max: int | None = None
    """The size of the file at which the store is full; None for as much as the disk has."""
    reserve_bytes: int = RESERVE_BYTES


@dataclass(slots=True, frozen=True)
class Opened:
    """The store is open, and a new life of the broker is on record."""

    recovered: Recovered
    incarnation: int
    recovery: Recovery


@dataclass(slots=True, frozen=True)
class Committed:
    """All commits up to a number are durable; so many, with so many bytes, since the last report."""

    number: int
    commits: int
    size_bytes: int


@dataclass(slots=True, frozen=True)
class ValuesKept:
    """The named values of all commits up to a number are durable, though messages before them wait for space."""

    number: int


@dataclass(slots=True, frozen=True)
class Full:
    """The oldest commit has to wait for space; said once until something works again."""

    reason: str


@dataclass(slots=True, frozen=True)
class LogRead:
    """What a read found: all messages from the first tick asked for up to the last one given here."""

    number: int
    messages: list[tuple[int, bytes]]
    last: int
    damaged: TickRange | None = None
    """Ticks right behind that can never be read: their record is damaged, or they were trimmed meanwhile."""


@dataclass(slots=True, frozen=True)
class KeptRead:
    """Kept records that were read, None for each that is missing or damaged; names that did not fit are not here."""

    number: int
    values: dict[str, bytes | None]


@dataclass(slots=True, frozen=True)
class Failed:
    """The store cannot be used any more, or not opened at all."""

    error: Exception


@dataclass(slots=True, frozen=True)
class Ended:
    """The store is closed; so many commits were left, and never acknowledged."""

    left: int


Report: TypeAlias = Opened | Committed | ValuesKept | Full | LogRead | KeptRead | Failed | Ended
_Order: TypeAlias = Commit | ReadLog | ReadKept


class StoreWorker:
    """What the thread does: ``run``, from opening to closing; the other methods are for other threads."""

    def __init__(self, place: StorePlace, tell: Callable[[Report], None], *, retry_s: float = _RETRY_S) -> None:
        self._place, self._tell, self._retry_s = place, tell, retry_s
        self._inbox: SimpleQueue[_Order | None] = SimpleQueue()
        self._commits: deque[Commit] = deque()
        self._reads: deque[ReadLog | ReadKept] = deque()
        self._is_ending = False
        self._group_max = _GROUP_MAX
        self._retry_at_s = 0.0
        self._read_at_s = 0.0
        self._files_at_s = 0.0
        self._named: dict[tuple[str, TickRange], None] = {}
        self._named_kept: dict[str, None] = {}
        self.figures: Final = StoreFigures()

    def put(self, order: _Order) -> None:
        """Carry it out; commits in the order in which they come."""
        self._inbox.put(order)

    def end(self) -> None:
        """Commit what waits, as far as there is space, and close the store."""
        self._inbox.put(None)

    def run(self, started_ms: int) -> None:
        """Open the store, serve until the end, close it; whatever goes wrong is told."""
        try:
            place = self._place
            opened = LogStore.open(
                place.folder,
                overlay=place.overlay,
                broker=place.broker,
                bytes_max=place.bytes_max,
                reserve_bytes=place.reserve_bytes,
            )
            with closing(opened) as store:
                self._tell(self._begin_life(store, started_ms))
                self._serve(store)
        except Exception as error:  # noqa: BLE001 - the thread must not end without a word
            self._tell(Failed(error))
        self._tell(Ended(len(self._commits)))

    def _begin_life(self, store: LogStore, started_ms: int) -> Opened:
        """Find what the earlier life left, and make the new one durable before it says anything."""
        recovered = store.recovered()
        for name in store.damaged_values():
            log("store-value-damaged", (("broker", self._place.broker), ("name", name)))
        self._name_kept(store.kept_found.damaged)
        if store.kept_found.is_put_aside:
            self.figures.kept_put_aside = 1
            log("store-kept-lost", (("broker", self._place.broker), ("reason", "their index is damaged")))
        # A damaged or missing one leaves the clock alone to tell lives apart, as without a store.
        stored = recovered.values.get(INCARNATION, b"")
        incarnation = max(started_ms, int(stored) + 1) if stored.isdigit() else started_ms
        store.commit([SetValue(INCARNATION, b"%d" % incarnation)])
        self._look_at_files(store)
        return Opened(recovered, incarnation, store.recovery)

    def _serve(self, store: LogStore) -> None:
        while True:
            self._take_in()
            if self._commits and (self._is_ending or time.monotonic() >= self._retry_at_s):
                self._commit(store)
            if self._reads and (self._is_ending or time.monotonic() >= self._read_at_s):
                self._read_next(store)
            if self._is_ending and (not self._commits or self._retry_at_s):
                # What is read now nobody waits for, and space may not come for days.
                return

    def _take_in(self) -> None:
        """Sort what has come; wait for it only if there is nothing else to do."""
        with suppress(Empty):
            self._sort(self._inbox.get(timeout=self._idle_s()))
            for _ in range(self._inbox.qsize()):
                self._sort(self._inbox.get_nowait())

    def _idle_s(self) -> float | None:
        if self._is_ending:
            return 0.0
        at_s = [self._read_at_s] if self._reads else []
        at_s += [self._retry_at_s] if self._commits else []
        return max(0.0, min(at_s) - time.monotonic()) if at_s else None

    def _sort(self, order: _Order | None) -> None:
        if order is None:
            self._is_ending = True
        elif isinstance(order, ReadLog | ReadKept):
            self._reads.append(order)
        else:
            self._commits.append(order)
            if self._retry_at_s and changes_ahead([order]):
                self._retry_at_s = 0.0

    # Commits.

    def _commit(self, store: LogStore) -> None:
        group = self._group()
        size_bytes = sum(map(body_bytes, group))
        began_s = time.perf_counter()
        try:
            store.commit([change for commit in group for change in commit.changes])
        except StoreFullError as error:
            self._on_full(store, group, str(error))
            return
        self.figures.count(group, sync_ms=(time.perf_counter() - began_s) * 1_000)
        for _ in group:
            self._commits.popleft()
        self.figures.full_reason, self._retry_at_s = "", 0.0
        self._group_max = min(2 * self._group_max, _GROUP_MAX)
        self._tell(Committed(group[-1].number, len(group), size_bytes))
        if time.monotonic() >= self._files_at_s:
            self._look_at_files(store)

    def _group(self) -> list[Commit]:
        """The commits that share the next sync."""
        group: list[Commit] = []
        room = GROUP_BYTES_MAX
        for commit in islice(self._commits, self._group_max):
            room -= body_bytes(commit)
            if group and room < 0:
                break
            group.append(commit)
            # Within one commit of the store publishers are forgotten last: later ones must not come before that.
            if any(isinstance(each, ForgetPublishers) for each in commit.changes):
                break
        return group

    def _on_full(self, store: LogStore, group: list[Commit], reason: str) -> None:
        if self._has_gone_ahead(store):
            return
        # The first may fit where all do not.
        self._group_max = max(1, len(group) // 2)
        if len(group) > 1:
            return
        is_news = not self.figures.full_reason
        self.figures.full_reason = reason
        self._retry_at_s = time.monotonic() + self._retry_s
        if is_news:
            self._tell(Full(reason))

    def _has_gone_ahead(self, store: LogStore) -> bool:
        """Carry out the trims and keep the values among all that waits; says whether there is more room by that."""
        changes = changes_ahead(self._commits)
        trims = [each for each in changes if isinstance(each, Trim)]
        before = [store.trimmed_below(trim.pubend) for trim in trims]
        try:
            if changes:
                store.commit(changes)
        except StoreFullError:
            return False
        if len(changes) > len(trims):
            self._commits = deque(map(without_values, self._commits))
            self._tell(ValuesKept(self._commits[-1].number))
        return before != [store.trimmed_below(trim.pubend) for trim in trims]

    # Reads.

    def _read_next(self, store: LogStore) -> None:
        try:
            self._read(store, self._reads[0])
        except StoreFullError as error:
            # Descriptors or memory, which come back: nobody is told anything wrong, but the answer is late.
            self._read_at_s = time.monotonic() + self._retry_s
            log("store-read-late", (("broker", self._place.broker), ("reason", str(error))))
        else:
            self._reads.popleft()
            self._read_at_s = 0.0

    def _read(self, store: LogStore, ask: ReadLog | ReadKept) -> None:
        self.figures.reads += 1
        if isinstance(ask, ReadKept):
            kept = store.read_kept(ask.names, bytes_max=KEPT_READ_BYTES_MAX)
            self._name_kept(kept.damaged)
            self._tell(KeptRead(ask.number, kept.values))
        else:
            self._read_log(store, ask)

    def _read_log(self, store: LogStore, ask: ReadLog) -> None:
        trimmed_below = store.trimmed_below(ask.pubend)
        if ask.first < trimmed_below:
            # Trimmed after the broker asked: what is not there any more must not look like silence.
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

    def _look_at_files(self, store: LogStore) -> None:
        # Looking into the folder takes a descriptor, and a figure is nothing to fail for.
        with suppress(OSError):
            self.figures.file_bytes = store.file_bytes()
        self._files_at_s = time.monotonic() + _FILES_S


def body_bytes(commit: Commit) -> int:
    """Bytes of the messages and large records in a commit."""
    return sum(map(space_bytes, commit.changes))
