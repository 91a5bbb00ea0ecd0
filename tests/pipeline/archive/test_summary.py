"""What an archive has done, in one line and as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock.pipeline.archive.summary import ArchiveSummary, shown_bytes


def summary(**changes: Any) -> ArchiveSummary:
    figures = {"rows": 1_200, "files": 4, "bytes": 2_500_000, "batches": 3, "repeated": 1, "merges": 2}
    table = {"table_files": 7, "table_bytes": 12, "lag_s": 1.25, "seconds": 9.5, "is_complete": True}
    return ArchiveSummary(lake="lake", **{**figures, **table, **changes})


def test_the_line_has_rows_files_bytes_and_lag() -> None:
    assert summary().line() == (
        "1,200 rows archived in 4 files of 2.5 MB, 3 batches, 2 merges, lag 1.2 s; the table has 7 files of 12 B"
    )
    assert "lag" not in summary(lag_s=None).line()


def test_json_has_all_fields() -> None:
    decoded = msgspec.json.decode(summary().to_json())
    assert (decoded["rows"], decoded["lag_s"], decoded["is_complete"]) == (1_200, 1.25, True)
    assert msgspec.convert(decoded, ArchiveSummary) == summary()


@pytest.mark.parametrize(("count", "shown"), [(0, "0 B"), (1_000, "1.0 kB"), (5e9, "5.0 GB"), (7e15, "7,000.0 TB")])
def test_bytes_have_units(count: float, shown: str) -> None:
    assert shown_bytes(count) == shown
