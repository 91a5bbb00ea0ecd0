"""The source in a real Spark session, on a real broker: what users see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.model.message import Message
from penstock.model.values import AttributeValue
from penstock.pipeline.source import lag_of
from penstock.sim.workloads import QuoteWorkload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PLAN = OverlayPlan({"b1": ("b1.a", "b1.b")}, defaults={"heartbeat_ms": 50})
QUOTES = [
    Message({**quote, "place": place, "odd": place if place % 3 else str(place)}, f"payload {place}".encode())
    for place, quote in enumerate(QuoteWorkload(Random(7)).publications(1_000))
]
DECLARED = "symbol string, volume long, high double, place int, odd long"
LIMIT_S = 60
SECRET: dict[str, Any] = {"token": "s3cret"}


@pytest.fixture(scope="module")
def overlay(spark_ready: None) -> Iterator[DemoOverlay]:
    with DemoOverlay(PLAN) as running:
        yield running


@pytest.fixture(scope="module")
def published(overlay: DemoOverlay) -> dict[str, tuple[str, Message]]:
    """By identifier, what is in the logs before any test: half of it in each pubend."""
    return publish(overlay, QUOTES)


def publish(overlay: DemoOverlay, messages: list[Message]) -> dict[str, tuple[str, Message]]:
    done: dict[str, tuple[str, Message]] = {}
    with penstock.connect_sync(overlay.url("b1")) as client:
        for pubend, some in (("b1.a", messages[::2]), ("b1.b", messages[1::2])):
            ids = client.publish_many(some, pubend=pubend)
            done |= {str(each): (pubend, message) for each, message in zip(ids, some, strict=True)}
    return done


def end_of_all(overlay: DemoOverlay) -> str:
    with penstock.connect_sync(overlay.url("b1")) as client:
        return json.dumps({name: span.latest + 1 for name, span in client.survey().spans.items()})


def table(spark: SparkSession, overlay: DemoOverlay, schema: str = "", **options: Any) -> DataFrame:
    usual = {"broker": overlay.url("b1"), "retryTimeoutMs": 1_000}
    reader = spark.read.format("penstock").options(**{**usual, **options})
    return (reader.schema(schema) if schema else reader).load()


def text(value: AttributeValue) -> str:
    return str(value) if isinstance(value, str | int) else repr(value)


@pytest.mark.parametrize("splits", [{"maxSplits": 1}, {"maxSplits": 7, "minSplitMs": 1}])
def test_a_table_is_exactly_what_was_published_however_it_is_split(
    spark: SparkSession, overlay: DemoOverlay, published: dict[str, tuple[str, Message]], splits: dict[str, Any]
) -> None:
    frame = table(spark, overlay, **splits)
    rows = frame.collect()
    assert frame.columns == ["message_id", "pubend", "tick", "published_at", "attributes", "payload"]
    assert {row.message_id: (row.pubend, row.attributes, bytes(row.payload)) for row in rows} == {
        number: (pubend, {name: text(value) for name, value in message.attributes.items()}, message.payload)
        for number, (pubend, message) in published.items()
    }
    assert len(rows) == len(published)
    assert all(row.tick >> 16 > 1_700_000_000_000 for row in rows)


FILTERS = [
    "symbol = 'NONE' or volume > 100000",
    "volume > 100000 and symbol > 'M'",
    "symbol like 'A%' and place between 100 and 700",
    "symbol not like '%B%' and high < 20.5 and pubend = 'b1.a'",
    "odd is null and place in (3, 4, 5, 6)",
    "odd <> 100 and not (volume <= 5000)",
]


@pytest.mark.usefixtures("published")
def test_pushdown_changes_nothing_but_the_work(spark: SparkSession, overlay: DemoOverlay) -> None:
    schema = f"message_id string, pubend string, {DECLARED}"
    plain = table(spark, overlay, schema, pushdown="false").cache()
    for condition in FILTERS:
        wanted = sorted(row.message_id for row in plain.where(condition).collect())
        found = sorted(row.message_id for row in table(spark, overlay, schema).where(condition).collect())
        assert found == wanted, condition
        assert wanted or "NONE" in condition
    plain.unpersist()


def test_declared_columns_are_filled_from_attributes(
    spark: SparkSession, overlay: DemoOverlay, published: dict[str, tuple[str, Message]]
) -> None:
    rows = table(spark, overlay, DECLARED, selector="place < 100").collect()
    wanted = [message.attributes for _, message in published.values() if int(str(message.attributes["place"])) < 100]
    assert sorted(
        (row.place, row.symbol, row.volume, row.high, row.odd) for row in rows if row.odd is not None
    ) == sorted(
        (each["place"], each["symbol"], each["volume"], each["high"], each["odd"])
        for each in wanted
        if isinstance(each["odd"], int)
    )
    assert sum(row.odd is None for row in rows) == sum(isinstance(each["odd"], str) for each in wanted) > 0
    assert table(spark, overlay, columns="place int").columns[-2:] == ["payload", "place"]


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("options", "schema", "problem"),
    [
        (
            {"selector": "volume >"},
            "",
            "selector 'volume >': expected a value or attribute, found the end at character 9",
        ),
        ({"selektor": "x"}, "", "no option 'selektor' (did you mean selector?); the options are broker, token"),
        ({"startingPosition": '{"zz": 1}'}, "", "names pubend 'zz'; the overlay's guaranteed pubends are b1.a, b1.b"),
        ({"startingPosition": '{"b1.a": 1}'}, "", "pubend b1.a no longer has messages from 1970-01-01T00:00"),
        ({"mismatch": "fail"}, "symbol string, odd long", "does not fit column 'odd' of bigint"),
        ({}, "day date", "column 'day' cannot be date: an attribute becomes one of string"),
        ({"broker": "penstock://127.0.0.1:1", **SECRET}, "", "no broker can be reached, tried for 1000 ms"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(
    spark: SparkSession, overlay: DemoOverlay, options: dict[str, str], schema: str, problem: str
) -> None:
    with pytest.raises(Exception, match=r"penstock.pipeline.source.errors.Source") as caught:
        table(spark, overlay, schema, **options).collect()
    shown = str(caught.value)
    line = next(each for each in shown.splitlines() if "penstock.pipeline.source.errors.Source" in each)
    assert problem in line
    assert shown.splitlines().index(line) <= 1
    assert "s3cret" not in shown


@pytest.mark.usefixtures("published")
def test_plans_show_no_token(spark: SparkSession, overlay: DemoOverlay) -> None:
    frame = table(spark, overlay, **SECRET)
    assert "s3cret" not in frame._jdf.queryExecution().toString()


def test_positions_bound_a_table_and_lost_ticks_can_be_skipped(
    spark: SparkSession, overlay: DemoOverlay, published: dict[str, tuple[str, Message]]
) -> None:
    everything = table(spark, overlay, "pubend string, tick long").collect()
    middle = sorted(row.tick for row in everything if row.pubend == "b1.a")[100]
    skipped = {"startingPosition": '{"b1.a": 1}', "missing": "skip", "pubends": "b1.a"}
    before = table(spark, overlay, **skipped, endingPosition=json.dumps({"b1.a": middle})).count()
    after = table(spark, overlay, pubends="b1.a", startingPosition=json.dumps({"b1.a": middle})).count()
    assert (before, before + after) == (100, len(published) // 2)
    assert table(spark, overlay, startingPosition="2026-01-01T00:00:00Z").count() == len(published)
    assert table(spark, overlay, endingPosition="2026-01-01T00:00:00Z").count() == 0


def stream(
    spark: SparkSession, overlay: DemoOverlay, folder: Path, trigger: dict[str, Any], **options: Any
) -> StreamingQuery:
    usual = {"broker": overlay.url("b1"), "retryTimeoutMs": 1_000, "startingPosition": "earliest"}
    frame = spark.readStream.format("penstock").options(**{**usual, **options}).schema("message_id string, place int")
    writer = frame.load().writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(**trigger).start(str(folder / "rows"))


def written(spark: SparkSession, folder: Path) -> list[str]:
    return sorted(
        row.message_id for row in spark.read.schema("message_id string").parquet(str(folder / "rows")).collect()
    )


@pytest.mark.live
def test_a_stream_continues_from_its_checkpoint_in_bounded_steps(
    spark: SparkSession, overlay: DemoOverlay, published: dict[str, tuple[str, Message]], tmp_path: Path
) -> None:
    start = end_of_all(overlay)
    first = publish(overlay, QUOTES[:300])
    query = stream(spark, overlay, tmp_path, {"availableNow": True}, startingPosition=start, maxRowsPerTrigger=120)
    assert query.awaitTermination(LIMIT_S)
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [120, 120, 60]
    assert written(spark, tmp_path) == sorted(first)
    second = publish(overlay, QUOTES[:50])
    query = stream(spark, overlay, tmp_path, {"availableNow": True}, startingPosition="earliest")
    assert query.awaitTermination(LIMIT_S)
    assert written(spark, tmp_path) == sorted([*first, *second])
    published |= first | second


def test_a_selective_stream_moves_on_in_silence_and_tells_its_lag(
    spark: SparkSession, overlay: DemoOverlay, tmp_path: Path
) -> None:
    options = {"selector": "place = -1", "silenceMs": 0, "startingPosition": "latest"}
    query = stream(spark, overlay, tmp_path, {"processingTime": "0 seconds"}, **options)
    try:
        # Waiting for the third micro-batch, which can only come if the position moves.
        while query.lastProgress is None or query.lastProgress.batchId < 3:
            assert not query.awaitTermination(1)
        progress = query.recentProgress
    finally:
        query.stop()
    positions = [json.loads(each.sources[0].endOffset)["b1.a"] for each in progress if each.sources[0].endOffset]
    assert positions == sorted(positions)
    assert positions[-1] > positions[0]
    assert sum(each.numInputRows for each in progress) == 0
    lag = lag_of(progress[-1])
    assert set(lag) == {"b1.a", "b1.b"}
    assert all(ms is not None and 0 <= ms < 60_000 for ms in lag.values())


@pytest.mark.live
def test_a_broker_that_goes_away_fails_the_stream_which_then_resumes(
    spark: SparkSession, overlay: DemoOverlay, published: dict[str, tuple[str, Message]], tmp_path: Path
) -> None:
    start = end_of_all(overlay)
    done = publish(overlay, QUOTES[:100])
    query = stream(spark, overlay, tmp_path, {"processingTime": "0 seconds"}, startingPosition=start)
    while sum(each.numInputRows for each in query.recentProgress) < len(done):
        assert not query.awaitTermination(1)
    overlay.kill("b1")
    with pytest.raises(Exception, match=r"Source\w*Error: .*(no connection|no broker|no answer)"):
        query.awaitTermination(LIMIT_S)
    overlay.start("b1")
    done |= publish(overlay, QUOTES[:100])
    assert stream(spark, overlay, tmp_path, {"availableNow": True}).awaitTermination(LIMIT_S)
    assert written(spark, tmp_path) == sorted(done)
    published |= done
