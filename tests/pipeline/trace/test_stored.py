"""Filters of the lake answer as they do at brokers; what cannot be asked is a gap."""

from __future__ import annotations

from typing import Any

from penstock.model.message_id import MessageId
from penstock.pipeline.trace.facts import BrokerFacts, LakeFacts
from penstock.pipeline.trace.stored import LakeTracking, filters_of, trace_one
from penstock.tracking.answers import Evidence
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.sizing import FilterShape

SHAPE = FilterShape(1_024, 70, 10)
ID = MessageId(1, 7, 1_000, 0)


def bloom_row(**more: Any) -> dict[str, Any]:
    made = BloomFilter(SHAPE)
    made.add(*ID.halves())
    row = {
        "broker": "b",
        "history": "publish/7",
        "filter_id": 1,
        "generation": 1,
        "is_open": False,
        "hash_version": 1,
        "m": SHAPE.m,
        "k": SHAPE.k,
        "n": SHAPE.n,
        "count": 1,
        "added_ms": 1_001,
        "first_ms": 990,
        "last_ms": 1_010,
        "singletons": b"",
        "bits": made.to_bytes(),
    }
    return {**row, **more}


def facts() -> LakeFacts:
    return LakeFacts({"b": BrokerFacts("b", number=7, known_since_ms=0)}, names={7: "b"})


def test_a_message_is_found_where_it_was_published() -> None:
    trace = trace_one(facts(), list(filters_of([bloom_row()], now_ms=5_000)), ID)
    assert (trace.published_at, trace.routed_by, trace.is_complete) == ("b", ("b",), True)


def test_a_filter_that_cannot_be_asked_is_a_gap() -> None:
    for harm in ({"hash_version": 9}, {"bits": b"short"}, {"bits": None}):
        (damaged,) = filters_of([bloom_row(**harm)], now_ms=5_000)
        assert damaged.is_damaged
        trace = trace_one(facts(), [damaged], ID)
        assert trace.published is Evidence.GAP
        assert [(gap.reason, gap.span) for gap in trace.gaps] == [("damaged", (990, 1_010))]


def test_exact_records_know_their_times() -> None:
    body = ID.to_bytes() + MessageId(1, 7, 900, 3).to_bytes()
    row = {"broker": "b", "history": "route/7", "filter_id": 3, "generation": 1, "m": 0, "count": 2, "bits": body}
    (block,) = filters_of([row], now_ms=5_000)
    assert (block.header.index.range, block.header.added_ms) == ((900, 1_000), 5_000)
    found = LakeTracking(BrokerFacts("b", known_since_ms=0), [block]).matching(
        HistoryKey(Phase.ROUTE, 7), 950, now_ms=0
    )
    assert [each.contains(*ID.halves()) for _, each in found.memory] == [True]


def test_a_broker_that_recorded_nothing_knows_nothing() -> None:
    found = LakeTracking(BrokerFacts("b"), []).matching(HistoryKey(Phase.ROUTE, 7), 950, now_ms=0)
    assert not found.is_known
