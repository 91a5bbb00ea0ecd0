"""What is wrong with the tables of a lake is told before Spark reads them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.errors import MisuseError
from penstock.pipeline.inputs import TimeSpan, check_table, parse_time
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from pipeline.made_lakes import put, subscription


def test_a_missing_lake_and_an_empty_table_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="there is no lake at"):
        check_table(str(tmp_path / "no"), "subscriptions")
    with pytest.raises(MisuseError, match=r"no rows in its table subscriptions yet: .*penstock ship"):
        check_table(str(tmp_path), "subscriptions")
    with pytest.raises(MisuseError, match=r"no rows in its table publications yet: .*penstock pipeline archive"):
        check_table(str(tmp_path), "publications")
    put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    assert check_table(str(tmp_path), "subscriptions") == 1


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(LakeError, match=r"cannot read .*f\.parquet: .*; move it away"):
        check_table(str(tmp_path), "subscriptions")


def test_columns_of_another_version_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    table = pq.ParquetFile(path).read()
    pq.write_table(table.replace_schema_metadata({"penstock.schema_version": "2"}), path)
    with pytest.raises(LakeMismatchError, match="columns of version 2; this Penstock reads version 1"):
        check_table(str(tmp_path), "subscriptions")


def test_a_file_without_a_version_is_of_the_first(tmp_path: Path) -> None:
    path = put(tmp_path, "subscriptions", [subscription(1, "TRUE")], broker="b1")
    pq.write_table(pa.table({"number": [1]}), path)
    assert check_table(str(tmp_path), "subscriptions") == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [("noon", "is no time such as"), ("2026-11-15T10:00:00", "has no zone"), ("1969-01-01T00:00:00Z", "before 1970")],
)
def test_times_that_are_none_are_refused(text: str, says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        parse_time(text)


def test_a_span_ends_after_it_begins() -> None:
    assert TimeSpan.parse("1970-01-01T00:00:01Z", None) == TimeSpan(1000, None)
    assert TimeSpan.parse("1970-01-01T01:00:01+01:00", "1970-01-01T00:00:02Z") == TimeSpan(1000, 2000)
    with pytest.raises(MisuseError, match="before it begins at 1970-01-01T00:00:02"):
        TimeSpan(2000, 2000)
