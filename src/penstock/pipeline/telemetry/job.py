"""Reports the telemetry of a lake on Spark: tidy tables as Parquet, and a few small frames collected on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.model.errors import MisuseError
from penstock.model.reporting import Reporter
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.progress import watched
from penstock.pipeline.telemetry.frames import bucketed, episodes, flagged, intervals, summarised, tidied
from penstock.pipeline.telemetry.model import Episode, FigureSummary, Line, TelemetryReport
from penstock.pipeline.telemetry.rules import CHARTS, Chart
from penstock.pipeline.time_span import TimeSpan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["POINTS", "run_telemetry"]

POINTS: Final = 240
"""Maximum points of a line in a chart."""
_FIGURES_MAX: Final = 200_000
_EPISODES_MAX: Final = 10_000
_EPISODE: Final = (
    "kind",
    "broker",
    "labels",
    "unix_millis(began_at) AS began_ms",
    "unix_millis(ended_at) AS ended_ms",
    "samples",
)
_GAP: Final = 2.5
"""Largest distance between samples of one episode, in typical sampling intervals."""


def run_telemetry(
    spark: SparkSession, lake: str, span: TimeSpan, reporter: Reporter, *, tidy_folder: Path | None = None
) -> TelemetryReport:
    """Report the telemetry of a time span; writes all samples to a folder, if one is given."""
    tidy = tidied(span.narrowed(LakeReader(spark, lake).whole_table("telemetry"), "at")).cache()
    try:
        with watched(spark, reporter, "reading telemetry"):
            samples, first_ms, last_ms = _extent(tidy)
        if not samples:
            raise MisuseError(f"the lake {lake} has no telemetry in this time range")
        with watched(spark, reporter, f"summing up {samples:,} samples"):
            figures = summarised(tidy).limit(_FIGURES_MAX).collect()
            apart = {row["broker"]: float(row["apart"] or 0.0) for row in intervals(tidy).collect()}
        with watched(spark, reporter, "looking for episodes"):
            gap_ms = max(1, int(_GAP * max(apart.values(), default=0.0)))
            found = episodes(flagged(tidy), gap_ms).limit(_EPISODES_MAX).selectExpr(*_EPISODE).collect()
        with watched(spark, reporter, "drawing lines"):
            lines = _lines(tidy, first_ms, last_ms)
        if tidy_folder is not None:
            with watched(spark, reporter, f"writing {tidy_folder}"):
                tidy.sort("broker", "metric", "labels", "at").write.mode("overwrite").parquet(str(tidy_folder))
    finally:
        tidy.unpersist()
    return TelemetryReport(
        lake,
        first_ms,
        last_ms,
        samples,
        dict(sorted(apart.items())),
        sorted((_figure(row) for row in figures), key=lambda each: (each.metric, each.broker, each.labels)),
        sorted((Episode(*row) for row in found), key=lambda each: (each.began_ms, each.kind, each.broker, each.labels)),
        lines,
    )


def _extent(tidy: DataFrame) -> tuple[int, int, int]:
    row = tidy.selectExpr("count(*)", "unix_millis(min(at))", "unix_millis(max(at))").collect()[0]
    return row[0], row[1] or 0, row[2] or 0


def _lines(tidy: DataFrame, first_ms: int, last_ms: int) -> Mapping[str, Sequence[Line]]:
    width_ms = max(1, -(-(last_ms - first_ms + 1) // POINTS))
    metrics = [metric for chart in CHARTS for metric in chart.metrics]
    rows = bucketed(tidy, metrics, first_ms, width_ms).collect()
    points: dict[tuple[str, str, str], list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["bucket"]):
        points.setdefault((row["metric"], row["broker"], row["labels"]), []).append(row)
    found = {chart.title: _chart_lines(chart, points, first_ms, width_ms) for chart in CHARTS}
    return {title: lines for title, lines in found.items() if lines}


def _chart_lines(
    chart: Chart, points: Mapping[tuple[str, str, str], Sequence[Any]], first_ms: int, width_ms: int
) -> list[Line]:
    column = "rate" if chart.is_rate else "value"
    lines: list[Line] = []
    for (metric, broker, labels), rows in sorted(points.items()):
        if metric not in chart.metrics:
            continue
        # The middle of each bucket.
        at = [
            (first_ms + row["bucket"] * width_ms + width_ms // 2, float(row[column]))
            for row in rows
            if row[column] is not None
        ]
        if at:
            lines.append(Line(broker, metric, labels, at))
    return lines


def _figure(row: Any) -> FigureSummary:
    return FigureSummary(**{name: row[name] for name in FigureSummary.__dataclass_fields__})
