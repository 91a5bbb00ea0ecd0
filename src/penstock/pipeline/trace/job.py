"""The bulk trace as a chain of frames: ids and filters, grouped by origin and time bucket, become traces.

A trace refers by number to its way, which is everything but the receivers, and to its receivers: few ways and receivers
are distinct, so both have their own tables, made by ``told_ways`` and ``told_receivers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np

from penstock.model.errors import MisuseError
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.trace.facts import SLACK_MS, LakeFacts
from penstock.pipeline.trace.filters import (
    FILTER_COLUMNS,
    Buckets,
    bucketed_filters,
    bucketed_records,
    choose_bucket_ms,
    newest_filters,
    origin_of_group,
)
from penstock.pipeline.trace.group import Aliases, Group, Traced
from penstock.pipeline.trace.loading import IdSpan, load_aliases, load_facts, look_at_histories
from penstock.pipeline.trace.stored import filters_of
from penstock.pipeline.trace.ways import WayBook

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TRACE_SCHEMA",
    "WAY_SCHEMA",
    "Prepared",
    "id_spans",
    "placed_ids",
    "prepare",
    "told_receivers",
    "told_ways",
    "traced_group",
    "traced_ids",
    "way_book",
]

TRACE_SCHEMA: Final = (
    "id_high long, id_low long, way long, receivers array<int>, checked int, "
    "error_probability double, false_receivers double, way_detail string"
)
"""A trace: its id, its way and receivers by number, the number of subscribers checked, the probability that anything in
it is false, and the expected number of false receivers. One trace per way and group also has the way's detail."""
WAY_SCHEMA: Final = (
    "origin string, published_at string, published string, routed_by array<string>, "
    "hops array<struct<broker: string, parent: string, claim: string, is_counted: boolean>>, "
    "probable_false_positives array<string>, unreachable array<string>, unknown array<string>, "
    "gaps array<struct<broker: string, history: string, reason: string, span: array<long>>>, "
    "asked int, is_truncated boolean, is_complete boolean"
)

_BOOKS: Final[dict[str, WayBook]] = {}
"""The way book of this process, which works on one job at a time: only the last job's is kept."""


def way_book(job: str) -> WayBook:
    """The ways this process knows from groups of the same job, which have most of them in common."""
    if job not in _BOOKS:
        _BOOKS.clear()
        _BOOKS[job] = WayBook()
    return _BOOKS[job]


@dataclass(slots=True, frozen=True)
class Prepared:
    """Everything known before the first message is traced."""

    spans: tuple[IdSpan, ...]
    facts: LakeFacts
    aliases: Aliases
    buckets: Buckets
    has_superseded: bool = True
    """Whether any filter has a newer generation."""

    @property
    def ids(self) -> int:
        """Number of messages to trace."""
        return sum(each.ids for each in self.spans)


def placed_ids(ids: DataFrame) -> DataFrame:
    """Add the origin and time that identifiers contain; drops malformed ones."""
    return ids.where("malformed IS NULL").selectExpr(
        "id_high", "id_low", "id_high & 4294967295L AS origin", "shiftrightunsigned(id_low, 16) AS timestamp_ms"
    )


def id_spans(placed: DataFrame) -> tuple[IdSpan, ...]:
    """For each origin, the number of messages to trace and their time span."""
    from pyspark.sql import functions

    rows = (
        placed.groupBy("origin")
        .agg(functions.count("*"), functions.min("timestamp_ms"), functions.max("timestamp_ms"))
        .collect()
    )
    return tuple(sorted((IdSpan(*row) for row in rows), key=lambda each: each.origin))


