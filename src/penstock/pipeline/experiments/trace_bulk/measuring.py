"""Measures the bulk trace and two alternatives that give the same answers; run by the experiment ``trace-bulk``.

The alternatives are a join with exact records, and Bloom filters asked one after the other. The measure is CPU time of
this process and its descendants, Java and Python, as the machine may be busy with other things.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from penstock.pipeline.lake import LakeReader, read_table
from penstock.pipeline.session import SessionSettings, using_session
from penstock.pipeline.trace.facts import LakeFacts
from penstock.pipeline.trace.filters import FILTER_COLUMNS, bucketed_filters, newest_filters
from penstock.pipeline.trace.job import placed_ids, prepare, traced_ids
from penstock.pipeline.trace.stored import LakeFilter, filters_of, spans_of_index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BenchOptions", "Measured", "exact_traces", "filterwise_group", "measure", "tree_cpu_s"]

_FOUND_SCHEMA: Final = "id_high long, id_low long, routed array<string>, received array<string>"
_WARM_UP: Final = 20_000


class BenchOptions(msgspec.Struct, frozen=True):
    """What to measure, and on which data."""

    lake: str
    ids: str
    """Parquet file with the identifiers."""
    out: str
    """Folder for the traces."""
    exact_lake: str = ""
    master: str = "local[2]"
    filterwise: bool = True
    rounds: int = 1
    """How often each job runs over all identifiers; only the last run counts."""


class Measured(msgspec.Struct, frozen=True):
    """The cost of one job."""

    job: str
    ids: int
    cpu_s: float
    wall_s: float


def measure(options: BenchOptions, told: Callable[[str], None] = lambda _: None) -> list[Measured]:
    """Run the jobs one after the other, each until its Parquet output is written.

    A warm-up on the first identifiers, and all rounds but the last, give Java time to compile hot code.
    """
    settings = SessionSettings(options.master, driver_memory="2g", app_name="penstock trace-bulk")
    with using_session(settings) as spark:
        jobs: dict[str, Callable[[DataFrame], DataFrame]] = {"bulk": lambda ids: _bulk(spark, options.lake, ids)}
        if options.filterwise:
            jobs["filterwise"] = lambda ids: _filterwise(spark, options.lake, ids)
        if options.exact_lake:
            jobs["exact"] = lambda ids: exact_traces(ids, read_table(spark, options.exact_lake, "records"))
        told("warming up")
        for name, job in jobs.items():
            _written(job(_ids(spark, options.ids).limit(_WARM_UP)), options.out, f"{name}-warm-up")
        found = []
        for name, job in jobs.items():
            told(f"measuring {name}")
            rounds = [_measured(spark, options, name, job) for _ in range(options.rounds)]
            found.append(rounds[-1])
        return found


def _measured(spark: SparkSession, options: BenchOptions, name: str, job: Callable[[DataFrame], DataFrame]) -> Measured:
    ids = _ids(spark, options.ids)
    count = ids.count()
    cpu_s, wall_s = tree_cpu_s(), time.monotonic()
    _written(job(ids), options.out, name)
    return Measured(name, count, tree_cpu_s() - cpu_s, time.monotonic() - wall_s)


def exact_traces(ids: DataFrame, records: DataFrame) -> DataFrame:
    """Traces from exact records, grouped by identifier."""
    from pyspark.sql import functions

    own = records.select("id_high", "id_low", "phase", "broker", "subscriber_key")
    joined = own.join(ids.select("id_high", "id_low"), ["id_high", "id_low"])
    receiver = functions.when(functions.col("phase") == "deliver", functions.struct("broker", "subscriber_key"))
    return joined.groupBy("id_high", "id_low").agg(
        functions.collect_list(functions.when(functions.col("phase") != "deliver", functions.col("broker"))).alias(
            "routed"
        ),
        functions.collect_list(receiver).alias("received"),
    )


def filterwise_group(facts: LakeFacts) -> Callable[[Any, Any, Any], Any]:
    """Return a function that asks every filter of a group for every message of its time, one filter at a time."""

    def trace(_key: Any, ids: Any, filters: Any) -> Any:
        import pyarrow as pa

        high, low = (ids.column(name).to_numpy().view(np.uint64) for name in ("id_high", "id_low"))
        times = (low >> np.uint64(16)).astype(np.int64)
        routed: list[list[str]] = [[] for _ in range(len(high))]
        received: list[list[str]] = [[] for _ in range(len(high))]
        own = filters_of(filters.select(list(FILTER_COLUMNS)).to_pylist(), now_ms=facts.now_ms) if len(high) else ()
        for each in own:
            inside = np.zeros(len(high), dtype=np.bool_)
            for first, last in spans_of_index(each.header.index):
                inside |= (first <= times) & (times <= last)
            _ask(each, facts, np.nonzero(inside)[0], (high, low), routed, received)
        columns = [pa.array(high.view(np.int64)), pa.array(low.view(np.int64))]
        columns += [pa.array(each, pa.list_(pa.string())) for each in (routed, received)]
        return pa.table(columns, names=["id_high", "id_low", "routed", "received"])

    return trace


def tree_cpu_s() -> float:
    """CPU time of this process and its descendants, running or already reaped."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    import os

    own, total = {os.getpid()}, 0
    grew = True
    while grew:
        more = {pid for pid, (parent, _) in stats.items() if parent in own} - own
        own |= more
        grew = bool(more)
    total = sum(stats[pid][1] for pid in own if pid in stats)
    return total / os.sysconf("SC_CLK_TCK")


