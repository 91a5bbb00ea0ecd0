"""Examines an audit's findings more closely: messages delivered more than once, and losses without any history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.model.message_id import MessageId
from penstock.pipeline.audit.judging import Judgement, Seen
from penstock.pipeline.audit.subscribers import Subscribers
from penstock.pipeline.lake import LakeReader
from penstock.tracking.hashing import subscriber_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["duplicates", "explain", "finding_row", "repeated_records"]


def repeated_records(records: DataFrame, published: DataFrame) -> DataFrame:
    """Exact delivery records that occur several times for one message and subscriber."""
    from pyspark.sql import functions

    unique = (
        records.where("phase = 'deliver'")
        .select("broker", "history", "filter_id", "place", "id_high", "id_low", "subscriber_key")
        .distinct()
    )
    several = unique.groupBy("id_high", "id_low", "subscriber_key").agg(
        functions.count("*").alias("deliveries"), functions.collect_set("broker").alias("brokers")
    )
    names = published.select("id_high", "id_low", "tick", "pubend")
    return several.where("deliveries > 1").join(names, ["id_high", "id_low"])


def duplicates(
    records: DataFrame, published: DataFrame, subscribers: Subscribers, *, findings_max: int
) -> list[dict[str, Any]]:
    """Find messages that durable subscriptions received more often than their attachments allow, by exact records."""
    keys = {subscriber_key(each.name): each for each in subscribers.durable()}
    found = []
    for row in repeated_records(records, published).limit(findings_max).collect():
        each = keys.get(row.subscriber_key % 2**64)
        if each is None:
            continue
        message_id = MessageId.from_halves(row.id_high % 2**64, row.id_low % 2**64)
        allowed = each.deliveries_max(row.pubend, row.tick, message_id.timestamp_ms, subscribers.slack_ms)
        if row.deliveries > allowed:
            seen = Seen(row.tick, row.pubend, frozenset(), (), frozenset())
            found.append(finding_row(Judgement.DUPLICATED, each.name, 0, str(message_id), seen, sorted(row.brokers)))
    return found


def explain(reader: LakeReader, faults: list[dict[str, Any]]) -> None:
    """Reclassify losses as unexplained where no history exists that could hold the delivery."""
    lost = [row for row in faults if row["judgement"] == Judgement.LOST]
    if not lost:
        return
    spans = _delivery_spans(reader)
    for row in lost:
        message_id = MessageId.parse(row["message_id"])
        part = f"{subscriber_key(row['subscriber']):016x}"
        own = [
            span
            for broker in row["brokers"]
            for key in ("", part)
            for span in spans.get((broker, message_id.broker, key), ())
        ]
        if not any(first <= message_id.timestamp_ms <= last for first, last in own):
            row["judgement"] = Judgement.UNEXPLAINED


def _delivery_spans(reader: LakeReader) -> dict[tuple[str, int, str], list[tuple[int, int]]]:
    """Time spans covered by delivery histories, by broker, origin and part."""
    histories = reader.table("histories").where("phase = 'deliver'")
    rows = histories.selectExpr(
        "broker", "origin", "part", "COALESCE(first_ms, 0) AS first", "COALESCE(last_ms, 1L << 60) AS last"
    )
    records = reader.table("records").where("phase = 'deliver'")
    # Any subscriber with a delivery record has a history, whatever that is called.
    blocks = records.selectExpr(
        "broker", "origin", "lower(hex(subscriber_key)) AS part", "shiftrightunsigned(id_low, 16) AS ms"
    )
    ranges = (
        blocks.groupBy("broker", "origin", "part")
        .agg({"ms": "min", "*": "count"})
        .selectExpr("broker", "origin", "lpad(part, 16, '0') AS part", "`min(ms)` AS first", "1L << 60 AS last")
    )
    found: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for row in rows.union(ranges).collect():
        found.setdefault((row.broker, row.origin, row.part), []).append((row.first, row.last))
    return found


def finding_row(
    judgement: Judgement,
    subscriber: str,
    count: int,
    message_id: str | None = None,
    seen: Seen | None = None,
    brokers: Iterable[str] = (),
) -> dict[str, Any]:
    """Build a row: a fault with its message, or a count of one judgement."""
    return {
        "judgement": str(judgement),
        "subscriber": subscriber,
        "count": count,
        "message_id": message_id,
        "pubend": None if seen is None else seen.pubend,
        "tick": None if seen is None else seen.tick,
        "brokers": list(brokers),
    }
