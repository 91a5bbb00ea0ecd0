"""The sink in a real Spark session, at a real broker: what users see."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.sync import connect_sync
from penstock.lab.demo_overlay import DemoOverlay
from penstock.model.message import Message
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.journal import read_journal
from pipeline.sink.conftest import DOOR_PLAN
from pipeline.sink.test_publishing import logged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT_S = 60
ROWS = 600


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


@pytest.mark.live
def test_a_query_to_two_pubends_outlives_the_broker_that_it_publishes_at(spark: SparkSession, tmp_path: Path) -> None:
    with DemoOverlay(DOOR_PLAN) as overlay:
        with connect_sync(overlay.url("b1")) as client:
            client.publish_many([Message({"number": number}) for number in range(ROWS)], pubend="b1.in")
        source = {"broker": overlay.url("b1"), "pubends": "b1.in", "startingPosition": "earliest"}
        frame = (
            spark.readStream.format("penstock").options(**source, maxRowsPerTrigger=100).schema("number long").load()
        )
        chosen = frame.selectExpr("number", "if(number % 3 = 0, 'b1.out', 'b2.out') AS target").repartition(2)
        where = f"{overlay.url('door')},{overlay.url('b2').removeprefix('penstock://')}"
        options = {"broker": where, "pubendColumn": "target", "staging": str(tmp_path / "staging")}
        writer = chosen.writeStream.format("penstock").options(**options)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        files = LocalFiles(tmp_path / "staging")
        deadline_s = time.monotonic() + LIMIT_S
        while (journal := read_journal(files)) is None or journal.stream < 1:
            assert time.monotonic() < deadline_s
            assert query.isActive
            time.sleep(0.005)
        overlay.kill("door")
        assert query.awaitTermination(LIMIT_S)
        last = read_journal(files)
        assert last is not None
        assert last.stream > journal.stream
        assert sorted(map(int, map(str, logged(overlay, "b1.out")))) == list(range(0, ROWS, 3))
        assert sorted(map(int, map(str, logged(overlay, "b2.out")))) == [n for n in range(ROWS) if n % 3]


@pytest.mark.live
def test_rows_that_could_not_be_published_are_kept_though_spark_gives_them_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    options: dict[str, str] = {
        "pubend": "b1.out",
        "staging": str(tmp_path),
        "batch": "first",
        "retryTimeoutMs": "1000",
    }
    frame = spark.range(100).selectExpr("id AS number")
    with DemoOverlay(DOOR_PLAN) as overlay:
        with connect_sync(overlay.url("door")) as client:
            client.publish({"number": -1}, pubend="b1.out")
        overlay.kill("b1")
        writer = frame.write.format("penstock").mode("append").options(broker=overlay.url("door"), **options)
        with pytest.raises(Exception, match=r"pubend b1.out has been out of reach of broker door"):
            writer.save()
        overlay.start("b1")
        writer.save()
        assert sorted(map(int, map(str, logged(overlay, "b1.out")))) == list(range(-1, 100))


def test_what_is_wrong_is_told_in_one_line(spark: SparkSession, overlay: DemoOverlay, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("penstock").mode("append")
    with pytest.raises(Exception, match="option pubend is missing: the pubend to publish to"):
        writer.options(broker=overlay.url("b1"), staging=str(tmp_path)).save()
    with pytest.raises(Exception, match=r"has no pubend 'b1.no'; there are: b1.in, b1.more, b1.out") as caught:
        writer.options(**sink(overlay, tmp_path, pubend="b1.no")).save()
    assert "Traceback" not in str(caught.value).partition("JVM stacktrace")[0]
