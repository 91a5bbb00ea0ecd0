"""Filters of the lake in tracking's own form, and the answers brokers would give from them alone ([Tracking] 3.3).

``trace_one`` is the live trace on a lake: brokers answer as they do live, one message at a time. The bulk trace must
agree with it, and uses it for the few messages that are too complicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.model.message_id import MessageId
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts, spans_of
from penstock.tracking.aliases import AliasBook
from penstock.tracking.answering import Answerer
from penstock.tracking.answers import BrokerAnswer, Evidence, Trace
from penstock.tracking.exact import RECORD_BYTES, exact_shape
from penstock.tracking.hashing import HASH_VERSION
from penstock.tracking.keys import HistoryKey, history_key
from penstock.tracking.reconstruct import Reconstruction
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import Span, TimeIndex
from penstock.tracking.stored import FilterHeader, StoredFilter
from penstock.tracking.strategy import Matching, NullTracking

__all__ = ["EXACT_M", "LakeFilter", "LakeTracking", "filters_of", "spans_of_index", "trace_one"]

EXACT_M = 0
"""The value of m in rows of exact records."""


@dataclass(slots=True, frozen=True)
class LakeFilter:
    """A filter or a block of exact records of one broker."""

    broker: str
    stored: StoredFilter
    is_damaged: bool = False
    """Whether it cannot be asked: its bits are missing, or use another hash."""

    @property
    def header(self) -> FilterHeader:
        """Its header."""
        return self.stored.header


def filters_of(rows: Iterable[Mapping[str, Any]], *, now_ms: int) -> Iterator[LakeFilter]:
    """Parse rows with the columns of ``filters.FILTER_COLUMNS`` into filters."""
    for row in rows:
        yield _exact(row, now_ms) if row["m"] == EXACT_M else _bloom(row)


def spans_of_index(index: TimeIndex) -> tuple[Span, ...]:
    """All spans of a filter: its range and its singletons."""
    return index.singletons if index.range is None else (index.range, *index.singletons)


class LakeTracking(NullTracking):
    """One broker's records, as far as the lake has them."""

    def __init__(self, facts: BrokerFacts, filters: Iterable[LakeFilter]) -> None:
        super().__init__()
        self._facts = facts
        self._by_key: dict[HistoryKey, list[LakeFilter]] = {}
        for each in filters:
            self._by_key.setdefault(each.header.key, []).append(each)

    def matching(self, key: HistoryKey, timestamp_ms: int, *, now_ms: int) -> Matching:  # noqa: ARG002
        """Where to look for a message of this time in one history, and in its late history."""
        since_ms = self._facts.known_since_ms
        gaps = [gap for gap in self._facts.gaps if gap.concerns(str(key), timestamp_ms)]
        found = Matching(gaps=gaps, is_known=since_ms is not None and timestamp_ms >= since_ms)
        for each in (*self._by_key.get(key, ()), *self._by_key.get(key.late, ())):
            if timestamp_ms in each.header.index:
                if each.is_damaged:
                    # Listed as still to be loaded, which will fail.
                    found.stored.append(each.header)
                else:
                    found.memory.append((each.header, each.stored.container()))
        return found


def trace_one(
    facts: LakeFacts, filters: Sequence[LakeFilter], message_id: MessageId, aliases: Sequence[tuple[str, str, int]] = ()
) -> Trace:
    """Trace one message; aliases are (broker that knows it, broker that published it, its number)."""
    links = facts.unshipped_links(message_id.timestamp_ms)
    origin = facts.origin_of(message_id.broker)
    if origin not in facts.brokers:
        # Any broker with records of its messages may have received them from it.
        known = [each.broker for each in filters if each.header.key.origin == message_id.broker]
        links[origin] = tuple(dict.fromkeys((*links.get(origin, ()), *sorted(known))))
    search = Reconstruction(message_id, origin, topology=links)
    alias = next(((name, number) for _, name, number in aliases), None)
    while not search.is_done:
        for ask in search.asks():
            if ask.broker not in facts.brokers:
                search.on_unreachable(ask.broker)
                continue
            answer = _answer(facts, filters, message_id, ask.origins, ask.broker)
            told = next(((name, number) for by, name, number in aliases if by == ask.broker), None)
            if ask.broker == origin and answer.published is not Evidence.YES:
                # As in a live trace: if the broker that the id names has not published the message, everyone is asked.
                told = alias
            search.on_answer(replace(answer, alias=told))
    return search.result()


def _answer(
    facts: LakeFacts, filters: Sequence[LakeFilter], message_id: MessageId, origins: Sequence[int], name: str
) -> BrokerAnswer:
    broker = facts.brokers[name]
    tracking = LakeTracking(broker, (each for each in filters if each.broker == name))
    aliases = AliasBook()
    aliases.known_since_ms = broker.aliases_since_ms
    answerer = Answerer(
        name,
        -1 if broker.number is None else broker.number,
        tracking,
        broker.attachment_map(),
        aliases=aliases,
        slack_ms=facts.slack_ms,
        per_subscriber=broker.per_subscriber,
    )
    neighbours = broker.neighbours_since(message_id.timestamp_ms, facts.slack_ms)
    inquiry = answerer.inquire(message_id, origins, neighbours=neighbours, now_ms=facts.now_ms)
    while inquiry.answer is None:
        inquiry.on_loaded({})
    return inquiry.answer


def _bloom(row: Mapping[str, Any]) -> LakeFilter:
    first_ms = row["first_ms"]
    header = FilterHeader(
        key=history_key(row["history"]),
        filter_id=row["filter_id"],
        generation=row["generation"],
        is_open=row["is_open"],
        kind="bloom",
        shape=FilterShape(row["m"], row["n"], row["k"]),
        count=row["count"],
        opened_ms=0,
        added_ms=row["added_ms"],
        index=TimeIndex(None if first_ms is None else (first_ms, row["last_ms"]), spans_of(row["singletons"])),
        hash_version=row["hash_version"],
    )
    bits = bytes(row["bits"] or b"")
    is_damaged = header.hash_version != HASH_VERSION or len(bits) != header.shape.size_bytes
    return LakeFilter(row["broker"], StoredFilter(header, bits), is_damaged)


def _exact(row: Mapping[str, Any], now_ms: int) -> LakeFilter:
    """Exact records as a filter: the lake does not say when they were added, so it may have been until now."""
    body, count = bytes(row["bits"]), row["count"]
    shape = exact_shape(16, has_subscribers=len(body) > count * RECORD_BYTES)
    times = np.frombuffer(body, dtype=">u8", count=2 * count)[1::2] >> np.uint64(16)
    header = FilterHeader(
        key=history_key(row["history"]),
        filter_id=row["filter_id"],
        generation=row["generation"],
        is_open=False,
        kind="exact",
        shape=shape,
        count=count,
        opened_ms=0,
        added_ms=now_ms,
        index=TimeIndex((int(times.min()), int(times.max())) if count else None),
    )
    return LakeFilter(row["broker"], StoredFilter(header, body))
