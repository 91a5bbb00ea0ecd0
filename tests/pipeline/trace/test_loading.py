"""What cannot be read, or was given up, is unknown and never denied; histories are looked at without their bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")

from live.shipping.lakes import T0
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.lake.retention import Known
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts
from penstock.pipeline.trace.filters import newest_filters
from penstock.pipeline.trace.loading import doubt_unreadable, forget, look_at_histories
from penstock.pipeline.trace.timeline import TIME_MAX
from pipeline.lake.test_care import ship
from pipeline.lake.test_scenario_shipped import shipped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def facts() -> LakeFacts:
    return LakeFacts({"b": BrokerFacts("b", known_since_ms=100), "c": BrokerFacts("c", known_since_ms=100)})


@pytest.mark.parametrize("table", ["histories", "records", "gaps"])
def test_a_file_of_records_that_cannot_be_read_is_a_gap_of_its_broker(table: str) -> None:
    known = facts()
    doubt_unreadable(known, [f"{table}/date=2026-11-15/broker=b/1.parquet"])
    assert known.brokers["b"].gaps[0].concerns("route/5", 10**12)
    assert not known.brokers["c"].gaps


def test_who_was_attached_or_published_elsewhere_is_unknown() -> None:
    known = facts()
    paths = [
        "attachments/date=2026-11-15/broker=b/1.parquet",
        "aliases/date=2026-11-15/broker=d/1.parquet",
        "x.parquet",
    ]
    doubt_unreadable(known, paths)
    assert (known.brokers["b"].attachments_since_ms, known.brokers["d"].aliases_since_ms) == (TIME_MAX, TIME_MAX)


def test_what_was_given_up_is_unknown() -> None:
    known = facts()
    forget(known, Known(filters={"b": 500, "c": 50, "d": 7}, aliases={"b": 9}))
    assert [each.known_since_ms for each in known.brokers.values()] == [500, 100, 7]
    assert known.brokers["b"].aliases_since_ms == 9


def test_a_small_table_is_read_without_a_job(tmp_path: Path) -> None:
    path = ship(tmp_path, "good")
    (path.parent / "bad.parquet").write_bytes(b"x")
    reader = LakeReader(None, str(tmp_path))  # type: ignore[arg-type]
    rows = reader.rows("telemetry")
    assert rows is not None
    assert [(row["metric"], row["broker"]) for row in rows] == [("up", "b 1")]
    assert list(reader.unreadable) == [path.parent.relative_to(tmp_path).as_posix() + "/bad.parquet"]
    assert reader.is_empty("gaps")
    assert not reader.is_empty("telemetry")


def test_that_a_filter_has_a_newer_generation_is_known_before_bits_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    shipped(tmp_path / "lake")
    reader = LakeReader(spark, str(tmp_path / "lake"))
    seen = look_at_histories(reader, first_ms=T0, last_ms=T0 + 5)
    assert sorted((row["broker"], row["history"]) for row in seen.keys) == [("b [1]", "route/7"), ("b [1]", "route/8")]
    assert (seen.has_superseded, seen.filter_ms) == (True, 9.0)
    assert look_at_histories(reader, first_ms=T0 + 10, last_ms=T0 + 20).filter_ms == 0.0
    histories = reader.table("histories")
    assert [row.generation for row in newest_filters(histories).collect()] == [2]
    assert newest_filters(histories, has_superseded=False).count() == 2
