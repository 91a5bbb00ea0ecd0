"""Loads from a lake what the bulk trace needs besides filters: facts, aliases, how long filters last (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.model.errors import MisuseError
from penstock.pipeline.lake import LakeReader, files_at
from penstock.pipeline.lake.care import partition_of
from penstock.pipeline.lake.retention import Known, load_known
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts, gather_facts, newest
from penstock.pipeline.trace.group import Aliases
from penstock.pipeline.trace.timeline import TIME_MAX
from penstock.tracking.records import GapRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "ALIASES_MAX",
    "IdSpan",
    "SeenHistories",
    "doubt_unreadable",
    "forget",
    "load_aliases",
    "load_facts",
    "look_at_histories",
    "newest_rows",
]

ALIASES_MAX: Final = 2_000_000
"""Maximum aliases in the queried time, all of which every task gets."""

_BATCH: Final = ("incarnation", "sequence")
_HISTORY_KEY: Final = ("broker", "history", "phase", "origin", "part")


@dataclass(slots=True, frozen=True)
class IdSpan:
    """How many messages of an origin to trace, and their first and last timestamp."""

    origin: int
    ids: int
    first_ms: int
    last_ms: int


def newest_rows(frame: DataFrame, *key: str) -> DataFrame:
    """Keep the most recently shipped of the rows with the same key."""
    from pyspark.sql import functions

    others = [name for name in frame.columns if name not in key]
    newest = frame.groupBy(*key).agg(
        functions.max_by(functions.struct(*others), functions.struct(*_BATCH)).alias("newest")
    )
    return newest.select(*key, *(f"newest.{name}" for name in others))


@dataclass(slots=True)
class SeenHistories:
    """An overview of the histories, without their bits."""

    keys: list[dict[str, Any]] = field(default_factory=list)
    """Broker and key of each history."""
    filter_ms: float = 0.0
    """How long filters last on average."""
    has_superseded: bool = False
    """Whether any filter exists in several generations."""


def look_at_histories(reader: LakeReader, *, first_ms: int, last_ms: int) -> SeenHistories:
    """Find which histories there are, and how long filters of a time span last; does not read bits."""
    from pyspark.sql import functions

    seen = SeenHistories()
    if not reader.is_empty("histories"):
        own = reader.table("histories").withColumn(
            "span", functions.expr(f"IF(last_ms >= {first_ms} AND first_ms <= {last_ms}, last_ms - first_ms, NULL)")
        )
        filters = own.groupBy(*_HISTORY_KEY, "filter_id").agg(
            functions.count("*").alias("rows"),
            functions.sum("span").alias("span"),
            functions.count("span").alias("spans"),
        )
        summed = filters.groupBy(*_HISTORY_KEY).agg(
            functions.max("rows").alias("rows"),
            functions.sum("span").alias("span"),
            functions.sum("spans").alias("spans"),
        )
        seen.keys = _rows(summed)
        seen.has_superseded = any(row["rows"] > 1 for row in seen.keys)
        spans = sum(row["spans"] for row in seen.keys)
        seen.filter_ms = sum(row["span"] or 0 for row in seen.keys) / spans if spans else 0.0
    if not reader.is_empty("records"):
        seen.keys += _rows(reader.table("records").select(*_HISTORY_KEY).distinct())
    return seen


def load_facts(
    reader: LakeReader, histories: Iterable[Mapping[str, Any]], *, first_ms: int, slack_ms: int
) -> LakeFacts:
    """Load what the lake knows of brokers with these histories, and of all others, for messages from a time on."""
    loaders: dict[str, Callable[[DataFrame], DataFrame]] = {
        "gaps": newest_gaps,
        "attachments": lambda frame: _attachments(frame, first_ms - slack_ms),
        "topology": lambda frame: frame.withColumn("at", _micros("at")),
        "aliases": lambda frame: frame.select("publisher_broker", "publisher_number").distinct(),
    }
    tables: dict[str, Iterable[Any]] = {"histories": histories}
    for name, load in loaders.items():
        rows = reader.rows(name)
        tables[name] = _rows(load(reader.table(name))) if rows is None else rows
    facts = gather_facts(tables, slack_ms=slack_ms)
    forget(facts, load_known(files_at(reader.lake)))
    doubt_unreadable(facts, reader.unreadable)
    return facts


def newest_gaps(gaps: DataFrame) -> DataFrame:
    """The newest row of each gap; for rows that say since when something is known, the lowest."""
    since = (
        gaps.where("reason = 'since'")
        .groupBy("broker", "history", "reason")
        .agg({"spans": "min", "incarnation": "max", "sequence": "max"})
    )
    named = since.selectExpr(
        "broker",
        "history",
        "reason",
        "`min(spans)` AS spans",
        "`max(incarnation)` AS incarnation",
        "`max(sequence)` AS sequence",
    )
    others = newest_rows(gaps.where("reason <> 'since'"), "broker", "history", "reason")
    return named.union(others.select(*named.columns))


def forget(facts: LakeFacts, known: Known) -> None:
    """Treat what the lake has deleted as unknown, whatever brokers said when they shipped it."""
    for name, since_ms in known.filters.items():
        broker = facts.brokers.setdefault(name, BrokerFacts(name))
        broker.known_since_ms = max(broker.known_since_ms or 0, since_ms)
    for name, since_ms in known.aliases.items():
        broker = facts.brokers.setdefault(name, BrokerFacts(name))
        broker.aliases_since_ms = max(broker.aliases_since_ms, since_ms)


def doubt_unreadable(facts: LakeFacts, unreadable: Iterable[str]) -> None:
    """Treat the contents of unreadable files as unknown, never as denied."""
    for path in unreadable:
        name = partition_of(path, "broker")
        if name is None:
            continue
        broker = facts.brokers.setdefault(name, BrokerFacts(name))
        table = path.partition("/")[0]
        if table in ("histories", "records", "gaps"):
            broker.gaps = (*broker.gaps, GapRecord(((0, TIME_MAX),), "damaged"))
        elif table == "attachments":
            broker.attachments_since_ms = TIME_MAX
        elif table == "aliases":
            broker.aliases_since_ms = TIME_MAX


def load_aliases(reader: LakeReader, *, first_ms: int, last_ms: int) -> Aliases:
    """Load the messages of a time span that were published elsewhere than their ids say."""
    rows = reader.rows("aliases")
    if rows is None:
        own = reader.table("aliases").where(f"shiftrightunsigned(id_low, 16) BETWEEN {first_ms} AND {last_ms}")
        rows = _rows(newest_rows(own, "broker", "id_high", "id_low").limit(ALIASES_MAX + 1))
    if len(rows) > ALIASES_MAX:
        raise MisuseError(f"the lake has more than {ALIASES_MAX:,} aliases of that time; trace shorter times")
    found: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    for row in sorted(newest(rows, ("broker", "id_high", "id_low")), key=lambda row: str(row["broker"])):
        high, low = row["id_high"] % 2**64, row["id_low"] % 2**64
        if first_ms <= low >> 16 <= last_ms:
            told = row["broker"], row["publisher_broker"], row["publisher_number"]
            found.setdefault((high, low), []).append(told)
    return found


def _attachments(frame: DataFrame, since_ms: int) -> DataFrame:
    """The attachments that may have received something since."""
    newest = newest_rows(frame, "broker", "number")
    alive = (
        f"detached_at IS NULL OR unix_millis(detached_at) >= {since_ms} "
        f"OR exists(map_values(ends), tick -> shiftright(tick, 16) >= {since_ms})"
    )
    times = {name: _micros(name) for name in ("attached_at", "detached_at")}
    return newest.where(alive).withColumns(times)


def _micros(name: str) -> Any:
    # Spark returns times in the machine's zone; numbers have none.
    from pyspark.sql import functions

    return functions.expr(f"unix_micros({name})")


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
