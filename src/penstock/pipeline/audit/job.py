"""The audit as a chain of frames: joins archived messages and their expected receivers with traces (issue: audit).

The archive says what was published, subscriptions what was asked for, traces what was delivered and positions what was
acknowledged. Messages are matched in the tasks as brokers match them, by the index of ``penstock.matching``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.model.errors import MisuseError
from penstock.model.expiry import EXPIRES
from penstock.model.message_id import MessageId
from penstock.model.reporting import QuietReporter, Reporter
from penstock.pipeline.audit.explaining import duplicates, explain, finding_row
from penstock.pipeline.audit.judging import Judgement, Seen, judge
from penstock.pipeline.audit.subscribers import Subscribers, gather_subscribers
from penstock.pipeline.audit.summary import FAULTS, AuditSummary
from penstock.pipeline.lake import LakeReader
from penstock.pipeline.progress import watched
from penstock.pipeline.trace.facts import SLACK_MS
from penstock.pipeline.trace.job import Prepared, placed_ids, prepare, told_ways, traced_ids
from penstock.pipeline.trace.loading import newest_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FINDING_SCHEMA", "AuditRange", "audit_lake", "audited", "judged", "load_subscribers"]

FINDING_SCHEMA: Final = (
    "judgement string, subscriber string, count long, message_id string, pubend string, tick long, "
    "brokers array<string>"
)
"""A fault with its message, or a task's count of one judgement."""
_FINDINGS_MAX: Final = 100_000
_TOLD_MAX: Final = 1_000
_TICK_BITS: Final = 16


@dataclass(slots=True, frozen=True)
class AuditRange:
    """Time range of the audited messages, by tick; the end is excluded."""

    first_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_ms < self.end_ms < 1 << 47:
            raise MisuseError(f"an audit from {self.first_ms} to {self.end_ms} ms has no time in it")


def audit_lake(
    spark: SparkSession,
    lake: str,
    range_: AuditRange,
    *,
    text_names: Sequence[str] = (),
    slack_ms: int = SLACK_MS,
    reporter: Reporter | None = None,
) -> AuditSummary:
    """Audit all durable subscriptions for the messages of a time range."""
    reporter = reporter or QuietReporter()
    reader = LakeReader(spark, lake)
    subscribers = load_subscribers(reader, slack_ms=slack_ms, text_names=text_names)
    published = _published(reader.table("publications"), range_).persist()
    with watched(spark, reporter, "tracing what was published"):
        placed = placed_ids(published.selectExpr("id_high", "id_low", "malformed"))
        prepared = prepare(reader, placed, slack_ms=slack_ms)
        if not prepared.spans:
            return _empty(subscribers, reader)
        traces = traced_ids(reader, placed, prepared).localCheckpoint()
    with watched(spark, reporter, "judging deliveries"):
        found = audited(spark, published, traces, subscribers, prepared).persist()
        counts = [row.asDict() for row in _counts(found).collect()]
        faults = [row.asDict() for row in found.where("message_id IS NOT NULL").limit(_FINDINGS_MAX).collect()]
        more = duplicates(reader.table("records"), published, subscribers, findings_max=_FINDINGS_MAX)
        explain(reader, faults)
        summary = _summary(reader, counts, _without(more, faults), faults, traces)
    summary.subscriptions = len(subscribers.durable())
    published.unpersist()
    found.unpersist()
    return summary


def load_subscribers(reader: LakeReader, *, slack_ms: int, text_names: Sequence[str] = ()) -> Subscribers:
    """Load all subscribers: what they asked for and how far they have acknowledged."""
    from pyspark.sql import functions

    subscriptions = reader.rows("subscriptions")
    if subscriptions is None:
        newest = newest_rows(reader.table("subscriptions"), "broker", "number")
        micros = {name: functions.expr(f"unix_micros({name})") for name in ("began_at", "ended_at")}
        timed = newest.withColumns(micros)
        subscriptions = [row.asDict() for row in timed.collect()]
    positions = reader.rows("positions")
    if positions is None:
        newest = newest_rows(reader.table("positions"), "pubend", "subscription").drop("observed_at")
        positions = [row.asDict() for row in newest.collect()]
    return gather_subscribers(subscriptions, positions, slack_ms=slack_ms, text_names=text_names)


def audited(
    spark: SparkSession, published: DataFrame, traces: DataFrame, subscribers: Subscribers, prepared: Prepared
) -> DataFrame:
    """Compute faults, and counts of all judgements (``FINDING_SCHEMA``)."""
    doubts = {row.way: _doubtful(row) for row in told_ways(traces).collect()}
    known = spark.sparkContext.broadcast((subscribers, doubts, prepared.facts.receivers))
    beside = published.where("malformed IS NULL").join(
        traces.select("id_high", "id_low", "way", "receivers"), ["id_high", "id_low"]
    )
    columns = beside.select("id_high", "id_low", "tick", "pubend", "attributes", "way", "receivers")
    return columns.mapInArrow(judged(lambda: known.value), FINDING_SCHEMA)


