"""Finds the filters and exact records that may have seen some messages, and assigns them to time buckets.

A bucket is a stretch of time of one origin, the same for messages and filters: messages of one bucket are traced with
the filters of that bucket. A filter that extends past the end of a bucket is in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.pipeline.trace.stored import EXACT_M

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "FILTER_COLUMNS",
    "Buckets",
    "bucketed_filters",
    "bucketed_records",
    "choose_bucket_ms",
    "newest_filters",
    "origin_of_group",
    "superseded_filters",
]

FILTER_COLUMNS: Final = (
    "broker",
    "history",
    "filter_id",
    "generation",
    "is_open",
    "hash_version",
    "m",
    "k",
    "n",
    "count",
    "added_ms",
    "first_ms",
    "last_ms",
    "singletons",
    "bits",
)
"""The columns of a filter that a task needs."""

_KEY: Final = ("broker", "history", "filter_id")
_VERSION: Final = ("generation", "incarnation", "sequence")
_BUCKET_IDS: Final = 131_072
"""Approximate messages per bucket: enough to make a group's fixed cost negligible."""
_BUCKET_SPANS: Final = 16
"""Maximum length of a bucket in filter durations, since a task gets each filter in full."""
_BUCKET_MS_MIN: Final = 1_000
_GROUP_BITS: Final = 32
"""How many bits of a group's number hold the bucket; the rest hold the origin."""


@dataclass(slots=True, frozen=True)
class Buckets:
    """How time is divided, and which part of it is queried."""

    bucket_ms: int
    origins: tuple[tuple[int, int, int], ...]
    """Numbers of brokers, with their first and their last bucket."""
    is_sparse: bool = False
    """Whether most buckets in between have no messages."""

    @property
    def group(self) -> str:
        """Origin and bucket as one number, in SQL: rows are sorted by it, and a single long sorts fastest."""
        first = min((first for _, first, _ in self.origins), default=0)
        return f"shiftleft(origin, {_GROUP_BITS}) | (bucket - {first}L)"


def origin_of_group(group: int) -> int:
    """Extract the origin from the number of a group.

    >>> origin_of_group((7 << 32 | 5) - 2**64)
    7
    """
    return group >> _GROUP_BITS & (1 << _GROUP_BITS) - 1


def choose_bucket_ms(ids: int, id_span_ms: int, filter_span_ms: float) -> tuple[int, bool]:
    """Choose the bucket length for this many messages over a time, and tell whether most buckets would be empty.

    >>> choose_bucket_ms(10_000_000, 2_000_000, 500.0)
    (8000, False)
    >>> choose_bucket_ms(1_000, 31_536_000_000, 500.0)
    (1000, True)
    """
    filter_ms = max(filter_span_ms, _BUCKET_MS_MIN)
    per_ms = ids / max(id_span_ms, 1)
    if per_ms * filter_ms < 1:
        return round(filter_ms), True
    return round(max(filter_ms, min(_BUCKET_SPANS * max(filter_span_ms, 1), _BUCKET_IDS / per_ms))), False


def newest_filters(histories: DataFrame, *, has_superseded: bool = True) -> DataFrame:
    """The newest generation of each filter, with its times in milliseconds.

    If every filter is known to be there only once, the search for superseded ones is skipped.
    """
    if has_superseded:
        histories = histories.join(superseded_filters(histories), [*_KEY, *_VERSION], "left_anti")
    return histories.selectExpr(
        *(name for name in FILTER_COLUMNS if name != "added_ms"), "origin", "unix_millis(added_at) AS added_ms"
    )


def superseded_filters(histories: DataFrame) -> DataFrame:
    """Rows of filters that have a newer generation, by key and version; does not read bits."""
    from pyspark.sql import functions

    headers = histories.select(*_KEY, *_VERSION)
    newest = headers.groupBy(*_KEY).agg(
        functions.max(functions.struct(*_VERSION)).alias("newest"), functions.count("*").alias("rows")
    )
    several = newest.where("rows > 1").drop("rows")
    return (
        headers.join(several, [*_KEY])
        .where(functions.struct(*_VERSION) < functions.col("newest"))
        .select(*_KEY, *_VERSION)
    )


