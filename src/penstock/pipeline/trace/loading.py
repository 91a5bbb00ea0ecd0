"""Reads from a lake what the bulk trace needs beside filters: facts, aliases, how long filters last (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.model.errors import MisuseError
from penstock.pipeline.lake import files_at, read_table
from penstock.pipeline.lake.care import partition_of
from penstock.pipeline.lake.retention import Known, load_known
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts, gather_facts
from penstock.pipeline.trace.group import Aliases
from penstock.pipeline.trace.timeline import TIME_MAX
from penstock.tracking.records import GapRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "ALIASES_MAX",
    "IdSpan",
    "LakeReader",
    "doubt_unreadable",
    "forget",
    "load_aliases",
    "load_facts",
    "newest_rows",
]

ALIASES_MAX: Final = 2_000_000
"""Aliases of the time in question that are handed to every task."""

_BATCH: Final = ("incarnation", "sequence")
_HISTORY_KEY: Final = ("broker", "history", "phase", "origin", "part")


@dataclass(slots=True, frozen=True)
class IdSpan:
    """How many messages of an origin are asked for, and their first and last timestamp."""

    origin: int
    ids: int
    first_ms: int
    last_ms: int


def newest_rows(frame: DataFrame, *key: str) -> DataFrame:
    """Of the rows with the same key the one that was shipped last."""
    from pyspark.sql import functions

    others = [name for name in frame.columns if name not in key]
    newest = frame.groupBy(*key).agg(
        functions.max_by(functions.struct(*others), functions.struct(*_BATCH)).alias("newest")
    )
    return newest.select(*key, *(f"newest.{name}" for name in others))


class LakeReader:
    """The tables of a lake for one job: each is looked at once; files that cannot be read are left out and named."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self.spark, self.lake = spark, lake
        self.unreadable: dict[str, str] = {}
        """Files that were left out, with the reason."""
        self._frames: dict[str, DataFrame] = {}

    def table(self, name: str) -> DataFrame:
        """A table, as it was when it was asked for first."""
        if name not in self._frames:
            self._frames[name] = read_table(self.spark, self.lake, name, aside=self.unreadable)
        return self._frames[name]

    def is_empty(self, name: str) -> bool:
        """Whether a table has no files."""
        return not self.table(name).inputFiles()


def load_facts(reader: LakeReader, *, first_ms: int, slack_ms: int) -> LakeFacts:
    """What the lake knows of brokers, for messages from a time on."""
    keys = [reader.table(name).select(*_HISTORY_KEY).distinct() for name in ("histories", "records")]
    histories = keys[0].union(keys[1]).distinct()
    gaps = reader.table("gaps")
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
    others = newest_rows(gaps.where("reason <> 'since'"), "broker", "history", "reason").select(*named.columns)
    tables: dict[str, Iterable[Any]] = {
        "histories": _rows(histories),
        "gaps": _rows(named.union(others)),
        "attachments": _rows(_attachments(reader.table("attachments"), first_ms - slack_ms)),
        "topology": _rows(reader.table("topology").withColumn("at", _micros("at"))),
        "aliases": _rows(reader.table("aliases").select("publisher_broker", "publisher_number").distinct()),
    }
    facts = gather_facts(tables, slack_ms=slack_ms)
    forget(facts, load_known(files_at(reader.lake)))
    doubt_unreadable(facts, reader.unreadable)
    return facts


def forget(facts: LakeFacts, known: Known) -> None:
    """What the lake has given up is unknown, whatever brokers said when they shipped it."""
    for name, since_ms in known.filters.items():
        broker = facts.brokers.setdefault(name, BrokerFacts(name))
        broker.known_since_ms = max(broker.known_since_ms or 0, since_ms)
    for name, since_ms in known.aliases.items():
        broker = facts.brokers.setdefault(name, BrokerFacts(name))
        broker.aliases_since_ms = max(broker.aliases_since_ms, since_ms)


def doubt_unreadable(facts: LakeFacts, unreadable: Iterable[str]) -> None:
    """What was in files that cannot be read is unknown, and never denied."""
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
    """The messages of some time that were published elsewhere than their ids say."""
    aliases = reader.table("aliases")
    own = aliases.where(f"shiftrightunsigned(id_low, 16) BETWEEN {first_ms} AND {last_ms}")
    rows = newest_rows(own, "broker", "id_high", "id_low").limit(ALIASES_MAX + 1).collect()
    if len(rows) > ALIASES_MAX:
        raise MisuseError(f"the lake has more than {ALIASES_MAX:,} aliases of that time; trace shorter times")
    found: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    for row in sorted(rows, key=lambda row: str(row.broker)):
        key = row.id_high % 2**64, row.id_low % 2**64
        found.setdefault(key, []).append((row.broker, row.publisher_broker, row.publisher_number))
    return found


def _attachments(frame: DataFrame, since_ms: int) -> DataFrame:
    """Those that may have received something since."""
    newest = newest_rows(frame, "broker", "number")
    alive = (
        f"detached_at IS NULL OR unix_millis(detached_at) >= {since_ms} "
        f"OR exists(map_values(ends), tick -> shiftright(tick, 16) >= {since_ms})"
    )
    times = {name: _micros(name) for name in ("attached_at", "detached_at")}
    return newest.where(alive).withColumns(times)


def _micros(name: str) -> Any:
    # Spark hands out times in the machine's zone; numbers have none.
    from pyspark.sql import functions

    return functions.expr(f"unix_micros({name})")


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