def prepare(reader: LakeReader, placed: DataFrame, *, slack_ms: int = SLACK_MS) -> Prepared:
    """Examine the messages and the lake, and decide how to divide the work."""
    spans = id_spans(placed)
    if not spans:
        return Prepared((), LakeFacts({}, slack_ms), {}, Buckets(1, ()))
    first_ms, last_ms = min(each.first_ms for each in spans), max(each.last_ms for each in spans)
    seen = look_at_histories(reader, first_ms=first_ms, last_ms=last_ms)
    facts = load_facts(reader, seen.keys, first_ms=first_ms, slack_ms=slack_ms)
    if not facts.brokers:
        raise MisuseError(f"the lake {reader.lake!r} has no records of any broker: nothing was shipped to it")
    aliases = load_aliases(reader, first_ms=first_ms, last_ms=last_ms)
    bucket_ms, is_sparse = choose_bucket_ms(sum(each.ids for each in spans), last_ms - first_ms, seen.filter_ms)
    origins = tuple((each.origin, each.first_ms // bucket_ms, each.last_ms // bucket_ms) for each in spans)
    return Prepared(spans, facts, aliases, Buckets(bucket_ms, origins, is_sparse), seen.has_superseded)


def traced_ids(reader: LakeReader, placed: DataFrame, prepared: Prepared) -> DataFrame:
    """Trace identifiers (``TRACE_SCHEMA``)."""
    ms = prepared.buckets.bucket_ms
    ids = placed.selectExpr("id_high", "id_low", "origin", f"timestamp_ms div {ms} AS bucket")
    filters = _wanted(reader, ids, prepared)
    facts = reader.spark.sparkContext.broadcast((prepared.facts, prepared.aliases))
    group = prepared.buckets.group
    by_group = filters.selectExpr(f"{group} AS slot", *FILTER_COLUMNS).groupBy("slot")
    grouped = ids.selectExpr(f"{group} AS slot", "id_high", "id_low").groupBy("slot").cogroup(by_group)
    return grouped.applyInArrow(traced_group(uuid4().hex, lambda: facts.value), TRACE_SCHEMA)


def traced_group(job: str, known: Callable[[], tuple[LakeFacts, Aliases]]) -> Callable[[Any, Any, Any], Any]:
    """Return the function that traces one origin and bucket, given the filters; ``job`` names the whole job."""

    def trace(key: Any, ids: Any, filters: Any) -> Any:
        facts, aliases = known()
        if not ids.num_rows:
            return _arrow([], np.zeros(0, np.int64), np.zeros(0, np.int64))
        high, low = (ids.column(name).to_numpy().view(np.uint64) for name in ("id_high", "id_low"))
        rows = filters.select(list(FILTER_COLUMNS)).to_pylist()
        times = low >> np.uint64(16)
        span = int(times.min()), int(times.max())
        own = list(filters_of(rows, now_ms=facts.now_ms))
        group = Group(facts, own, origin_of_group(key[0].as_py()), span, book=way_book(job))
        return _arrow(list(group.trace(high, low, aliases)), high.view(np.int64), low.view(np.int64))

    return trace


def told_ways(traces: DataFrame) -> DataFrame:
    """The distinct ways of some traces, each once, with its number."""
    from pyspark.sql import functions

    told = traces.where("way_detail IS NOT NULL").groupBy("way").agg(functions.first("way_detail").alias("detail"))
    return told.select("way", functions.from_json("detail", WAY_SCHEMA).alias("told")).select("way", "told.*")


def told_receivers(spark: SparkSession, facts: LakeFacts) -> DataFrame:
    """The receivers that traces refer to by number."""
    rows = [(place, broker, subscriber) for place, (broker, subscriber) in enumerate(facts.receivers)]
    return spark.createDataFrame(rows, "receiver int, broker string, subscriber string")


def _wanted(reader: LakeReader, ids: DataFrame, prepared: Prepared) -> DataFrame:
    """The filters and records of all queried buckets."""
    from pyspark.sql import functions

    buckets = _with_aliases(prepared)
    newest = newest_filters(reader.table("histories"), has_superseded=prepared.has_superseded)
    filters = bucketed_filters(newest, buckets)
    if not reader.is_empty("records"):
        filters = filters.unionByName(bucketed_records(reader.table("records"), buckets))
    extra = _alias_groups(prepared)
    if extra:
        groups = reader.spark.createDataFrame(extra, "origin long, bucket long, named long")
        moved = (
            filters.join(functions.broadcast(groups), ["origin", "bucket"])
            .drop("origin")
            .withColumnRenamed("named", "origin")
        )
        filters = filters.unionByName(moved)
    if prepared.buckets.is_sparse:
        filters = filters.join(
            functions.broadcast(ids.select("origin", "bucket").distinct()), ["origin", "bucket"], "left_semi"
        )
    return filters


def _with_aliases(prepared: Prepared) -> Buckets:
    """Extend the buckets to filters of brokers that published messages whose ids name another origin."""
    buckets = prepared.buckets
    known = {origin: (first, last) for origin, first, last in buckets.origins}
    for origin, bucket, _ in _alias_groups(prepared):
        first, last = known.get(origin, (bucket, bucket))
        known[origin] = min(first, bucket), max(last, bucket)
    origins = tuple((origin, first, last) for origin, (first, last) in sorted(known.items()))
    return Buckets(buckets.bucket_ms, origins, buckets.is_sparse)


def _alias_groups(prepared: Prepared) -> list[tuple[int, int, int]]:
    """Where another origin's filters are needed: its number, the bucket, and the origin that ids name."""
    groups = {
        (number, (low >> 16) // prepared.buckets.bucket_ms, high & 0xFFFFFFFF)
        for (high, low), told in prepared.aliases.items()
        for _, _, number in told
        if number != high & 0xFFFFFFFF
    }
    return sorted(groups)


def _arrow(parts: list[Traced], high: Any, low: Any) -> Any:
    """Convert traces to an Arrow table of the schema."""
    import pyarrow as pa

    told: set[int] = set()
    tables = [_part(each, high, low, told) for each in parts]
    if tables:
        return pa.concat_tables(tables)
    types = (
        pa.int64(),
        pa.int64(),
        pa.int64(),
        pa.list_(pa.int32()),
        pa.int32(),
        pa.float64(),
        pa.float64(),
        pa.string(),
    )
    return pa.table([pa.array([], each) for each in types], names=_NAMES)


_NAMES: Final = [each.split()[0] for each in TRACE_SCHEMA.split(", ")]


def _part(traced: Traced, high: Any, low: Any, told: set[int]) -> Any:
    import pyarrow as pa

    numbers = np.array([each.number for each in traced.ways], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(traced.counts))).astype(np.int32)
    _, firsts = np.unique(traced.way, return_index=True)
    details: list[str | None] = [None] * len(traced.rows)
    for row in firsts.tolist():
        way = traced.ways[traced.way[row]]
        if way.number not in told:
            told.add(way.number)
            details[row] = way.detail.decode()
    columns = [
        pa.array(high[traced.rows]),
        pa.array(low[traced.rows]),
        pa.array(numbers[traced.way]),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(traced.receivers.astype(np.int32))),
        pa.array(traced.checked.astype(np.int32)),
        pa.array(traced.error),
        pa.array(traced.expected),
        pa.array(details, pa.string()),
    ]
    return pa.table(columns, names=_NAMES)
