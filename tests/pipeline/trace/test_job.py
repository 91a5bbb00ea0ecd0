"""The chain of frames on Spark gives the traces that brokers give live."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.model.errors import MisuseError
from penstock.model.message_id import MessageId
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.trace.ids import given_ids
from penstock.pipeline.trace.job import placed_ids, prepare, told_receivers, told_ways, traced_ids, way_book
from pipeline.trace.recorded import SLACK_MS, RecordedOverlay, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def eventful(**settings: Any) -> RecordedOverlay:
    """Crashes, late messages, aliases, a broker that ships nothing."""
    overlay = RecordedOverlay(Random(f"job {settings}"), brokers=6, **settings)
    overlay.run(60)
    overlay.crash(3)
    for age_ms in range(100, 900, 20):
        overlay.publish(overlay.rng.choice((1, 3)), age_ms=age_ms)
    for number in range(60):
        overlay.publish(3, named=1 if number % 10 == 0 else None)
        overlay.pass_ms(100)
    overlay.nodes[6].is_shipped = False
    overlay.rest()
    return overlay


def traces(spark: SparkSession, lake: Path, ids: list[MessageId]) -> dict[str, dict[str, Any]]:
    placed = placed_ids(given_ids(spark, [str(each) for each in ids]))
    reader = LakeReader(spark, str(lake))
    prepared = prepare(reader, placed, slack_ms=SLACK_MS)
    frame = traced_ids(reader, placed, prepared).localCheckpoint()
    ways = {row.way: row.asDict(recursive=True) for row in told_ways(frame).collect()}
    receivers = {row.receiver: [row.broker, row.subscriber] for row in told_receivers(spark, prepared.facts).collect()}
    found = {}
    for row in frame.collect():
        key = str(MessageId.from_halves(row.id_high % 2**64, row.id_low % 2**64))
        way = {name: value for name, value in ways[row.way].items() if name != "way"}
        way["gaps"] = sorted(way["gaps"], key=lambda gap: str(tuple(gap.values())))
        told = {"receivers": [receivers[each] for each in row.receivers], "error": round(row.error_probability, 9)}
        found[key] = {**way, **told}
    return found


@pytest.mark.parametrize("settings", [{}, {"strategy": "exact"}], ids=str)
def test_traces_of_a_lake_are_those_of_the_brokers(
    spark: SparkSession, tmp_path: Path, settings: dict[str, Any]
) -> None:
    overlay = eventful(**settings)
    lake = overlay.ship(tmp_path)
    ids = [*overlay.ids, *(MessageId(9, each.broker, each.timestamp_ms, 7) for each in overlay.ids[::5])]
    found = traces(spark, lake, ids)
    for each in ids:
        assert found[str(each)] == shown(overlay.trace(each))


def test_a_process_keeps_the_ways_of_one_job() -> None:
    first = way_book("one")
    assert way_book("one") is first
    assert way_book("two") is not first
    assert way_book("one") is not first


def test_a_lake_without_records_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    placed = placed_ids(given_ids(spark, [str(MessageId(1, 1, 5, 0))]))
    with pytest.raises(MisuseError, match="nothing was shipped to it"):
        prepare(LakeReader(spark, str(tmp_path)), placed)
    with pytest.raises(MisuseError, match="there is no lake"):
        prepare(LakeReader(spark, str(tmp_path / "none")), placed)
