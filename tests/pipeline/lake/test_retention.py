"""Old days go, and what was in them is unknown from then on."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import HISTORIES, TELEMETRY
from penstock.pipeline.lake import LocalFiles, arrow_schema
from penstock.pipeline.lake.errors import LakeError
from penstock.pipeline.lake.retention import Known, load_known, retain_days
from pipeline.compact.test_merging import row

DAY = date(2026, 11, 15)


def ship(lake: Path, day: date, *, open_days: int = 0) -> None:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    folder = lake / f"histories/date={day}/broker=b"
    folder.mkdir(parents=True)
    filters = [row(1, range(5, 9), opened_at=noon, added_at=noon + timedelta(days=open_days))]
    pq.write_table(pa.Table.from_pylist(filters, schema=arrow_schema(HISTORIES)), folder / "1.parquet")
    other = lake / f"telemetry/date={day}/broker=b"
    other.mkdir(parents=True)
    pq.write_table(arrow_schema(TELEMETRY).empty_table(), other / "1.parquet")


def test_days_before_one_go_and_are_unknown(tmp_path: Path) -> None:
    for back in range(4):
        ship(tmp_path, DAY - timedelta(days=back), open_days=2 if back == 3 else 0)
    looked = retain_days(str(tmp_path), DAY - timedelta(days=1), dry_run=True)
    assert (looked.files, looked.is_done) == ({"histories": 2, "telemetry": 2}, False)
    assert load_known(LocalFiles(tmp_path)) == Known()
    done = retain_days(str(tmp_path), DAY - timedelta(days=1))
    assert (done.files, done.size_bytes) == (looked.files, looked.size_bytes)
    assert sorted(path.parent.parent.name for path in tmp_path.rglob("histories/*/*/*.parquet")) == [
        "date=2026-11-14",
        "date=2026-11-15",
    ]
    # A filter of the twelfth was filled until the fourteenth.
    assert load_known(LocalFiles(tmp_path)).filters == {"b": 1_794_657_600_001}
    assert "2 of histories" in done.line()


def test_only_tables_whose_rows_are_of_their_day_lose_days(tmp_path: Path) -> None:
    ship(tmp_path, DAY)
    with pytest.raises(MisuseError, match="table 'attachments' cannot lose days"):
        retain_days(str(tmp_path), DAY, tables=["attachments"])
    retain_days(str(tmp_path), DAY + timedelta(days=1), tables=["telemetry"])
    assert not list((tmp_path / "telemetry").rglob("*.parquet"))
    assert list((tmp_path / "histories").rglob("*.parquet"))
    with pytest.raises(MisuseError, match="there is no lake"):
        retain_days(str(tmp_path / "none"), DAY)


def test_a_damaged_note_is_told(tmp_path: Path) -> None:
    (tmp_path / "_retention.json").write_text("{")
    with pytest.raises(LakeError, match="is damaged"):
        load_known(LocalFiles(tmp_path))
    (tmp_path / "_retention.json").write_text('{"format": 7}')
    with pytest.raises(LakeError, match="is of format 7"):
        load_known(LocalFiles(tmp_path))
