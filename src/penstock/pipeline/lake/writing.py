"""Writes rows as Parquet files of a table: one file per partition, complete and durable before it is reported.

This runs inside Spark's tasks. A retried task writes under new names, and files of the failed attempt are never
reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.model.lake_tables import PUBLICATIONS, LakeTable, partition_path
from penstock.pipeline.lake.schemas import arrow_schema
from penstock.pipeline.lake.store import StagedFile

__all__ = ["PUBLISHED_COLUMNS", "STAGED_SCHEMA", "RowGroups", "staged_file", "write_publications"]

PUBLISHED_COLUMNS: Final = tuple(column.name for column in (*PUBLICATIONS.columns, PUBLICATIONS.partitions[1]))
"""Columns that a stream of publications must have; the date is derived from the tick."""
STAGED_SCHEMA: Final = "path string, partition string, rows long, size long, first long"
"""Spark schema of the rows in which ``write_publications`` reports its files."""

_OPEN_MAX: Final = 32
"""How many files one task may have open at once."""
_TICK_BITS: Final = 16
_DAY_MS: Final = 86_400_000
_GROUP_ROWS: Final = 131_072
_GROUP_BYTES: Final = 64 * 1024 * 1024


def write_publications(batches: Iterable[Any], folder: str, place: str) -> Iterator[Any]:
    """Write Arrow batches of publications into a staging folder; yields Arrow batches that describe the files.

    ``folder`` is the staging folder relative to the lake, ``place`` its path on this machine.
    """
    parts = _Parts(folder, Path(place))
    for batch in batches:
        for key, rows in _by_partition(batch):
            parts.add(key, rows)
    yield _told(parts.close())


def staged_file(row: Any) -> StagedFile:
    """Parse a row reported by ``write_publications``."""
    return StagedFile(row["path"], row["partition"], row["rows"], row["size"], row["first"])


class RowGroups:
    """A Parquet file being written in row groups of a good size; durable once it is closed."""

    def __init__(self, path: Path, table: LakeTable) -> None:
        self.path: Final = path
        self.schema: Final = arrow_schema(table)
        self.rows = 0
        self._writer = pq.ParquetWriter(path, self.schema, compression="zstd")
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, rows: Any) -> None:
        """Add rows, written now or together with later ones."""
        self._waiting.append(rows)
        self.rows += rows.num_rows
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        """Write the buffered rows and make the file durable; returns its size."""
        self._flush()
        self._writer.close()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=_GROUP_ROWS)
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


@dataclass(slots=True)
class _Part:
    """The open file of one partition, with its first tick."""

    groups: RowGroups
    first: int


class _Parts:
    """The files that one task writes."""

    def __init__(self, folder: str, place: Path) -> None:
        self._folder, self._place = folder, place
        self._open: dict[str, _Part] = {}
        self._done: list[StagedFile] = []

    def add(self, key: str, rows: Any) -> None:
        # Keep the most recently used part last.
        part = self._open.pop(key, None)
        if part is None:
            if len(self._open) >= _OPEN_MAX:
                self._finish(next(iter(self._open)))
            first = pc.min(rows.column("tick")).as_py()
            part = _Part(RowGroups(self._place / f"{uuid4().hex}.parquet", PUBLICATIONS), first)
        self._open[key] = part
        part.groups.add(rows)

    def close(self) -> list[StagedFile]:
        for key in list(self._open):
            self._finish(key)
        return self._done

    def _finish(self, key: str) -> None:
        part = self._open.pop(key)
        groups = part.groups
        size = groups.close()
        self._done.append(StagedFile(f"{self._folder}/{groups.path.name}", key, groups.rows, size, part.first))


def _by_partition(batch: Any) -> Iterator[tuple[str, Any]]:
    """Split a batch by partition, in the form the files need, keeping row order."""
    if not batch.num_rows:
        return
    days = pc.divide(pc.shift_right(batch.column("tick"), _TICK_BITS), _DAY_MS)
    schema = arrow_schema(PUBLICATIONS)
    rows = pa.Table.from_arrays([batch.column(each.name).cast(each.type) for each in schema], schema=schema)
    pubends = batch.column("pubend")
    for day in pc.unique(days).to_pylist():
        for pubend in pc.unique(pubends).to_pylist():
            chosen = pc.and_(pc.equal(days, day), pc.equal(pubends, pubend))
            some = rows.filter(chosen) if pc.any(pc.invert(chosen)).as_py() else rows
            if some.num_rows:
                date = pa.scalar(day, pa.int32()).cast(pa.date32()).as_py().isoformat()
                yield partition_path(PUBLICATIONS, {"date": date, "pubend": pubend}), some


def _told(files: list[StagedFile]) -> Any:
    columns = {
        "path": pa.array([each.path for each in files], pa.string()),
        "partition": pa.array([each.partition for each in files], pa.string()),
        "rows": pa.array([each.rows for each in files], pa.int64()),
        "size": pa.array([each.size for each in files], pa.int64()),
        "first": pa.array([each.first for each in files], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)
