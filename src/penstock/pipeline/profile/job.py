"""Profiles a lake on Spark: a chain of frames, the last of which is small and collected on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.model.errors import MisuseError
from penstock.model.expiry import EXPIRES
from penstock.model.reporting import Reporter
from penstock.model.values import RESERVED_PREFIX
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.profile.bits import bits_of
from penstock.pipeline.profile.matching import MATCHED_SCHEMA, matched
from penstock.pipeline.profile.model import AttributeUse, Profile, ProfiledSubscription, Window
from penstock.pipeline.progress import watched
from penstock.pipeline.time_span import TimeSpan
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import Selector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SAMPLES", "SUBSCRIPTIONS_MAX", "attribute_counts", "current", "publications", "run_profile", "sized"]

SAMPLES: Final = 16_384
"""Maximum number of sampled messages, for which we keep the selectors that want them."""
SUBSCRIPTIONS_MAX: Final = 200_000
_OVERHEAD_BYTES: Final = 21
"""Bytes of a message on the wire besides attributes and payload."""


def run_profile(
    spark: SparkSession,
    lake: str,
    span: TimeSpan,
    reporter: Reporter,
    *,
    samples: int = SAMPLES,
    with_ended: bool = False,
) -> Profile:
    """Profile the subscriptions of a lake over its messages in a time span."""
    reader = LakeReader(spark, lake)
    subscribed = reader.whole_table("subscriptions")
    published = reader.whole_table("publications")
    with watched(spark, reporter, "reading subscriptions"):
        rows = current(subscribed, with_ended=with_ended).collect()
    subscriptions, selectors, unrecorded = _subscriptions(rows)
    messages = sized(publications(published, span))
    with watched(spark, reporter, "counting publications"):
        count, first, last, size = _counted(messages)
    if not count:
        raise MisuseError(f"the lake {lake} has no publications in this time range")
    with watched(spark, reporter, f"matching {count:,} publications with {len(selectors):,} selectors"):
        found = _sampled(messages, count, samples).mapInArrow(_Matching(selectors), MATCHED_SCHEMA).collect()
    counts, sizes, wanted = _added_up(found, len(selectors))
    with watched(spark, reporter, "counting attributes"):
        attributes = attribute_counts(messages).collect()
    window = Window(first >> 16, last >> 16, count, size, len(wanted))
    uses = _uses(attributes, subscriptions, selectors)
    bits = bits_of(len(selectors), wanted)
    return Profile(lake, window, selectors, counts, sizes, bits, subscriptions, uses, unrecorded)


# --- frame transformations


def current(subscriptions: DataFrame, *, with_ended: bool = False) -> DataFrame:
    """The newest row of each subscription, for current ones or for all."""
    from pyspark.sql import Window as SqlWindow
    from pyspark.sql import functions as sql

    newest = SqlWindow.partitionBy("broker", "number").orderBy(sql.desc("incarnation"), sql.desc("sequence"))
    rows = subscriptions.withColumn("place", sql.row_number().over(newest)).where("place = 1")
    kept = rows if with_ended else rows.where("ended_at IS NULL")
    return kept.select("broker", "number", "subscriber", "is_durable", "selector")


def publications(table: DataFrame, span: TimeSpan) -> DataFrame:
    """The archived messages of a time span; excludes the system's own, as PRESS does."""
    is_reserved = f"startswith(name, '{RESERVED_PREFIX}') AND name <> '{EXPIRES}'"
    of_applications = f"NOT exists(map_keys(attributes), name -> {is_reserved})"
    return span.narrowed(table, "tick", ticks=True).where(of_applications)


def sized(messages: DataFrame) -> DataFrame:
    """Replace the payload of messages with their size."""
    from pyspark.sql import functions as sql

    pairs = (
        "aggregate(map_entries(attributes), 0L, (sum, pair) -> "
        "sum + octet_length(pair.key) + coalesce(octet_length(pair.value), 0))"
    )
    size = sql.expr(f"coalesce(octet_length(payload), 0) + {pairs} + {_OVERHEAD_BYTES}L")
    return messages.select("message_id", "tick", "attributes", size.cast("long").alias("bytes"))


