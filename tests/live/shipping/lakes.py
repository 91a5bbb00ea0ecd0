"""What the tests of shipping share: records to ship, files and ledgers that break at any step, and a reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.live.shipping.cargo import Parcel
from penstock.live.shipping.files import LakeFiles
from penstock.live.shipping.ledger import Batch, Ledger
from penstock.live.shipping.writer import LakeWriter
from penstock.model.lake_tables import find_table, unescaped_value
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.exact import ExactRecords, exact_shape
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import Span, TimeIndex
from penstock.tracking.stored import FilterHeader, StoredFilter

DAY_MS = 86_400_000
T0 = 1_700_000_000_000
"""2023-11-14, some time in the evening."""
SHAPE = FilterShape(1_024, 70, 10)


class Crash(BaseException):
    """The machine goes down, for all that anybody can tell."""


class Fuse:
    """Burns down step by step, and then breaks everything."""

    def __init__(self, steps: int | None = None) -> None:
        self.left = steps
        self.story: list[str] = []

    def burn(self, step: str) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Crash(step)
            self.left -= 1
        self.story.append(step)


class BreakingFiles(LakeFiles):
    """Files that break when their fuse says so; half a file is left of one that was being written.

    Nothing is synced in truth: a test cannot cut the power, and it takes long.
    """

    def __init__(self, lake: Path, broker: str, fuse: Fuse) -> None:
        super().__init__(lake, broker)
        self._fuse = fuse

    def _write(self, path: Path, parcel: Parcel, incarnation: int, sequence: int) -> None:
        try:
            self._fuse.burn(f"write {parcel.table.name}")
        except Crash:
            super()._write(path, parcel, incarnation, sequence)
            path.write_bytes(path.read_bytes()[:-50])
            raise
        super()._write(path, parcel, incarnation, sequence)

    def _rename(self, source: Path, target: Path) -> None:
        self._fuse.burn("rename")
        super()._rename(source, target)

    def _unlink(self, path: Path) -> None:
        self._fuse.burn("unlink")
        super()._unlink(path)

    def _sync(self, path: Path) -> None:
        self._fuse.burn("sync")

    def _sync_folder(self, folder: Path) -> None:
        self._fuse.burn("sync folder")


class BreakingLedger(Ledger):
    """A ledger that breaks before or after a transaction."""

    fuse: Fuse

    def count(self, batch: Batch) -> None:
        self.fuse.burn("before count")
        super().count(batch)
        self.fuse.burn("after count")

    def done(self, sequence: int) -> None:
        self.fuse.burn("before done")
        super().done(sequence)
        self.fuse.burn("after done")


def breaking_writer(tmp_path: Path, fuse: Fuse, *, broker: str = "b1", pubends: tuple[str, ...] = ("p",)) -> LakeWriter:
    """A writer into ``lake`` with its ledger in ``data``, all of which breaks with the fuse."""

    def open_ledger(folder: Path) -> tuple[Ledger, bool]:
        ledger, is_anew = BreakingLedger.open(folder)
        ledger.fuse = fuse
        return ledger, is_anew

    files = BreakingFiles(tmp_path / "lake", broker, fuse)
    return LakeWriter(files, folder=tmp_path / "data", pubends=pubends, open_ledger=open_ledger)


def bloom_value(
    filter_id: int = 1,
    generation: int = 1,
    *,
    is_open: bool = False,
    opened_ms: int = T0,
    ids: int = 20,
    singletons: tuple[Span, ...] = (),
    key: HistoryKey | None = None,
) -> tuple[str, bytes]:
    """The name and the stored form of a Bloom filter."""
    filter_ = BloomFilter(SHAPE)
    for number in range(ids):
        filter_.add(number, filter_id)
    header = FilterHeader(
        key or HistoryKey(Phase.ROUTE, 7),
        filter_id,
        generation,
        is_open=is_open,
        kind="bloom",
        shape=SHAPE,
        count=ids,
        opened_ms=opened_ms,
        added_ms=opened_ms + 5,
        index=TimeIndex((opened_ms, opened_ms + 9), singletons),
    )
    return f"filter/{header.name}", StoredFilter(header, filter_.to_bytes()).encode()


def exact_value(key: HistoryKey, ids: list[tuple[int, int]], subscribers: list[int] | None = None) -> tuple[str, bytes]:
    """The name and the stored form of a block of exact records."""
    records = ExactRecords(exact_shape(10_000, has_subscribers=subscribers is not None))
    high, low = (np.array(column, dtype=np.uint64) for column in zip(*ids, strict=True))
    records.add_columns(high, low, None if subscribers is None else np.array(subscribers, dtype=np.uint64))
    header = FilterHeader(
        key,
        3,
        1,
        is_open=False,
        kind="exact",
        shape=records.shape,
        count=records.count,
        opened_ms=T0,
        added_ms=T0,
        index=TimeIndex((T0, T0), ()),
    )
    return f"filter/{header.name}", StoredFilter(header, records.to_bytes()).encode()


def position_value(tick: int, ownership: int = 1, host: str = "b2") -> bytes:
    """A durable subscription's position as a broker keeps it."""
    return msgspec.msgpack.encode((tick, ownership, host))


def parquet_files(lake: Path, table: str) -> list[Path]:
    """The files of a table that readers see."""
    return sorted((lake / table).rglob("*.parquet"))


def rows_of(lake: Path, table: str, key: Callable[[dict[str, Any]], Any] | None = None) -> list[dict[str, Any]]:
    """All rows of a table with their partitions; of those with the same key only the newest."""
    found: list[dict[str, Any]] = []
    names = [column.name for column in find_table(table).columns]
    for path in parquet_files(lake, table):
        read = pq.ParquetFile(path)
        assert read.schema_arrow.names == names
        assert read.schema_arrow.metadata[b"penstock.table"] == table.encode()
        parts = dict(part.split("=", 1) for part in path.relative_to(lake / table).parts[:-1])
        partitions = {name: unescaped_value(value) for name, value in parts.items()}
        found += [{**row, **partitions} for row in pa.Table.to_pylist(read.read())]
    if key is None:
        return found
    found.sort(key=lambda row: (row["incarnation"], row["sequence"]))
    return list({key(row): row for row in found}.values())
