"""Everything a lake knows besides filters and records: brokers, their links, gaps and subscribers (docs/lake.md).

The facts are small, so every task has all of them. A broker counts as shipped if the lake has any row of it; others are
known only by the links of their neighbours, and cannot be asked.

Deviation from a live trace: the lake does not record which neighbours an origin's messages came by (``upstream`` is
empty), so a claim is doubted only if no neighbour has the message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from penstock.pipeline.trace.timeline import TIME_MAX
from penstock.tracking.attachment import AttachmentMap, ends_ms, starts_ms
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.records import AttachmentRecord, GapRecord
from penstock.tracking.spans import Span

__all__ = [
    "SLACK_MS",
    "BrokerFacts",
    "LakeFacts",
    "Receiver",
    "attachment_of",
    "gather_facts",
    "newest",
    "spans_of",
    "time_ms",
]

SLACK_MS: Final = 300
"""Ts + Tj, with the brokers' default settings."""

Row: TypeAlias = Mapping[str, Any]
Receiver: TypeAlias = tuple[str, str]
"""Broker and subscriber."""

_SPAN: Final = struct.Struct(">qq")
_ENDS: Final = ("start", "stop")


@dataclass
class BrokerFacts:
    """Facts about one broker that has shipped something."""

    name: str
    number: int | None = None
    """The broker's number in ids; None if nothing was ever published there."""
    known_since_ms: int | None = None
    """The time from which its histories are in the lake; None if it has recorded nothing."""
    attachments_since_ms: int = 0
    aliases_since_ms: int = 0
    per_subscriber: bool = False
    """Whether each of its subscribers has its own history."""
    gaps: tuple[GapRecord, ...] = ()
    links: tuple[tuple[str, int], ...] = ()
    """Its neighbours, with the last time at which the link is known to have been up."""
    attachments: tuple[AttachmentRecord, ...] = ()

    def neighbours_since(self, timestamp_ms: int, slack_ms: int) -> tuple[str, ...]:
        """Neighbours it had a link with at any time since then."""
        return tuple(name for name, last_ms in self.links if last_ms + slack_ms >= timestamp_ms)

    def attachment_map(self) -> AttachmentMap:
        """Its attachments, as a live broker keeps them."""
        made = AttachmentMap()
        for record in self.attachments:
            made.load(record)
        made.known_since_ms = self.attachments_since_ms
        return made

    @cached_property
    def subscribers(self) -> dict[str, tuple[int, list[Span]]]:
        """Each subscriber's key and the times of messages that it may have received, by name in order."""
        found: dict[str, tuple[int, list[Span]]] = {}
        for record in sorted(self.attachments, key=lambda each: each.subscriber):
            span = starts_ms(record, None), min(ends_ms(record, None), TIME_MAX)
            if record.subscriber not in found:
                found[record.subscriber] = subscriber_key(record.subscriber), []
            found[record.subscriber][1].append(span)
        return found


@dataclass(slots=True)
class LakeFacts:
    """Facts about all brokers of a lake."""

    brokers: dict[str, BrokerFacts]
    slack_ms: int = SLACK_MS
    now_ms: int = TIME_MAX
    """Later than anything that was shipped."""
    names: dict[int, str] = field(default_factory=dict)
    """Broker names by number; some of them may not have shipped anything."""
    receivers: tuple[Receiver, ...] = ()
    """All possible receivers, sorted: traces refer to them by index."""
    places: dict[Receiver, int] = field(default_factory=dict)

    def origin_of(self, number: int) -> str:
        """The broker that ids with this number name; called by its number if nobody knows its name."""
        return self.names.get(number, f"#{number}")

    def unshipped_links(self, timestamp_ms: int) -> dict[str, tuple[str, ...]]:
        """Brokers that have shipped nothing, with those that had a link to them since."""
        found: dict[str, dict[str, None]] = {}
        for broker in self.brokers.values():
            for neighbour in broker.neighbours_since(timestamp_ms, self.slack_ms):
                if neighbour not in self.brokers:
                    found.setdefault(neighbour, {})[broker.name] = None
        return {name: tuple(links) for name, links in found.items()}


