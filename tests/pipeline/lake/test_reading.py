"""A table as a frame: what counts, with its partitions, whatever its names look like."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import PUBLICATIONS
from penstock.pipeline.lake import LocalFiles, TableStore, check_lake, read_table, set_aside, spark_schema
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.reading import LakeReader, check_whole, table_files, with_defaults
from penstock.pipeline.launching import failure_of
from pipeline.lake.lakes import BreakingFiles, Crash, batch_of, staged
from pipeline.lake.test_care import LATER, flip, ship
from pipeline.made_lakes import put, subscription

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened(files: LocalFiles) -> TableStore:
    store = TableStore(files, PUBLICATIONS)
    store.open("stream", is_new=True)
    return store


def test_a_lake_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"there is no lake at .*nowhere"):
        table_files(str(tmp_path / "nowhere"), "publications")
    with pytest.raises(MisuseError, match="no table 'nothing'"):
        table_files(str(tmp_path), "nothing")


def test_a_missing_lake_and_an_empty_table_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="there is no lake at"):
        check_whole(str(tmp_path / "no"), "subscriptions")
    with pytest.raises(MisuseError, match=r"no rows in its table subscriptions yet: .*penstock ship"):
        check_whole(str(tmp_path), "subscriptions")
    with pytest.raises(MisuseError, match=r"no rows in its table publications yet: .*penstock pipeline archive"):
        check_whole(str(tmp_path), "publications")
    put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    assert check_whole(str(tmp_path), "subscriptions") == 1


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(LakeError, match=r"cannot read .*f\.parquet: .*; move it away"):
        check_whole(str(tmp_path), "subscriptions")


def test_columns_of_another_version_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    table = pq.ParquetFile(path).read()
    pq.write_table(table.replace_schema_metadata({"penstock.schema_version": "2"}), path)
    with pytest.raises(LakeMismatchError, match="columns of version 2; this Penstock reads version 1"):
        check_whole(str(tmp_path), "subscriptions")


def test_a_file_without_a_version_is_of_the_first(tmp_path: Path) -> None:
    path = put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    pq.write_table(pa.table({"number": [1]}), path)
    assert check_whole(str(tmp_path), "subscriptions") == 1


def test_names_with_special_characters_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "a [lake] {x}"
    store = opened(LocalFiles(lake))
    pubends = ["007", "a/b=c", "é %41", "{x}[y]*"]
    store.publish(0, staged(store, *(batch_of([1, 2], pubend=each) for each in pubends)))
    rows = read_table(spark, str(lake), "publications").select("pubend", "message_id").collect()
    assert Counter((row.pubend, row.message_id) for row in rows) == Counter(
        (each, f"id-{each}-{number}") for each in pubends for number in (1, 2)
    )


def test_an_empty_table_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = read_table(spark, str(tmp_path), "publications")
    assert (frame.count(), frame.columns[-2:]) == (0, ["date", "pubend"])


def test_a_batch_that_is_half_there_is_not_seen(spark: SparkSession, tmp_path: Path) -> None:
    files = BreakingFiles(tmp_path)
    store = opened(files)
    store.publish(0, staged(store, batch_of([1])))
    written = staged(store, batch_of([2]), batch_of([2], pubend="r"))
    files.story.clear()
    files.left = 8
    with pytest.raises(Crash):
        store.publish(1, written)
    assert "rename b000000000001-0000.parquet" in files.story
    assert read_table(spark, str(tmp_path), "publications").count() == 1
    assert spark.read.parquet(f"{tmp_path}/publications").count() > 1


def test_files_of_an_older_version_have_defaults(spark: SparkSession, tmp_path: Path) -> None:
    path = ship(tmp_path, "old")
    frame = spark.read.schema(spark_schema(LATER)).option("basePath", str(tmp_path / "telemetry")).parquet(str(path))
    (row,) = with_defaults(frame, LATER).collect()
    assert (row.value, row.unit, row.more, row.broker) == (1.5, "count", None, "b 1")


def test_a_job_leaves_out_what_cannot_be_read_unless_it_needs_the_whole_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = ship(tmp_path, "good")
    reader = LakeReader(spark, str(tmp_path))
    assert reader.whole_table("telemetry").count() == 1
    (path.parent / "bad.parquet").write_bytes(b"x")
    assert reader.table("telemetry").count() == 1
    assert list(reader.unreadable) == ["telemetry/date=2026-11-15/broker=b%201/bad.parquet"]
    with pytest.raises(LakeError, match=r"cannot read .*bad\.parquet"):
        reader.whole_table("telemetry")


def test_a_byte_that_changed_inside_a_page_is_never_taken_for_data(spark: SparkSession, tmp_path: Path) -> None:
    from py4j.protocol import Py4JJavaError

    ship(tmp_path, "good", metric="penstock_published_total")
    flip(ship(tmp_path, "bad", metric="penstock_published_total"), b"penstock_published_total")
    with pytest.raises(Py4JJavaError) as raised:
        read_table(spark, str(tmp_path), "telemetry").collect()
    told = failure_of(raised.value)
    assert "bad.parquet" in told
    assert "penstock pipeline check" in told
    (care,) = check_lake(str(tmp_path))
    set_aside(LocalFiles(tmp_path), care.problems)
    (row,) = read_table(spark, str(tmp_path), "telemetry").collect()
    assert row.metric == "penstock_published_total"