def judged(
    known: Callable[[], tuple[Subscribers, Mapping[int, frozenset[str]], Sequence[tuple[str, str]]]],
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the function that judges messages and their traces in a task."""

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        subscribers, doubts, receivers = known()
        for batch in batches:
            counts: Counter[tuple[Judgement, str]] = Counter()
            rows: list[dict[str, Any]] = []
            for row in batch.to_pylist():
                attributes = dict(row["attributes"] or ())
                seen = Seen(
                    row["tick"],
                    row["pubend"],
                    subscribers.matching(attributes),
                    [receivers[each] for each in row["receivers"]],
                    doubts.get(row["way"], frozenset()),
                    row["id_low"] % 2**64 >> _TICK_BITS,
                    EXPIRES in attributes,
                )
                for finding in judge(seen, subscribers):
                    counts[finding.judgement, finding.subscriber] += 1
                    if finding.judgement in FAULTS:
                        named = str(MessageId.from_halves(row["id_high"] % 2**64, row["id_low"] % 2**64))
                        rows.append(finding_row(finding.judgement, finding.subscriber, 0, named, seen, finding.brokers))
            rows += [finding_row(judgement, name, count) for (judgement, name), count in counts.items()]
            yield _arrow(rows)

    return work


def _published(publications: DataFrame, range_: AuditRange) -> DataFrame:
    """The messages of a time range, deduplicated, with their identifiers as two longs."""
    first, end = range_.first_ms << _TICK_BITS, range_.end_ms << _TICK_BITS
    own = publications.where(f"tick >= {first} AND tick < {end}").select("message_id", "tick", "pubend", "attributes")
    return _with_halves(own.dropDuplicates(["message_id"]))


def _with_halves(frame: DataFrame) -> DataFrame:
    schema = "id_high long, id_low long, malformed string, tick long, pubend string, attributes map<string,string>"
    return frame.select("message_id", "tick", "pubend", "attributes").mapInArrow(_halved, schema)


def _halved(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    from penstock.pipeline.trace.ids import parsed_batches

    for batch in batches:
        (parsed,) = parsed_batches([batch.select(["message_id"])])
        columns = [*parsed.columns, *(batch.column(name) for name in ("tick", "pubend", "attributes"))]
        yield pa.RecordBatch.from_arrays(columns, names=[*parsed.schema.names, "tick", "pubend", "attributes"])


def _doubtful(way: Any) -> frozenset[str]:
    """Brokers that may have had the message without a record of it."""
    unsure = [hop.broker for hop in way.hops if hop.claim in ("gap", "unknown")]
    return frozenset([*(gap.broker for gap in way.gaps), *way.unreachable, *way.unknown, *unsure])


def _counts(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return (
        found.where("message_id IS NULL").groupBy("judgement", "subscriber").agg(functions.sum("count").alias("count"))
    )


def _without(rows: list[dict[str, Any]], known: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    names = {(row["judgement"], row["subscriber"], row["message_id"]) for row in known}
    return [row for row in rows if (row["judgement"], row["subscriber"], row["message_id"]) not in names]


def _summary(
    reader: LakeReader,
    counts: Iterable[Mapping[str, Any]],
    more: list[dict[str, Any]],
    faults: list[dict[str, Any]],
    traces: DataFrame,
) -> AuditSummary:
    by_name: dict[str, Counter[str]] = {}
    for row in counts:
        by_name.setdefault(row["subscriber"], Counter())[row["judgement"]] += row["count"]
    for row in faults:
        # This one was counted as lost.
        if row["judgement"] == Judgement.UNEXPLAINED:
            by_name[row["subscriber"]].update({Judgement.LOST: -1, Judgement.UNEXPLAINED: 1})
    for row in more:
        by_name.setdefault(row["subscriber"], Counter())[row["judgement"]] += 1
    totals: Counter[str] = Counter()
    for own in by_name.values():
        totals.update(own)
    total = traces.selectExpr(
        "count(*) AS messages", "sum(false_receivers) AS expected", "sum(checked - size(receivers)) AS negative"
    ).first()
    assert total is not None
    expected = float(total.expected or 0.0)
    bloom = reader.table("histories").where("phase = 'deliver'").select("broker").head(1)
    return AuditSummary(
        messages=total.messages,
        subscriptions=0,
        counts=dict(totals),
        is_exact=not bloom,
        unexpected_by_chance=expected,
        miss_probability=expected / total.negative if total.negative else 0.0,
        by_subscription={name: dict(+own) for name, own in sorted(by_name.items())},
        findings=[*faults, *more][:_TOLD_MAX],
        unreadable=dict(reader.unreadable),
    )


def _empty(subscribers: Subscribers, reader: LakeReader) -> AuditSummary:
    return AuditSummary(
        messages=0,
        subscriptions=len(subscribers.durable()),
        counts={},
        is_exact=False,
        unexpected_by_chance=0.0,
        miss_probability=0.0,
        by_subscription={},
        findings=[],
        unreadable=dict(reader.unreadable),
    )


def _arrow(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    types = {"count": pa.int64(), "tick": pa.int64(), "brokers": pa.list_(pa.string())}
    names = ("judgement", "subscriber", "count", "message_id", "pubend", "tick", "brokers")
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    return pa.RecordBatch.from_pylist(rows, schema=schema)
