"""What brokers ship is read by Spark as tables of the lake, whatever kind of column they have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from live.shipping.lakes import T0, Fuse, bloom_value, breaking_writer, exact_value, position_value
from penstock.live.shipping.writer import Load
from penstock.model.lake_tables import SHIPPED_TABLES
from penstock.pipeline.lake import read_table
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.keys import HistoryKey, Phase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shipped(lake: Path) -> None:
    writer = breaking_writer(lake.parent, Fuse(), broker="b [1]")
    writer.open(incarnation=1, kept=(), positions=(), now_ms=T0)
    attachments = AttachmentMap()
    (keep,) = attachments.attach("alice", {"p": 5}, now_ms=T0, selector="a > 1")[1]
    records = dict([bloom_value(1), exact_value(HistoryKey(Phase.ROUTE, 8), [(2**63 + 1, 7)])])
    positions: dict[str, bytes | None] = {"durable/p/s": position_value(5)}
    writer.ship(Load({**records, keep.name: keep.value}, positions, [("up", {"of": "b"}, 1.5)]), now_ms=T0)
    writer.ship(Load(dict([bloom_value(1, 2)])), now_ms=T0 + 1)
    writer.close()


def test_spark_reads_what_brokers_ship(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    shipped(lake)
    first, newest = sorted(read_table(spark, str(lake), "histories").collect(), key=lambda row: row.sequence)
    assert (first.filter_id, first.generation, newest.filter_id, newest.generation) == (1, 1, 1, 2)
    assert (newest.m, len(newest.bits), newest.broker, str(newest.date)) == (1_024, 128, "b [1]", "2023-11-14")
    (record,) = read_table(spark, str(lake), "records").collect()
    assert (record.id_high, record.id_low) == (1 - 2**63, 7)
    (subscription,) = read_table(spark, str(lake), "subscriptions").collect()
    assert (subscription.starts, subscription.ends, subscription.selector) == ({"p": 5}, {}, "a > 1")
    (sample,) = read_table(spark, str(lake), "telemetry").collect()
    assert (sample.labels, sample.value) == ({"of": "b"}, 1.5)


def test_every_shipped_table_can_be_asked_for_before_there_is_any_file(spark: SparkSession, tmp_path: Path) -> None:
    for table in SHIPPED_TABLES:
        columns = [column.name for column in (*table.columns, *table.partitions)]
        assert read_table(spark, str(tmp_path), table.name).columns == columns
