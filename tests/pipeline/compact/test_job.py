"""A compaction of a lake: readers find the old files or the new one, wherever it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import HISTORIES
from penstock.pipeline.compact.job import CompactSummary, compact_histories, due_work, switch, worked_batches
from penstock.pipeline.lake import LocalFiles, TableStore, arrow_schema, snapshot
from pipeline.compact.test_merging import claimed, row
from pipeline.lake.lakes import BreakingFiles, Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "histories/date=1970-01-01/broker=b"


def ship(lake: Path, name: str, *rows: dict[str, Any], folder: str = FOLDER) -> None:
    place = lake / folder
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=arrow_schema(HISTORIES)), place / f"{name}.parquet")


def shipped(lake: Path) -> None:
    ship(lake, "1", row(1, range(100, 110), is_open=True), row(2, range(130, 160)))
    ship(lake, "2", row(1, range(100, 130), generation=2, sequence=7), row(3, range(160, 190)))


def rows_in(files: LocalFiles) -> list[dict[str, Any]]:
    paths = snapshot(files, HISTORIES)
    return [each for path in paths for each in pq.ParquetFile(files.location(path)).read().to_pylist()]


def told(lake: Path, store: TableStore) -> list[dict[str, Any]]:
    """What tasks tell, without Spark."""
    folder = store.staging("compaction")
    batches = [
        pa.RecordBatch.from_pylist([{"folder": each.folder, "inputs": list(each.inputs)}])
        for each in due_work(store.current())
    ]
    found: Iterator[Any] = worked_batches(str(lake), folder)(batches)
    rows = [each for batch in found for each in batch.to_pylist()]
    return [{**each, "problems": dict(each["problems"])} for each in rows]


def opened(files: LocalFiles) -> TableStore:
    store = TableStore(files, HISTORIES)
    store.open_shipped()
    return store


def sees_all_or_one(lake: Path) -> None:
    assert len(rows_in(LocalFiles(lake))) in (1, 4)


def test_a_crash_at_any_step_leaves_the_old_files_or_the_new_one(tmp_path: Path) -> None:
    steps = 0
    while True:
        lake = tmp_path / str(steps)
        shipped(lake)
        files = BreakingFiles(lake)
        store = opened(files)
        work = told(lake, store)

        files.left, files.on_step = steps, partial(sees_all_or_one, lake)
        try:
            switch(store, work, CompactSummary(), now_ms=0)
        except Crash:
            assert len(rows_in(LocalFiles(lake))) in (1, 4)
            opened(LocalFiles(lake))
            rows = rows_in(LocalFiles(lake))
            assert len(rows) in (1, 4)
            assert all(claimed(rows, key) for key in range(100, 190))
            steps += 1
        else:
            break
    assert steps > 5
    assert len(rows_in(LocalFiles(lake))) == 1
    assert len(LocalFiles(lake).listed("histories")) == 1


def test_what_brokers_ship_meanwhile_stays(tmp_path: Path) -> None:
    shipped(tmp_path)
    store = opened(LocalFiles(tmp_path))
    work = told(tmp_path, store)
    ship(tmp_path, "3", row(4, range(300, 310)))
    summary = CompactSummary()
    switch(store, work, summary, now_ms=0)
    assert sorted(each["filter_id"] for each in rows_in(store.files)) == [1, 4]
    assert (summary.filters_before, summary.filters_after, summary.superseded, summary.merged) == (4, 1, 1, 2)
    # The next time the new one is merged as well.
    switch(store, told(tmp_path, store), CompactSummary(), now_ms=0)
    assert [each["count"] for each in rows_in(store.files)] == [100]


def test_files_that_cannot_be_read_are_left_alone(tmp_path: Path) -> None:
    shipped(tmp_path)
    bad = tmp_path / FOLDER / "0.parquet"
    bad.write_bytes(b"no parquet")
    store = opened(LocalFiles(tmp_path))
    summary = CompactSummary()
    switch(store, told(tmp_path, store), summary, now_ms=0)
    assert list(summary.unreadable) == [f"{FOLDER}/0.parquet"]
    assert bad.exists()
    assert len(LocalFiles(tmp_path).listed("histories")) == 2


def test_nothing_is_done_twice() -> None:
    assert [each.inputs for each in due_work({"h/d/a.parquet": 5, "h/d/b.parquet": 5})] == [
        ("h/d/a.parquet", "h/d/b.parquet")
    ]
    assert due_work({"h/d/c000000000001.parquet": 5, "h/e/x.parquet": 80 << 20}) == []
    large = {f"h/d/{number}.parquet": 50 << 20 for number in range(4)}
    assert [len(each.inputs) for each in due_work(large)] == [2, 2]


def test_a_lake_is_compacted_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    shipped(tmp_path)
    ship(tmp_path, "1", row(1, range(10, 20)), folder="histories/date=1970-01-01/broker=c")
    summary = compact_histories(spark, str(tmp_path), now_ms=0)
    assert (summary.filters_before, summary.filters_after, summary.files_before, summary.files_after) == (5, 2, 3, 2)
    assert summary.bytes_saved > 0
    rows = rows_in(LocalFiles(tmp_path))
    assert all(claimed(rows, key) for key in (*range(100, 190), *range(10, 20)))
    again = compact_histories(spark, str(tmp_path), now_ms=0)
    assert (again.superseded, again.merged, again.files_after) == (0, 0, 2)


def test_a_lake_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="there is no lake"):
        compact_histories(None, str(tmp_path / "none"), now_ms=0)  # type: ignore[arg-type]