def gather_facts(tables: Mapping[str, Iterable[Row]], *, slack_ms: int = SLACK_MS) -> LakeFacts:
    """Gather the facts from rows of ``gaps``, ``attachments``, ``topology`` and ``histories`` (one row per history).

    Rows of histories need only their key, and may be of exact records; aliases name brokers and numbers.
    """
    facts = LakeFacts({}, slack_ms)
    for row in tables.get("histories", ()):
        broker = _broker(facts, row)
        broker.known_since_ms = broker.known_since_ms or 0
        broker.per_subscriber |= bool(row["part"])
        if row["phase"] == "publish":
            broker.number = row["origin"]
            facts.names[row["origin"]] = broker.name
    for row in tables.get("aliases", ()):
        facts.names.setdefault(row["publisher_number"], row["publisher_broker"])
    _add_gaps(facts, tables.get("gaps", ()))
    _add_links(facts, tables.get("topology", ()))
    for row in newest(tables.get("attachments", ()), ("broker", "number")):
        broker = _broker(facts, row)
        broker.attachments = (*broker.attachments, attachment_of(row))
    facts.brokers = dict(sorted(facts.brokers.items()))
    everybody = {(name, each.subscriber) for name, broker in facts.brokers.items() for each in broker.attachments}
    facts.receivers = tuple(sorted(everybody))
    facts.places = {each: place for place, each in enumerate(facts.receivers)}
    return facts


def newest(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Keep the most recently shipped of the rows with the same key."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: (row["incarnation"], row["sequence"])):
        found[tuple(row[name] for name in key)] = row
    return list(found.values())


def attachment_of(row: Row) -> AttachmentRecord:
    """Parse a row of ``attachments``."""
    detached = row["detached_at"]
    return AttachmentRecord(
        row["number"],
        row["subscriber"],
        time_ms(row["attached_at"]),
        None if detached is None else time_ms(detached),
        dict(row["starts"] or {}),
        dict(row["ends"] or {}),
    )


def spans_of(packed: bytes | None) -> tuple[Span, ...]:
    """Unpack spans as the lake stores them."""
    return tuple((first, last) for first, last in _SPAN.iter_unpack(packed or b""))


def _broker(facts: LakeFacts, row: Row) -> BrokerFacts:
    name = row["broker"]
    return facts.brokers.setdefault(name, BrokerFacts(name))


def _add_gaps(facts: LakeFacts, rows: Iterable[Row]) -> None:
    since: dict[tuple[str, str], int] = {}
    others = []
    for row in rows:
        if row["reason"] == "since":
            # The lake still has what the broker deleted later: the lowest counts.
            key = row["broker"], row["history"]
            known_ms = max((last + 1 for _, last in spans_of(row["spans"])), default=0)
            since[key] = min(since.get(key, known_ms), known_ms)
            _broker(facts, row)
        else:
            others.append(row)
    for (name, what), known_ms in since.items():
        broker = facts.brokers[name]
        if what == "filter":
            broker.known_since_ms = known_ms
        elif what == "attachment":
            broker.attachments_since_ms = known_ms
        else:
            broker.aliases_since_ms = known_ms
    for row in newest(others, ("broker", "history", "reason")):
        broker = _broker(facts, row)
        spans = spans_of(row["spans"])
        if row["reason"] == "open":
            spans = tuple((first - facts.slack_ms, last) for first, last in spans)
        broker.gaps = (*broker.gaps, GapRecord(spans, row["reason"], row["history"]))


def _add_links(facts: LakeFacts, rows: Iterable[Row]) -> None:
    ordered = sorted(rows, key=lambda row: (row["broker"], row["at"], row["incarnation"], row["sequence"]))
    last_up: dict[str, dict[str, int]] = {}
    for row in ordered:
        links = last_up.setdefault(_broker(facts, row).name, {})
        at_ms = time_ms(row["at"])
        if row["event"] in _ENDS:
            # When the links of a crashed broker went down is unknown: by its next start at the latest.
            links |= {name: at_ms for name, until_ms in links.items() if until_ms == TIME_MAX}
        else:
            links[row["neighbour"]] = TIME_MAX if row["event"] == "link-up" else at_ms
    for name, links in last_up.items():
        facts.brokers[name].links = tuple(links.items())


def time_ms(time: Any) -> int:
    """Convert a column's time to milliseconds; Spark returns times without a zone, which are UTC here."""
    from datetime import UTC, datetime, timedelta

    if isinstance(time, int):
        return time // 1_000
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int((aware - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
