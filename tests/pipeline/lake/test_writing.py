"""Rows become one file per day and pubend, zstd, in order, with what the file says about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.lake import writing
from penstock.pipeline.lake.schemas import arrow_schema
from penstock.pipeline.lake.writing import RowGroups, write_publications
from pipeline.lake.lakes import DATE, batch_of

METADATA = {b"penstock.table": b"publications", b"penstock.schema_version": b"1"}


def written(folder: Path, *batches: Any) -> list[dict[str, Any]]:
    (told,) = write_publications(batches, "lake/staging", str(folder))
    return sorted(told.to_pylist(), key=lambda row: (row["partition"], row["first"]))


def test_each_day_and_pubend_gets_its_file(tmp_path: Path) -> None:
    mixed = pa.concat_batches([batch_of([3, 4]), batch_of([1], pubend="r/s"), batch_of([5], days=1), batch_of([6])])
    files = written(tmp_path, mixed, batch_of([7]))
    assert [(each["partition"], each["rows"]) for each in files] == [
        (f"date={DATE}/pubend=q", 4),
        (f"date={DATE}/pubend=r%2Fs", 1),
        ("date=2024-10-05/pubend=q", 1),
    ]
    first = tmp_path / Path(files[0]["path"]).name
    assert files[0]["path"].startswith("lake/staging/")
    assert files[0]["size"] == first.stat().st_size
    table = pq.read_table(first)
    assert (table.schema.names, table.schema.metadata) == (arrow_schema(PUBLICATIONS).names, METADATA)
    assert table.cast(arrow_schema(PUBLICATIONS)).num_rows == 4
    assert table.column("message_id").to_pylist() == ["id-q-3", "id-q-4", "id-q-6", "id-q-7"]
    assert table.column("tick")[0].as_py() == files[0]["first"]
    assert pq.ParquetFile(first).metadata.row_group(0).column(0).compression == "ZSTD"


def test_nothing_to_write_is_no_file(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path, batch_of([])) == []
    assert list(tmp_path.iterdir()) == []


def test_the_last_moment_of_a_day_and_the_first_of_the_next_are_told_apart(tmp_path: Path) -> None:
    midnight_ms = 20_000 * 86_400_000
    batch = batch_of([0, 1])
    ticks = pa.array([(midnight_ms << 16) - 1, midnight_ms << 16], pa.int64())
    files = written(tmp_path, batch.set_column(batch.schema.get_field_index("tick"), "tick", ticks))
    assert [each["partition"] for each in files] == ["date=2024-10-03/pubend=q", "date=2024-10-04/pubend=q"]


def test_more_partitions_than_may_be_open_are_written_all_the_same(tmp_path: Path) -> None:
    pubends = [f"p{number}" for number in range(writing._OPEN_MAX + 5)]
    rounds = [batch_of([turn], pubend=pubend) for turn in (1, 2) for pubend in pubends]
    files = written(tmp_path, *rounds)
    rows = [row for each in files for row in pq.read_table(tmp_path / Path(each["path"]).name).to_pylist()]
    assert sorted(row["message_id"] for row in rows) == sorted(
        f"id-{name}-{turn}" for name in pubends for turn in (1, 2)
    )


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    with RowGroups(tmp_path / "x.parquet", PUBLICATIONS) as groups:
        for number in range(10):
            (told,) = write_publications([batch_of([number])], "s", str(tmp_path))
            groups.add(pq.read_table(tmp_path / Path(told.to_pylist()[0]["path"]).name))
    assert groups.rows == 10
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 1
