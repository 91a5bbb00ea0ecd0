"""Files of other versions, of other tables and of no use at all: read, refused or named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import TELEMETRY, Column, LakeTable
from penstock.pipeline.lake import LocalFiles, arrow_schema
from penstock.pipeline.lake.care import check_file, check_lake, check_table, partition_of, read_file, set_aside
from penstock.pipeline.lake.errors import LakeMismatchError

FOLDER = "telemetry/date=2026-11-15/broker=b%201"
ROW = {"incarnation": 1, "sequence": 2, "at": 5, "metric": "up", "labels": [("of", "b")], "value": 1.5}
LATER = replace(
    TELEMETRY,
    version=2,
    columns=(
        *TELEMETRY.columns,
        Column("unit", "text", "of what", since=2, default="count"),
        Column("more", "integer", "", since=2),
    ),
)


def ship(lake: Path, name: str, table: LakeTable = TELEMETRY, **more: Any) -> Path:
    path = lake / FOLDER / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.Table.from_pylist([{**ROW, **more}], schema=arrow_schema(table))
    pq.write_table(rows, path, compression="none", write_page_checksum=True, write_statistics=False)
    return path


def flip(path: Path, text: bytes) -> Path:
    """Change a bit of a text in a file."""
    whole = path.read_bytes()
    place = whole.index(text)
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    return path


def test_older_files_are_read_with_defaults(tmp_path: Path) -> None:
    path = ship(tmp_path, "old")
    table, problem = read_file(path, LATER)
    assert problem == ""
    (row,) = table.to_pylist()
    assert (row["value"], row["unit"], row["more"]) == (1.5, "count", None)
    assert check_file(path, LATER) == (1, 1, "")


def test_newer_files_are_refused_by_name(tmp_path: Path) -> None:
    path = ship(tmp_path, "new", LATER, unit="s", more=1)
    with pytest.raises(LakeMismatchError, match=r"new.parquet has columns of version 2 .* up to version 1"):
        check_file(path, TELEMETRY)
    with pytest.raises(LakeMismatchError, match=r"new\.parquet"):
        check_table(str(tmp_path), "telemetry")


def test_what_cannot_be_read_is_named_and_set_aside(tmp_path: Path) -> None:
    ship(tmp_path, "good")
    (tmp_path / FOLDER / "bad.parquet").write_bytes(b"PAR1 nothing")
    pq.write_table(pa.table({"value": [1.0]}), tmp_path / FOLDER / "few.parquet")
    whole = ship(tmp_path, "torn").read_bytes()
    (tmp_path / FOLDER / "torn.parquet").write_bytes(whole[:-30])
    (care,) = check_lake(str(tmp_path))
    assert (care.files, care.rows, care.versions) == (4, 1, {1: 1})
    assert care.good == [f"{FOLDER}/good.parquet"]
    assert set(care.problems) == {f"{FOLDER}/{name}.parquet" for name in ("bad", "few", "torn")}
    assert care.problems[f"{FOLDER}/few.parquet"] == "has no column incarnation"
    moved = set_aside(LocalFiles(tmp_path), care.problems)
    assert moved == sorted(f"_aside/{path}" for path in care.problems)
    (care,) = check_lake(str(tmp_path))
    assert (care.files, care.problems) == (1, {})


def test_a_byte_that_changed_inside_a_page_is_noticed(tmp_path: Path) -> None:
    path = ship(tmp_path, "good", metric="penstock_published_total")
    ship(tmp_path, "bad", metric="penstock_published_total")
    bad = flip(tmp_path / FOLDER / "bad.parquet", b"penstock_published_total")
    (care,) = check_lake(str(tmp_path))
    assert list(care.problems) == [f"{FOLDER}/bad.parquet"]
    assert "CRC" in care.problems[f"{FOLDER}/bad.parquet"]
    # Its end is as it should be, so that only who reads it all finds out.
    assert check_table(str(tmp_path), "telemetry").problems == {}
    table, problem = read_file(bad, TELEMETRY)
    assert table is None
    assert "CRC" in problem
    assert read_file(path, TELEMETRY)[1] == ""
    assert set_aside(LocalFiles(tmp_path), care.problems) == [f"_aside/{FOLDER}/bad.parquet"]


def test_a_file_of_another_table_is_told(tmp_path: Path) -> None:
    path = ship(tmp_path, "x")
    _, _, problem = check_file(path, replace(TELEMETRY, name="gaps"))
    assert problem == "is of table 'telemetry', not 'gaps'"
    assert read_file(path, replace(TELEMETRY, name="gaps")) == (None, problem)


def test_partitions_are_in_the_path() -> None:
    assert partition_of(f"{FOLDER}/x.parquet", "broker") == "b 1"
    assert partition_of(f"{FOLDER}/x.parquet", "pubend") is None


def test_a_lake_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="there is no lake"):
        check_lake(str(tmp_path / "none"))
