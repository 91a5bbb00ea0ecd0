"""Compacts the histories of a lake on Spark: tasks write new files, which the journal makes visible one by one.

Readers find the old files or the new one, never both or neither (``lake.journal``). Brokers keep shipping meanwhile;
files they add are not touched. Unreadable files are left alone and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from penstock.model.lake_tables import HISTORIES
from penstock.model.reporting import QuietReporter, Reporter
from penstock.pipeline.compact.merging import compacted
from penstock.pipeline.lake.files import LocalFiles, files_at
from penstock.pipeline.lake.reading import table_files
from penstock.pipeline.lake.store import TableStore
from penstock.pipeline.progress import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOCK", "CompactSummary", "Work", "compact_histories", "due_work", "switch", "worked_batches"]

LOCK: Final = f"{HISTORIES.name}/_lock"
"""Lock for changing the table's files; brokers do not need it, since they only add files."""

_GROUP_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of the files that one task reads, all into memory."""
_TOLD_SCHEMA: Final = (
    "folder string, inputs array<string>, staged string, size long, filters long, left long, superseded long, "
    "merged long, problems map<string,string>"
)


class Work(msgspec.Struct, frozen=True):
    """Files of one partition to merge into one."""

    folder: str
    inputs: tuple[str, ...]


class CompactSummary(msgspec.Struct):
    """The result of a compaction."""

    files_before: int = 0
    files_after: int = 0
    filters_before: int = 0
    filters_after: int = 0
    superseded: int = 0
    """Older generations of filters that were dropped."""
    merged: int = 0
    """Filters merged into others."""
    bytes_before: int = 0
    bytes_after: int = 0
    unreadable: dict[str, str] = {}
    """Files that were left alone, with the reason."""

    @property
    def bytes_saved(self) -> int:
        """How many bytes smaller the files became."""
        return self.bytes_before - self.bytes_after

    def to_json(self) -> str:
        """All figures as JSON."""
        return msgspec.json.encode({**msgspec.to_builtins(self), "bytes_saved": self.bytes_saved}).decode()

    def lines(self) -> list[str]:
        """The figures for people."""
        filters = (
            f"{self.filters_before:,} filters became {self.filters_after:,} ({self.merged:,} merged, "
            f"{self.superseded:,} superseded) in {self.files_after:,} files of {self.files_before:,}; "
            f"{self.bytes_saved:,} of {self.bytes_before:,} bytes saved"
        )
        return [filters]


def compact_histories(
    spark: SparkSession, lake: str, *, now_ms: int, keep_ms: int = 0, reporter: Reporter | None = None
) -> CompactSummary:
    """Compact all partitions of ``histories``; inputs are kept for ``keep_ms``, for jobs that already read them."""
    table_files(lake, HISTORIES.name)
    files = files_at(lake)
    with files.lock(LOCK, f"the table {HISTORIES.name}"):
        store = TableStore(files, HISTORIES)
        store.open_shipped()
        before = store.current()
        work = due_work(before)
        summary = CompactSummary(files_before=len(before), bytes_before=sum(before.values()))
        folder = store.staging("compaction")
        if work:
            frame = spark.createDataFrame(
                [(each.folder, list(each.inputs)) for each in work], "folder string, inputs array<string>"
            )
            tasks = frame.repartition(min(len(work), 4 * spark.sparkContext.defaultParallelism))
            with watched(spark, reporter or QuietReporter(), "merging filters"):
                told = tasks.mapInArrow(worked_batches(files.location(), folder), _TOLD_SCHEMA).collect()
            switch(store, [row.asDict() for row in told], summary, now_ms=now_ms, keep_ms=keep_ms)
        after = store.current()
        summary.files_after, summary.bytes_after = len(after), sum(after.values())
        return summary


def due_work(files: dict[str, int]) -> list[Work]:
    """Group small files of one partition to be read together; large files were already merged earlier."""
    folders: dict[str, list[list[str]]] = {}
    sizes: dict[str, int] = {}
    for path, size in sorted(files.items()):
        if size >= _GROUP_BYTES // 2:
            continue
        folder = path.rpartition("/")[0]
        groups = folders.setdefault(folder, [[]])
        if groups[-1] and sizes[folder] + size > _GROUP_BYTES:
            groups.append([])
            sizes[folder] = 0
        groups[-1].append(path)
        sizes[folder] = sizes.get(folder, 0) + size
    return [
        Work(folder, tuple(group))
        for folder, groups in folders.items()
        for group in groups
        if len(group) > 1 or not _is_compacted(group[0])
    ]


def worked_batches(root: str, folder: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function that compacts files in a task and reports the new ones."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                yield _told(_worked(Path(root), folder, Work(row["folder"], tuple(row["inputs"]))))

    return work


def switch(
    store: TableStore, told: list[dict[str, Any]], summary: CompactSummary, *, now_ms: int, keep_ms: int = 0
) -> None:
    """Make the new files visible instead of the old ones, and add their figures to the summary."""
    for row in sorted(told, key=lambda row: str(row["inputs"])):
        summary.unreadable |= dict(row["problems"])
        summary.filters_before += row["filters"]
        summary.filters_after += row["left"] if row["staged"] else row["filters"]
        if row["staged"] and store.may_compact:
            store.compact(row["inputs"], row["staged"], now_ms=now_ms, keep_ms=keep_ms)
            summary.superseded += row["superseded"]
            summary.merged += row["merged"]


def _worked(root: Path, folder: str, work: Work) -> dict[str, Any]:
    import pyarrow as pa

    from penstock.pipeline.lake.schemas import arrow_schema
    from penstock.pipeline.lake.writing import RowGroups

    rows, readable, problems = _read(LocalFiles(root), work.inputs)
    result = compacted(rows)
    told = {
        "folder": work.folder,
        "inputs": readable,
        "staged": None,
        "size": 0,
        "filters": len(rows),
        "left": len(result.rows),
        "superseded": result.superseded,
        "merged": result.merged,
        "problems": list(problems.items()),
    }
    if rows and (result.is_worth_it or len(readable) > 1):
        staged = f"{folder}/{uuid4().hex}.parquet"
        with RowGroups(root / staged, HISTORIES) as groups:
            groups.add(pa.Table.from_pylist(list(result.rows), schema=arrow_schema(HISTORIES)))
        told |= {"staged": staged, "size": (root / staged).stat().st_size}
    return told


def _read(files: LocalFiles, paths: Iterable[str]) -> tuple[list[dict[str, Any]], list[str], dict[str, str]]:
    from penstock.pipeline.lake.care import read_file

    rows: list[dict[str, Any]] = []
    readable, problems = [], {}
    for path in paths:
        table, problem = read_file(Path(files.location(path)), HISTORIES)
        if table is None:
            problems[path] = problem
        else:
            rows += table.to_pylist()
            readable.append(path)
    return rows, readable, problems


def _told(row: dict[str, Any]) -> Any:
    import pyarrow as pa

    types = {"inputs": pa.list_(pa.string()), "problems": pa.map_(pa.string(), pa.string())}
    types |= dict.fromkeys(("size", "filters", "left", "superseded", "merged"), pa.int64())
    return pa.RecordBatch.from_pydict(
        {name: pa.array([value], types.get(name, pa.string())) for name, value in row.items()}
    )


def _is_compacted(path: str) -> bool:
    return path.rpartition("/")[2].startswith("c")
