"""Transforms telemetry frames: deduplicated samples with rates of counters, summaries, and islands in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.pipeline.telemetry.rules import EPISODES, QUIET_STATES, YES_FIGURES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["bucketed", "episodes", "flagged", "intervals", "summarised", "tidied"]

_SERIES = ("broker", "metric", "labels")


def tidied(samples: DataFrame) -> DataFrame:
    """Deduplicate samples, with labels as text and, for counters, the rate since the previous sample.

    A broker restarts its counters with every incarnation, so rates never span two of them.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    pairs = "transform(array_sort(map_entries(labels)), pair -> concat(pair.key, '=', coalesce(pair.value, '')))"
    named = samples.withColumn("labels", sql.expr(f"concat_ws(',', {pairs})"))
    once = Window.partitionBy(*_SERIES, "at").orderBy(sql.desc("incarnation"), sql.desc("sequence"))
    kept = named.withColumn("place", sql.row_number().over(once)).where("place = 1")
    life = Window.partitionBy(*_SERIES, "incarnation").orderBy("at")
    seconds = sql.expr("unix_micros(at)") - sql.lag(sql.expr("unix_micros(at)")).over(life)
    grown = sql.col("value") - sql.lag("value").over(life)
    rate = sql.when(sql.col("metric").endswith("_total") & (grown >= 0) & (seconds > 0), grown / (seconds / 1e6))
    return kept.withColumn("rate", rate).select("at", "broker", "incarnation", "metric", "labels", "value", "rate")


def summarised(tidy: DataFrame) -> DataFrame:
    """Summarise each figure of each broker."""
    from pyspark.sql import functions as sql

    return tidy.groupBy(*_SERIES).agg(
        sql.count(sql.lit(1)).alias("samples"),
        sql.min("value").alias("lowest"),
        sql.avg("value").alias("mean"),
        sql.max("value").alias("highest"),
        sql.max_by("value", "at").alias("last"),
        sql.avg("rate").alias("rate_mean"),
        sql.max("rate").alias("rate_highest"),
    )


def intervals(tidy: DataFrame) -> DataFrame:
    """The median interval between samples of each broker, in milliseconds."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    moments = tidy.select("broker", sql.expr("unix_millis(at)").alias("ms")).distinct()
    apart = sql.col("ms") - sql.lag("ms").over(Window.partitionBy("broker").orderBy("ms"))
    return moments.withColumn("apart", apart).groupBy("broker").agg(sql.expr("percentile(apart, 0.5)").alias("apart"))


def flagged(tidy: DataFrame) -> DataFrame:
    """The samples that are part of an episode, with its kind."""
    from pyspark.sql import functions as sql

    metric, mechanism = sql.col("metric"), _label("mechanism")
    figure, state = _label("figure"), _label("is")
    kind = sql.lit(None).cast("string")
    for name, called in EPISODES.items():
        kind = sql.when(metric == name, sql.lit(called)).otherwise(kind)
    last = sql.element_at(sql.split(figure, r"\."), -1)
    is_yes = (metric == "penstock_mechanism") & last.isin(*YES_FIGURES)
    kind = sql.when(is_yes, sql.concat(mechanism, sql.lit(": "), figure)).otherwise(kind)
    is_state = (metric == "penstock_mechanism_state") & (last == "state") & ~sql.lower(state).isin(*QUIET_STATES)
    kind = sql.when(is_state, sql.concat(mechanism, sql.lit(": "), state)).otherwise(kind)
    return tidy.withColumn("kind", kind).where("kind IS NOT NULL AND value > 0")


def episodes(flags: DataFrame, gap_ms: int) -> DataFrame:
    """Join samples that follow each other closely into episodes."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    key = ("kind", "broker", "labels")
    order = Window.partitionBy(*key).orderBy("at")
    apart = sql.expr("unix_millis(at)") - sql.lag(sql.expr("unix_millis(at)")).over(order)
    begins = sql.when(apart.isNull() | (apart > gap_ms), 1).otherwise(0)
    running = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = flags.withColumn("begins", begins).withColumn("island", sql.sum("begins").over(running))
    found = numbered.groupBy(*key, "island").agg(
        sql.min("at").alias("began_at"), sql.max("at").alias("ended_at"), sql.count(sql.lit(1)).alias("samples")
    )
    return found.select("kind", "broker", "labels", "began_at", "ended_at", "samples")


def bucketed(tidy: DataFrame, metrics: Sequence[str], first_ms: int, width_ms: int) -> DataFrame:
    """Average some figures over equal parts of the time, few enough to draw."""
    from pyspark.sql import functions as sql

    bucket = ((sql.expr("unix_millis(at)") - first_ms) / width_ms).cast("long")
    chosen = tidy.where(sql.col("metric").isin(*metrics)).withColumn("bucket", bucket)
    return chosen.groupBy(*_SERIES, "bucket").agg(sql.avg("value").alias("value"), sql.avg("rate").alias("rate"))


def _label(name: str):  # type: ignore[no-untyped-def] # a column of Spark's
    from pyspark.sql import functions as sql

    return sql.regexp_extract("labels", rf"(?:^|,){name}=([^,]*)", 1)
