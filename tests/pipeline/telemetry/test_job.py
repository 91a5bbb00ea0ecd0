"""A report of a made lake, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.model.errors import MisuseError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.telemetry.job import POINTS, run_telemetry
from penstock.pipeline.time_span import TimeSpan
from pipeline.made_lakes import T0_MS, telemetry_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_report_has_figures_episodes_and_lines(spark: SparkSession, tmp_path: Path) -> None:
    telemetry_lake(tmp_path / "lake")
    found = run_telemetry(spark, str(tmp_path / "lake"), TimeSpan(), QuietReporter(), tidy_folder=tmp_path / "tidy")
    assert (found.samples, found.first_ms, found.last_ms) == (420, T0_MS, T0_MS + 590_000)
    assert found.brokers == ["b1", "b2"]
    kinds = [each.kind for each in found.episodes]
    assert kinds == ["token: holding", "congestion: pubend limited", "balancing: BUSY", "balancing: BUSY"]
    assert found.episodes[1].seconds == 90.0
    (lag,) = found.lines["lags of hosts, streams and durable subscriptions"]
    assert len(lag.points) <= POINTS
    assert [value for _, value in lag.points] == sorted(value for _, value in lag.points)
    assert spark.read.parquet(str(tmp_path / "tidy")).count() == 420
    part = run_telemetry(spark, str(tmp_path / "lake"), TimeSpan(T0_MS + 100_000, T0_MS + 200_000), QuietReporter())
    assert (part.samples, part.last_ms) == (70, T0_MS + 190_000)
    with pytest.raises(MisuseError, match="no telemetry in this time range"):
        run_telemetry(spark, str(tmp_path / "lake"), TimeSpan(T0_MS + 10**7, None), QuietReporter())
