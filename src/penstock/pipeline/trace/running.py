"""Runs a bulk trace from beginning to end: reads ids, traces them, writes Parquet, and summarises the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.model.errors import MisuseError
from penstock.model.message_id import MessageId
from penstock.model.reporting import QuietReporter, Reporter
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.progress import watched
from penstock.pipeline.trace.facts import SLACK_MS
from penstock.pipeline.trace.ids import given_ids, read_ids
from penstock.pipeline.trace.job import Prepared, placed_ids, prepare, told_receivers, told_ways, traced_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TraceOptions", "TraceSummary", "run_trace", "summed"]

_SHOWN_MAX: Final = 20
"""Traces are listed individually if there are at most this many."""


@dataclass(slots=True, frozen=True)
class TraceOptions:
    """What to trace, and where to write it."""

    lake: str
    out: Path
    source: str = ""
    """A file or a table of the lake; empty if ids are given."""
    ids: tuple[str, ...] = ()
    slack_ms: int = SLACK_MS
    overwrite: bool = False

    def __post_init__(self) -> None:
        if bool(self.source) == bool(self.ids):
            raise MisuseError("name the ids once: --ids with a file or a table, or --id with one or more of them")
        if self.slack_ms < 0:
            raise MisuseError(f"slack {self.slack_ms} ms is negative")
        if not self.overwrite and self.out.exists() and any(self.out.iterdir()):
            raise MisuseError(f"{self.out} is not empty; name another --out, or say --overwrite")


class TraceSummary(msgspec.Struct):
    """The results of a bulk trace."""

    ids: int = 0
    malformed: int = 0
    malformed_examples: list[str] = []
    found: int = 0
    """Messages that a broker claims to have published or routed."""
    absent: int = 0
    """Messages that are certainly on no record."""
    uncertain: int = 0
    """Messages on no record, where records are missing."""
    incomplete: int = 0
    """Traces in which something may be missing."""
    receivers: int = 0
    checked: int = 0
    """Subscribers checked."""
    false_receivers: float = 0.0
    """The expected number of receivers claimed by chance."""
    probable_false_positives: int = 0
    """Claims of brokers that cannot be true, and were not counted."""
    error_probability_max: float = 0.0
    ways: int = 0
    """Number of distinct ways."""
    routed_by: dict[str, int] = {}
    delivered_by: dict[str, int] = {}
    unreachable: dict[str, int] = {}
    """Brokers that have shipped nothing, with the number of traces that needed them."""
    gaps: dict[str, int] = {}
    """Reasons why something may be missing, with the number of traces."""
    traces: list[dict[str, Any]] = []
    """Individual traces, if there are few."""
    unreadable: dict[str, str] = {}
    out: str = ""

    def to_json(self) -> str:
        """All fields as JSON."""
        return msgspec.json.encode(self).decode()

    def lines(self) -> list[str]:
        """Lines for people."""
        found = (
            f"{self.ids:,} messages: {self.found:,} found, {self.absent:,} never published, "
            f"{self.uncertain:,} on no record where records are missing; {self.incomplete:,} traces may be incomplete"
        )
        receivers = (
            f"{self.receivers:,} receivers ({self.checked:,} subscribers asked for; {self.false_receivers:.3g} of the "
            f"receivers are expected to be false); {self.probable_false_positives:,} impossible claims left out"
        )
        ways = (
            f"{self.ways:,} different ways; no trace is wrong with a probability above "
            f"{self.error_probability_max:.2g}; results: {self.out}"
        )
        return [found, receivers, ways]


def run_trace(spark: SparkSession, options: TraceOptions, reporter: Reporter | None = None) -> TraceSummary:
    """Run the trace, and write the results."""
    reporter = reporter or QuietReporter()
    reader = LakeReader(spark, options.lake)
    with watched(spark, reporter, "looking at ids and lake"):
        reader.table("histories")
        source = options.source
        ids = read_ids(spark, source, options.lake) if source else given_ids(spark, options.ids)
        # Cached, so that texts are parsed once.
        ids = ids.persist()
        bad = [row.malformed for row in ids.where("malformed IS NOT NULL").limit(_SHOWN_MAX // 2).collect()]
        malformed = ids.where("malformed IS NOT NULL").count() if bad else 0
        placed = placed_ids(ids)
        prepared = prepare(reader, placed, slack_ms=options.slack_ms)
    folder = options.out
    with watched(spark, reporter, f"tracing {prepared.ids:,} messages"):
        traces = traced_ids(reader, placed, prepared) if prepared.spans else _none(spark)
        traces.write.mode("overwrite").parquet(str(folder / "traces"))
    with watched(spark, reporter, "summing up"):
        summary = _written(spark, folder, prepared)
    summary.malformed, summary.malformed_examples = malformed, bad
    summary.unreadable, summary.out = dict(reader.unreadable), str(folder)
    (folder / "summary.json").write_text(summary.to_json() + "\n", encoding="utf-8")
    ids.unpersist()
    return summary


def summed(ways: Iterable[Mapping[str, Any]], uses: Mapping[int, Mapping[str, Any]]) -> TraceSummary:
    """Sum up ways, given how often each is used and the figures of its traces."""
    summary = TraceSummary()
    routed: Counter[str] = Counter()
    unreachable: Counter[str] = Counter()
    gaps: Counter[str] = Counter()
    for way in ways:
        use = uses[way["way"]]
        count = use["traces"]
        summary.ways += 1
        summary.ids += count
        summary.receivers += use["receivers"]
        summary.checked += use["checked"]
        summary.false_receivers += use["expected"]
        summary.error_probability_max = max(summary.error_probability_max, use["error"])
        summary.probable_false_positives += count * len(way["probable_false_positives"])
        summary.incomplete += 0 if way["is_complete"] else count
        if way["routed_by"]:
            summary.found += count
        elif way["is_complete"]:
            summary.absent += count
        else:
            summary.uncertain += count
        routed.update(dict.fromkeys(way["routed_by"], count))
        unreachable.update(dict.fromkeys(way["unreachable"], count))
        gaps.update({gap["reason"]: count for gap in way["gaps"]})
    summary.routed_by, summary.unreachable, summary.gaps = dict(routed), dict(unreachable), dict(gaps)
    return summary


def _written(spark: SparkSession, folder: Path, prepared: Prepared) -> TraceSummary:
    """Write ways and receivers beside the traces, and summarise everything."""
    from pyspark.sql import functions

    traces = spark.read.parquet(str(folder / "traces"))
    told_ways(traces).coalesce(1).write.mode("overwrite").parquet(str(folder / "ways"))
    told_receivers(spark, prepared.facts).coalesce(1).write.mode("overwrite").parquet(str(folder / "receivers"))
    uses = traces.groupBy("way").agg(
        functions.count("*").alias("traces"),
        functions.sum(functions.size("receivers")).alias("receivers"),
        functions.sum("checked").alias("checked"),
        functions.sum("false_receivers").alias("expected"),
        functions.max("error_probability").alias("error"),
    )
    by_way = {row.way: row.asDict() for row in uses.collect()}
    ways = [row.asDict(recursive=True) for row in spark.read.parquet(str(folder / "ways")).collect()]
    summary = summed(ways, by_way)
    delivered: Counter[str] = Counter()
    for row in traces.select(functions.explode("receivers").alias("each")).groupBy("each").count().collect():
        delivered[prepared.facts.receivers[row.each][0]] += row["count"]
    summary.delivered_by = dict(delivered)
    if summary.ids <= _SHOWN_MAX:
        summary.traces = _shown(traces, {way["way"]: way for way in ways}, prepared.facts.receivers)
    return summary


def _shown(
    traces: DataFrame, ways: Mapping[int, Mapping[str, Any]], receivers: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    found = []
    for row in traces.collect():
        way = {name: value for name, value in ways[row.way].items() if name != "way"}
        found.append(
            {
                "message_id": str(MessageId.from_halves(row.id_high % 2**64, row.id_low % 2**64)),
                **way,
                "receivers": [receivers[each] for each in row.receivers],
                "error_probability": row.error_probability,
            }
        )
    return sorted(found, key=lambda each: str(each["message_id"]))


def _none(spark: SparkSession) -> DataFrame:
    from penstock.pipeline.trace.job import TRACE_SCHEMA

    return spark.createDataFrame([], TRACE_SCHEMA)
