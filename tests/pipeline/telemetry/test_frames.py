"""Telemetry from frame to frame, on Spark: samples once, rates within lives, episodes where samples follow closely."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.lake import read_table
from penstock.pipeline.telemetry.frames import bucketed, episodes, flagged, intervals, summarised, tidied
from pipeline.made_lakes import T0_MS, telemetry_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def tidy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    lake: Path = tmp_path_factory.mktemp("lake")
    telemetry_lake(lake)
    return tidied(read_table(spark, str(lake), "telemetry")).cache()


def test_every_sample_is_there_once_and_rates_do_not_cross_lives(tidy: DataFrame) -> None:
    assert tidy.count() == 7 * 60
    rows = tidy.where("metric = 'penstock_published_total'").orderBy("at").collect()
    assert len(rows) == 60
    assert [row.rate for row in rows] == [None if place in (0, 30) else pytest.approx(10.0) for place in range(60)]
    assert tidy.where("metric = 'penstock_pubend_rate'").first().rate is None  # type: ignore[union-attr]
    labels = {row.labels for row in tidy.select("labels").distinct().collect()}
    assert "host=b2,pubend=q" in labels


def test_figures_are_summed_up(tidy: DataFrame) -> None:
    found = {(row.broker, row.metric, row.labels): row for row in summarised(tidy).collect()}
    lag = found["b2", "penstock_host_lag_seconds", "host=b2,pubend=q"]
    assert (lag.samples, lag.lowest, lag.highest, lag["last"]) == (60, 0.0, 5.9, 5.9)
    assert lag["mean"] == pytest.approx(2.95)
    published = found["b1", "penstock_published_total", ""]
    assert (published.rate_mean, published.rate_highest, published["last"]) == (10.0, 10.0, 2900.0)


def test_the_usual_interval_is_found(tidy: DataFrame) -> None:
    assert {row.broker: row.apart for row in intervals(tidy).collect()} == {"b1": 10_000.0, "b2": 10_000.0}


def test_episodes_are_islands_in_time(tidy: DataFrame) -> None:
    found: dict[str, list[Any]] = {}
    for row in episodes(flagged(tidy), 25_000).selectExpr("*", "unix_millis(began_at) AS ms").orderBy("ms").collect():
        assert row.broker == "b1"
        found.setdefault(row.kind, []).append(((row.ms - T0_MS) // 10_000, row.samples))
    assert found == {
        "congestion: pubend limited": [(20, 10)],
        "balancing: BUSY": [(40, 3), (50, 1)],
        "token: holding": [(5, 1)],
    }


def test_lines_are_means_over_equal_parts(tidy: DataFrame) -> None:
    rows = bucketed(tidy, ["penstock_host_lag_seconds"], T0_MS, 300_000).orderBy("bucket").collect()
    assert [(row.bucket, row.value) for row in rows] == [(0, pytest.approx(1.45)), (1, pytest.approx(4.45))]