def attribute_counts(messages: DataFrame) -> DataFrame:
    """Count the messages that have each attribute, and estimate its distinct values."""
    from pyspark.sql import functions as sql

    pairs = messages.select(sql.explode("attributes").alias("name", "value"))
    return pairs.groupBy("name").agg(
        sql.count(sql.lit(1)).alias("messages"), sql.approx_count_distinct("value").alias("values")
    )


def _sampled(messages: DataFrame, count: int, samples: int) -> DataFrame:
    """Mark samples by their identifiers; a hash chooses the same messages wherever they are stored."""
    from pyspark.sql import functions as sql

    every = -(-count // samples) if samples else 0
    chosen = (
        f"CASE WHEN pmod(xxhash64(message_id), {every}) = 0 THEN message_id END" if every else "CAST(NULL AS STRING)"
    )
    return messages.select("attributes", "bytes", sql.expr(chosen).alias("sample"))


class _Matching:
    """The work of a task on its rows; serialised with the selectors."""

    def __init__(self, selectors: Sequence[str]) -> None:
        self._selectors = tuple(selectors)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        return matched(batches, self._selectors)


# --- collected results


def _subscriptions(rows: Sequence[Any]) -> tuple[list[ProfiledSubscription], list[str], int]:
    """Sorted subscriptions, their distinct selectors, and the number without a usable selector."""
    if len(rows) > SUBSCRIPTIONS_MAX:
        raise MisuseError(f"the lake has {len(rows):,} subscriptions; a profile takes at most {SUBSCRIPTIONS_MAX:,}")
    numbers: dict[str, int] = {}
    found: list[ProfiledSubscription] = []
    unrecorded = 0
    for row in sorted(rows, key=lambda row: (row["broker"], row["number"])):
        text = _canonical(row["selector"])
        if text is None:
            unrecorded += 1
            continue
        number = numbers.setdefault(text, len(numbers))
        found.append(
            ProfiledSubscription(row["broker"], row["number"], row["subscriber"], bool(row["is_durable"]), number)
        )
    if not found:
        raise MisuseError("the lake has no subscription with a known selector; --ended looks at former ones too")
    return found, list(numbers), unrecorded


def _canonical(selector: str | None) -> str | None:
    """The canonical form of a selector; None if it was not recorded or is invalid."""
    try:
        return None if selector is None else str(Selector.parse(selector))
    except SelectorError:
        return None


def _counted(messages: DataFrame) -> tuple[int, int, int, int]:
    from pyspark.sql import functions as sql

    row = messages.agg(sql.count(sql.lit(1)), sql.min("tick"), sql.max("tick"), sql.sum("bytes")).collect()[0]
    return row[0], row[1] or 0, row[2] or 0, row[3] or 0


def _added_up(rows: Sequence[Any], selectors: int) -> tuple[Any, Any, list[bytes]]:
    """Sum counts and bytes per selector, and collect the selectors that want each sample, ordered by identifier."""
    counts, sizes = np.zeros(selectors, np.int64), np.zeros(selectors, np.int64)
    wanted: dict[str, bytes] = {}
    for row in rows:
        if row["sample"] is not None:
            wanted[row["sample"]] = bytes(row["wanted"])
        else:
            counts[row["selector"]] += row["messages"]
            sizes[row["selector"]] += row["bytes"]
    return counts, sizes, [wanted[name] for name in sorted(wanted)]


def _uses(
    rows: Sequence[Any], subscriptions: Sequence[ProfiledSubscription], selectors: Sequence[str]
) -> list[AttributeUse]:
    """Attribute statistics, those tested by most subscriptions first."""
    tested: dict[str, int] = {}
    names = [{name for each in Selector.parse(text).conjunctions for name in each.names()} for text in selectors]
    for each in subscriptions:
        for name in names[each.selector]:
            tested[name] = tested.get(name, 0) + 1
    found = {row["name"]: (row["messages"], row["values"]) for row in rows}
    uses = [AttributeUse(name, *found.get(name, (0, 0)), tested.get(name, 0)) for name in {**found, **tested}]
    return sorted(uses, key=lambda use: (-use.subscriptions, -use.messages, use.name))
