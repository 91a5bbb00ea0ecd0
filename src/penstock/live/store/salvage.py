"""Builds a new store from everything in a damaged one that still proves whole, and marks the rest as lost.

A row is trusted only if its own checksum matches, and a message only if its batch is whole. Where messages may
be missing, the new store has ranges of ticks that reads report as damaged, so subscribers get ``Lost`` notices for
them. They reach up to the highest tick that any pubend may have used, and streams continue above it. The damaged files
are put aside, never deleted.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.broker.durable import Append, KeepRecord, SetValue, Trim
from penstock.live.store.errors import StoreRefusedError
from penstock.live.store.haul import Haul, HaulPubend, haul_from
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME, UNFINISHED, reading, refuse_links, size_of
from penstock.live.store.log import LogStore
from penstock.live.store.swap import Swap, swapping
from penstock.live.store.totals import ROW_ERRORS, find_totals
from penstock.live.store.wal import WriteAheadLog
from penstock.live.store.witness import WITNESS_NAME, Statement, locked, read_statement
from penstock.model.tick import Tick, TickRange, tick_at

__all__ = ["Salvaged", "salvage"]

_AHEAD_MS: Final = 60_000
"""How far ahead of the clock a pubend may have promised ticks, if the files do not tell."""
_DOUBTS: Final = {
    "publishers": "sequence numbers of publishers may be missing or too low: a message sent again may be taken twice",
    "named": "named values may be missing or older, such as the positions of durable subscriptions",
    "kept": "kept records may be missing or older, such as the histories for traces",
}
"""What it means if a table may not be exactly as it was."""


@dataclass(slots=True)
class Salvaged:
    """The result of salvaging."""

    aside: Path
    """The folder with the damaged files."""
    messages: int = 0
    """Messages that were whole, and saved."""
    lost: dict[str, list[TickRange]] = field(default_factory=dict)
    """Ticks that may have had messages, by pubend: subscribers are told."""
    doubts: list[str] = field(default_factory=list)
    """What else may be missing or older than it was, in words."""


def salvage(
    folder: Path, *, stamp: str, now_ms: int, owner: tuple[str, str] | None = None, pubends: Sequence[str] = ()
) -> Salvaged:
    """Salvage the store in a folder; raises if it is in use, or if names that cannot be read must be given.

    ``stamp`` names the folder for the damaged files. ``owner``, overlay and broker, and ``pubends`` are for stores in
    which these names are damaged.
    """
    _refuse_other_folders(folder)
    try:
        with locked(folder), swapping(folder) as swap:
            return _salvage(folder, swap, stamp, now_ms, owner, pubends)
    except OSError as error:
        raise StoreRefusedError(f"store {folder} cannot be salvaged: {error}") from error


def _salvage(
    folder: Path, swap: Swap, stamp: str, now_ms: int, owner: tuple[str, str] | None, pubends: Sequence[str]
) -> Salvaged:
    source = swap.source
    statement = read_statement(source)
    candidates = [haul for place in _candidates(source, swap.work) if (haul := _hauled(place)) is not None]
    best = max(candidates, key=lambda haul: haul.worth, default=Haul())
    if best.is_older:
        raise StoreRefusedError(
            f"store {folder} has an older format, without the checksums that salvaging needs: restore a copy"
        )
    if statement is None and not best.has_rows and not _is_log_of_store(source / LOG_NAME):
        raise StoreRefusedError(f"nothing in {folder} shows that it is a store of Penstock; nothing was changed")
    owner = owner or best.owner
    if owner is None:
        raise StoreRefusedError(
            f"cannot tell which broker owns store {folder}: name it with --overlay and --broker; nothing was changed"
        )
    _name_pubends(best, pubends, folder)
    done = Salvaged(_free_name(folder / f"damaged-{stamp}"))
    bounds = _Bounds.of(best, statement, _newest_commit(source, best), now_ms)
    with closing(LogStore.open(swap.new, overlay=owner[0], broker=owner[1], reserve_bytes=0)) as store:
        store.leave_out_syncs()
        _Refill(store, best, bounds, done).run()
    swap.run(done.aside)
    return done


@dataclass(slots=True, frozen=True)
class _Bounds:
    """What the files say about commits that are missing."""

    highest_tick: Tick
    is_current: bool
    """Whether no commit is missing."""

    @classmethod
    def of(cls, haul: Haul, statement: Statement | None, newest: int, now_ms: int) -> _Bounds:
        known = max(haul.highest_tick, 0 if statement is None else statement.highest_tick)
        seen = max(newest, 0 if statement is None else statement.commits)
        is_current = haul.totals is not None and haul.totals.commits >= seen
        is_foreign = statement is not None and haul.totals is not None and statement.store_id != haul.totals.store_id
        if is_foreign:
            # The witness did not count the commits of this database, so any number of them may be missing.
            is_current = False
        if not is_current and (statement is None or is_foreign):
            known = max(known, tick_at(now_ms + _AHEAD_MS))
        return cls(Tick(known), is_current)


def _refuse_other_folders(folder: Path) -> None:
    if not folder.is_dir():
        raise StoreRefusedError(f"there is no folder {folder}")
    refuse_links(folder)
    if not any((folder / name).exists() for name in (FILE_NAME, LOG_NAME, WITNESS_NAME, UNFINISHED)):
        raise StoreRefusedError(f"there is no store in {folder}")


def _is_log_of_store(log: Path) -> bool:
    return log.exists() and find_totals(log.read_bytes()) is not None


def _free_name(path: Path) -> Path:
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _candidates(folder: Path, work: Path) -> Iterator[Path]:
    """Folders that have the database with different readings of its log."""
    if not size_of(folder / FILE_NAME):
        return
    yield folder
    if size_of(folder / LOG_NAME):
        # With what lies after the damaged place, too.
        forced = WriteAheadLog((folder / LOG_NAME).read_bytes()).forced()
        for name, log in (("forced", forced), ("alone", b"")):
            place = work / name
            place.mkdir()
            # A link, not a copy: nothing writes to it, and a store may be large.
            os.link(folder / FILE_NAME, place / FILE_NAME)
            if log:
                (place / LOG_NAME).write_bytes(log)
            yield place


def _hauled(place: Path) -> Haul | None:
    """What can be read in a folder; None if nothing can."""
    with suppress(*ROW_ERRORS), reading(place) as database:
        return haul_from(database, place)
    return None


def _newest_commit(folder: Path, haul: Haul) -> int:
    """The newest commit of which the log shows a trace."""
    if haul.totals is None or not size_of(folder / LOG_NAME):
        return 0
    log = WriteAheadLog((folder / LOG_NAME).read_bytes())
    found = [each.commits for each in log.totals(haul.totals.store_id)]
    # The last one may be torn, and then was not acknowledged.
    return max(found, default=1) - (1 if log.has_header else 0)


def _name_pubends(haul: Haul, names: Sequence[str], folder: Path) -> None:
    """Add the pubends that the caller names; raises if the names of others cannot be read."""
    for name in names:
        if name not in haul.pubends:
            haul.pubends[name] = HaulPubend(number=0, is_whole=False)
    known = {pubend.number for pubend in haul.pubends.values()}
    if not known.issuperset([*haul.batches, *haul.sequences]):
        # It is unknown to which pubend some rows belong.
        haul.doubtful |= {"batches", "publishers"}
    missing = haul.pubends_expected - len(haul.pubends)
    if haul.totals is None and not names:
        raise StoreRefusedError(
            f"cannot tell how many pubends store {folder} has: name all of them with --pubend; nothing was changed"
        )
    if missing > 0:
        raise StoreRefusedError(
            f"the names of {missing} pubends in store {folder} cannot be read: name all pubends of this broker with "
            "--pubend; nothing was changed"
        )


class _Refill:
    """Writes what was hauled into a new store."""

    def __init__(self, store: LogStore, haul: Haul, bounds: _Bounds, done: Salvaged) -> None:
        self._store, self._haul = store, haul
        self._bounds, self._done = bounds, done

    def run(self) -> None:
        """Write everything, and note what may be missing."""
        with self._source() as source:
            for name, pubend in sorted(self._haul.pubends.items()):
                self._write_pubend(source, name, pubend)
        for value_name, value in self._haul.values:
            self._store.commit([SetValue(value_name, value)])
        for record_name, record in self._haul.kept:
            self._store.commit([KeepRecord(record_name, record)])
        for table, doubt in _DOUBTS.items():
            if not self._bounds.is_current or table in self._haul.doubtful:
                self._done.doubts.append(doubt)

    @contextmanager
    def _source(self) -> Iterator[sqlite3.Connection | None]:
        """The database with the messages; None if there is none."""
        if self._haul.place is None:
            yield None
            return
        with reading(self._haul.place) as database:
            yield database

    def _write_pubend(self, source: sqlite3.Connection | None, name: str, pubend: HaulPubend) -> None:
        self._store.commit([Append(name), Trim(name, pubend.trimmed_below)])
        lost: list[TickRange] = []
        is_complete = pubend.is_whole and "batches" not in self._haul.doubtful
        following = int(pubend.trimmed_below)
        for batch in self._haul.batches.get(pubend.number, []):
            if batch.ticks.last < following:
                continue
            first = max(batch.ticks.first, following)
            if first > following and not is_complete:
                lost.append(self._mark(name, following, first - 1))
            messages = None if source is None else self._haul.messages(source, batch)
            if messages is None:
                lost.append(self._mark(name, first, batch.ticks.last))
            else:
                whole = [message for message in messages if message[0] >= following]
                self._store.commit([Append(name, whole)])
                self._done.messages += len(whole)
            following = batch.ticks.last + 1
        highest = self._bounds.highest_tick
        is_exact = is_complete and self._bounds.is_current
        if following <= highest and not is_exact:
            lost.append(self._mark(name, following, highest))
        if lost:
            self._done.lost[name] = lost
        # A lease that is too high does no harm; one that is too low would let ticks be used twice.
        is_lease_known = is_exact and "pubends" not in self._haul.doubtful
        lease = pubend.lease if is_lease_known else highest
        sequences = self._haul.sequences.get(pubend.number, {})
        self._store.commit([Append(name, lease=lease, sequences=sequences)])

    def _mark(self, pubend: str, first: int, last: int) -> TickRange:
        ticks = TickRange(Tick(first), Tick(last))
        self._store.mark_lost(pubend, ticks)
        return ticks
