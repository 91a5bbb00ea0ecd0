"""Writes rows as Parquet files of a table: one file per partition, whole and durable when it is told of.

It runs wherever Spark runs its tasks. A task that is tried again writes under other names, and nobody is told of what
the first attempt left behind.
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
"""What a stream of publications must have; the date is made from the tick."""
STAGED_SCHEMA: Final = "path string, partition string, rows long, size long, first long"
"""What ``write_publications`` tells of each file, for Spark."""

_OPEN_MAX: Final = 32
"""Files that one task writes at the same time."""
_TICK_BITS: Final = 16
_DAY_MS: Final = 86_400_000
_GROUP_ROWS: Final = 131_072
_GROUP_BYTES: Final = 64 * 1024 * 1024


def write_publications(batches: Iterable[Any], folder: str, place: str) -> Iterator[Any]:
    """Write Arrow batches of publications into a staging folder, and tell of the files, as Arrow batches.

    ``folder`` is the staging folder below the lake, ``place`` the same for this machine.
    """
    parts = _Parts(folder, Path(place))
    for batch in batches:
        for key, rows in _by_partition(batch):
            parts.add(key, rows)
    yield _told(parts.close())


def staged_file(row: Any) -> StagedFile:
    """What a row that was told stands for."""
    return StagedFile(row["path"], row["partition"], row["rows"], row["size"], row["first"])


class RowGroups:
    """One Parquet file of a table while it is written, in row groups of a good size; durable when it is closed."""

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
        """Write a table of rows, now or with later ones."""
        self._waiting.append(rows)
        self.rows += rows.num_rows
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= _GROUP_ROWS or self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        """Write what waits, and make the file durable; answers with its size."""
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
    """The file of one partition, with the tick of its first row."""

    groups: RowGroups
    first: int


class _Parts:
    """The files that one task writes."""

    def __init__(self, folder: str, place: Path) -> None:
        self._folder, self._place = folder, place
        self._open: dict[str, _Part] = {}
        self._done: list[StagedFile] = []

    def add(self, key: str, rows: Any) -> None:
        # The one that was used last stands last.
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
    """The rows of each partition, in their order, as they are to be in the files."""
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
