"""Ships batches: rows into files, files into the lake, and all into the ledger, in an order that survives a crash.

The steps of a batch: its files are made durable under temporary names; the ledger records the batch, which counts from
then on, with its records; the files get their final names; the ledger forgets the batch. See ``ledger`` for what
happens after a crash. All of this is for one thread, which is not the event loop's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from penstock.live.shipping.cargo import Cargo, micros
from penstock.live.shipping.errors import ShipError
from penstock.live.shipping.files import LakeFiles
from penstock.live.shipping.ledger import Batch, Event, Ledger
from penstock.live.shipping.rows import POSITION_PREFIX, Version, add_position, add_record, version_of
from penstock.model.lake_tables import TELEMETRY, TOPOLOGY
from penstock.tracking.records import DamagedRecordError

__all__ = ["LakeWriter", "Load", "Opening", "Sample", "Shipped"]

Sample: TypeAlias = tuple[str, Mapping[str, str], float]
"""A metric's name, labels and value."""


@dataclass(slots=True)
class Load:
    """The content of a batch to ship."""

    records: dict[str, bytes | None] = field(default_factory=dict)
    """Kept records as they are in the store; None for those that are gone or damaged."""
    positions: dict[str, bytes | None] = field(default_factory=dict)
    """Named values of durable subscriptions; None for those that were forgotten."""
    samples: Sequence[Sample] = ()


@dataclass(slots=True)
class Shipped:
    """Figures on a shipment."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    """Size of the files."""
    records: int = 0
    """Kept records and positions that are in the lake now and were not before."""
    damaged: int = 0
    """Records that could not be read, and are not in the lake."""
    missed: int = 0
    """Records that the broker dropped before they were shipped."""
    is_all: bool = True
    """Whether nothing was left for another turn."""

    def add(self, other: Shipped) -> None:
        """Add the figures of another batch."""
        for name in ("files", "rows", "size_bytes", "records", "damaged", "missed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True, frozen=True)
class Opening:
    """What a start finds to be shipped."""

    unsettled: list[str]
    """Kept records that may have to be shipped."""
    forgotten: list[str]
    """Positions that were shipped, but no longer exist."""
    is_anew: bool
    """Whether the ledger was damaged, so that everything is shipped again."""


class LakeWriter:
    """Ships the records of one broker."""

    def __init__(
        self,
        files: LakeFiles,
        *,
        folder: Path,
        pubends: Sequence[str] = (),
        open_ledger: Callable[[Path], tuple[Ledger, bool]] = Ledger.open,
    ) -> None:
        self._files = files
        self._folder = folder
        self._pubends = tuple(pubends)
        self._open_ledger = open_ledger
        self._ledger: Ledger | None = None
        self._incarnation = 0

    @property
    def ledger(self) -> Ledger:
        """The ledger of what has been shipped."""
        assert self._ledger is not None, "the writer has not been opened"
        return self._ledger

    def open(self, *, incarnation: int, kept: Sequence[str], positions: Sequence[str], now_ms: int) -> Opening:
        """Continue where an earlier run ended, with the records that the broker has now. Raises ``ShipError``."""
        self._incarnation = incarnation
        with _complaining("the ledger cannot be used"):
            self._ledger, is_anew = self._open_ledger(self._folder)
            self._ledger.remember(Event(now_ms, "start"))
            here = set(positions)
            forgotten = [name for name in self._ledger.names(POSITION_PREFIX) if name not in here]
            return Opening(self._ledger.unsettled(kept), forgotten, is_anew)

    def remember(self, event: Event) -> None:
        """Keep an event for the next batch, even across a crash. Raises ``ShipError``."""
        with _complaining("the ledger cannot be written"):
            self.ledger.remember(event)

    def settled(self, before_ms: int, limit: int) -> list[str]:
        """Sealed filters in the lake that were last added to before a time."""
        with _complaining("the ledger cannot be read"):
            return self.ledger.settled(before_ms, limit)

    def close(self) -> None:
        """Close the ledger."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def ship(self, load: Load, *, now_ms: int) -> Shipped:
        """Complete what an earlier attempt left, and ship one batch; nothing is lost if it raises ``ShipError``."""
        with _complaining("the lake cannot be written"):
            self._complete()
            batch = Batch(self.ledger.next_sequence())
            cargo = Cargo()
            shipped = Shipped()
            self._fill(batch, cargo, shipped, load, now_ms)
            if cargo or batch.gone:
                self._send(batch, cargo, shipped)
            return shipped

    def _complete(self) -> None:
        """Finish the batches that count, and delete the files of others."""
        for sequence, moves in self.ledger.pending().items():
            if self._files.move(moves):
                self.ledger.done(sequence)
            else:
                # Somebody has emptied the staging folder: what is still in the store can be shipped again.
                self.ledger.undo(sequence)
        self._files.clear_staging(())

    def _fill(self, batch: Batch, cargo: Cargo, shipped: Shipped, load: Load, now_ms: int) -> None:
        known = self.ledger.versions((*load.records, *load.positions))
        for name, value in load.records.items():
            self._add(batch, cargo, shipped, (name, value, known.get(name)), now_ms)
        for name, value in load.positions.items():
            version = Version(crc32(value or b""))
            if (value is None and name not in known) or (value is not None and version.number == known.get(name)):
                continue
            try:
                add_position(cargo, name, value, self._pubends, now_ms=now_ms)
            except ValueError:
                shipped.damaged += 1
                continue
            if value is None:
                batch.gone.append(name)
            else:
                batch.versions[name] = version
        for event in self.ledger.events():
            cargo.add(TOPOLOGY, event.at_ms, micros(event.at_ms), event.event, event.neighbour)
            batch.events_up_to = event.number
        for metric, labels, amount in load.samples:
            cargo.add(TELEMETRY, now_ms, micros(now_ms), metric, list(labels.items()), amount)
        shipped.records = len(batch.versions)

    def _add(
        self, batch: Batch, cargo: Cargo, shipped: Shipped, record: tuple[str, bytes | None, int | None], now_ms: int
    ) -> None:
        name, value, known = record
        if value is None:
            if known is None:
                shipped.missed += 1
            else:
                batch.gone.append(name)
            return
        try:
            version = version_of(name, value)
            if version.number != known:
                add_record(cargo, name, value, now_ms=now_ms)
                batch.versions[name] = version
        except DamagedRecordError:
            # Tracking keeps a gap record where it finds this, and that is shipped.
            shipped.damaged += 1

    def _send(self, batch: Batch, cargo: Cargo, shipped: Shipped) -> None:
        while any(self._files.exists(self._files.place_of(each, self._incarnation, batch.sequence)) for each in cargo):
            # This ledger does not know of the file that is there, which must stay as it is.
            batch.sequence += 1
        staged = [self._files.stage(parcel, self._incarnation, batch.sequence) for parcel in cargo]
        if staged:
            self._files.make_names_durable()
        batch.moves = [(each.path, each.place) for each in staged]
        self.ledger.count(batch)
        self._files.move(batch.moves)
        self.ledger.done(batch.sequence)
        shipped.files, shipped.rows = len(staged), cargo.rows
        shipped.size_bytes = sum(each.size for each in staged)


@contextmanager
def _complaining(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise ShipError(f"{what}:{where} {error.strerror or error}") from error
    except sqlite3.Error as error:
        raise ShipError(f"{what}: {error}") from error