def bucketed_filters(filters: DataFrame, buckets: Buckets) -> DataFrame:
    """Repeat each filter for every bucket in which it may have seen a queried message."""
    from pyspark.sql import functions

    wide = filters.join(functions.broadcast(_origins(filters, buckets)), "origin")
    ms = buckets.bucket_ms
    ranges = _sequence("first_ms", "last_ms", ms)
    # A singleton's span is 16 bytes: two signed numbers, which are times and so not negative.
    place = "CAST(conv(hex(substring(singletons, place * 16 + {start}, 8)), 16, 10) AS DECIMAL(20, 0))"
    first, last = (f"CAST(LEAST({place.format(start=start)}, 9000000000000000) AS long)" for start in (1, 9))
    singles = (
        f"CASE WHEN length(singletons) >= 16 THEN flatten(transform(sequence(0L, length(singletons) div 16 - 1), "
        f"place -> {_sequence(first, last, ms)})) ELSE array() END"
    )
    placed = wide.selectExpr(*FILTER_COLUMNS, "origin", f"array_union({ranges}, {singles}) AS buckets")
    return placed.selectExpr(*FILTER_COLUMNS, "origin", "explode(buckets) AS bucket")


def bucketed_records(records: DataFrame, buckets: Buckets) -> DataFrame:
    """Exact records, one block per history and bucket; deduplicates records that were shipped twice."""
    from pyspark.sql import functions

    own = records.join(functions.broadcast(_origins(records, buckets)), "origin")
    placed = own.selectExpr(
        *_KEY,
        "origin",
        "id_high",
        "id_low",
        "subscriber_key",
        f"shiftrightunsigned(id_low, 16) div {buckets.bucket_ms} AS bucket",
        "first_bucket",
        "last_bucket",
    )
    inside = placed.where("bucket BETWEEN first_bucket AND last_bucket").drop("first_bucket", "last_bucket")
    schema = (
        "broker string, history string, filter_id long, generation long, is_open boolean, hash_version long, "
        "m long, k long, n long, count long, added_ms long, first_ms long, last_ms long, singletons binary, "
        "bits binary, origin long, bucket long"
    )
    return inside.groupBy("broker", "history", "origin", "bucket").applyInArrow(packed_block, schema)


def packed_block(rows: Any) -> Any:
    """Pack the records of one history and bucket into one row."""
    import numpy as np
    import pyarrow as pa

    def column(name: str) -> Any:
        return rows.column(name).to_numpy().astype(np.int64).view(np.uint64)

    body = np.stack((column("id_high"), column("id_low")), axis=1).astype(">u8").tobytes()
    if rows.column("subscriber_key").null_count < rows.num_rows:
        body += column("subscriber_key").astype(">u8").tobytes()
    first = {name: rows.column(name)[0].as_py() for name in ("broker", "history", "filter_id", "origin", "bucket")}
    block = {
        **first,
        "generation": 1,
        "is_open": False,
        "hash_version": 1,
        "m": EXACT_M,
        "k": 0,
        "n": 0,
        "count": rows.num_rows,
        "added_ms": 0,
        "first_ms": None,
        "last_ms": None,
        "singletons": None,
        "bits": body,
    }
    types = {"broker": pa.string(), "history": pa.string(), "is_open": pa.bool_()}
    types |= {"singletons": pa.binary(), "bits": pa.binary()}
    names = [*FILTER_COLUMNS, "origin", "bucket"]
    return pa.table({name: pa.array([block[name]], types.get(name, pa.int64())) for name in names})


def _sequence(first: str, last: str, bucket_ms: int) -> str:
    """The buckets from one time to another, limited to the queried ones."""
    low, high = f"GREATEST({first} div {bucket_ms}, first_bucket)", f"LEAST({last} div {bucket_ms}, last_bucket)"
    return f"CASE WHEN {first} IS NOT NULL AND {low} <= {high} THEN sequence({low}, {high}) ELSE array() END"


def _origins(frame: DataFrame, buckets: Buckets) -> DataFrame:
    # As a table of literals, whose size Spark knows without a job.
    rows = ", ".join(f"({origin}L, {first}L, {last}L)" for origin, first, last in buckets.origins)
    query = f"SELECT * FROM VALUES {rows} AS origins(origin, first_bucket, last_bucket)"  # noqa: S608 - numbers
    return frame.sparkSession.sql(query)