def _ask(
    each: LakeFilter, facts: LakeFacts, rows: Any, halves: tuple[Any, Any], routed: list[Any], received: list[Any]
) -> None:
    filter_ = each.stored.bloom()
    high, low = halves[0][rows], halves[1][rows]
    if each.header.key.phase != "deliver":
        for row in rows[filter_.contains_columns(high, low)].tolist():
            routed[row].append(each.broker)
        return
    for subscriber, (key, _) in facts.brokers[each.broker].subscribers.items():
        for row in rows[filter_.contains_columns(high ^ np.uint64(key), low)].tolist():
            received[row].append(subscriber)


def _ids(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.parquet(path).selectExpr("id_high", "id_low", "CAST(NULL AS string) AS malformed")


def _bulk(spark: SparkSession, lake: str, ids: DataFrame) -> DataFrame:
    placed, reader = placed_ids(ids), LakeReader(spark, lake)
    return traced_ids(reader, placed, prepare(reader, placed))


def _filterwise(spark: SparkSession, lake: str, ids: DataFrame) -> DataFrame:
    placed, reader = placed_ids(ids), LakeReader(spark, lake)
    prepared = prepare(reader, placed)
    by_bucket = placed.selectExpr(
        "id_high", "id_low", "origin", f"timestamp_ms div {prepared.buckets.bucket_ms} AS bucket"
    )
    newest = newest_filters(reader.table("histories"), has_superseded=prepared.has_superseded)
    filters = bucketed_filters(newest, prepared.buckets)
    group = prepared.buckets.group
    by_group = filters.selectExpr(f"{group} AS slot", *FILTER_COLUMNS).groupBy("slot")
    grouped = by_bucket.selectExpr(f"{group} AS slot", "id_high", "id_low").groupBy("slot").cogroup(by_group)
    return grouped.applyInArrow(filterwise_group(prepared.facts), _FOUND_SCHEMA)


def _written(frame: DataFrame, out: str, name: str) -> None:
    frame.write.mode("overwrite").parquet(str(Path(out) / name))


def main() -> None:
    """Read options from standard input, report progress on standard error, and write the measurements."""
    options = msgspec.json.decode(sys.stdin.buffer.read(), type=BenchOptions)
    measured = measure(options, lambda text: print(text, file=sys.stderr, flush=True))
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")


if __name__ == "__main__":
    main()
