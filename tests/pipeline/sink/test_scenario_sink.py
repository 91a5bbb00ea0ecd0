"""The sink in a real Spark session, at a real broker: what users see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay
from penstock.model.message import Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT_S = 60


def sink(overlay: DemoOverlay, staging: Path, **more: Any) -> dict[str, Any]:
    return {"broker": overlay.url("b1"), "pubend": "b1.out", "staging": str(staging), **more}


def read(spark: SparkSession, overlay: DemoOverlay, pubend: str) -> DataFrame:
    options = {"broker": overlay.url("b1"), "pubends": pubend, "columns": "number long, name string"}
    return spark.read.format("penstock").options(**options).load()


def numbers(spark: SparkSession, overlay: DemoOverlay, pubend: str) -> list[int]:
    return sorted(row.number for row in read(spark, overlay, pubend).select("number").collect())


def test_a_frame_is_published_once_under_its_name(spark: SparkSession, overlay: DemoOverlay, tmp_path: Path) -> None:
    frame = spark.range(100).selectExpr("id AS number", "concat('n', id) AS name", "cast(id AS string) AS payload")
    for _ in range(2):
        options = sink(overlay, tmp_path, pubend="b1.more", batch="first")
        frame.write.format("penstock").mode("append").options(**options).save()
    rows = read(spark, overlay, "b1.more").collect()
    assert sorted((row.number, row.name, bytes(row.payload)) for row in rows) == [
        (number, f"n{number}", str(number).encode()) for number in range(100)
    ]


def run_stream(spark: SparkSession, overlay: DemoOverlay, folder: Path) -> None:
    source = {"broker": overlay.url("b1"), "pubends": "b1.in", "startingPosition": "earliest"}
    frame = spark.readStream.format("penstock").options(**source).schema("number long").load()
    # Shuffled, so that a batch that is made again has its rows elsewhere.
    writer = frame.repartition(2).writeStream.format("penstock").options(**sink(overlay, folder / "staging"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(LIMIT_S)


@pytest.mark.live
def test_a_stream_goes_on_exactly_where_it_was(spark: SparkSession, overlay: DemoOverlay, tmp_path: Path) -> None:
    with connect_sync(overlay.url("b1")) as client:
        for first in (0, 500):
            client.publish_many([Message({"number": first + place}) for place in range(500)], pubend="b1.in")
            client.flush()
            run_stream(spark, overlay, tmp_path)
    assert numbers(spark, overlay, "b1.out") == list(range(1_000))
    # As if Spark had been killed after the sink's commit and before its own.
    commits = tmp_path / "checkpoint/commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    assert last > 0
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink()
    run_stream(spark, overlay, tmp_path)
    assert numbers(spark, overlay, "b1.out") == list(range(1_000))


def test_what_is_wrong_is_told_in_one_line(spark: SparkSession, overlay: DemoOverlay, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("penstock").mode("append")
    with pytest.raises(Exception, match="option pubend is missing: the pubend to publish to"):
        writer.options(broker=overlay.url("b1"), staging=str(tmp_path)).save()
    with pytest.raises(Exception, match=r"has pubend 'b1.no'; they have: b1.in, b1.out, b1.more") as caught:
        writer.options(**sink(overlay, tmp_path, pubend="b1.no")).save()
    assert "Traceback" not in str(caught.value).partition("JVM stacktrace")[0]
