"""Subscribers are asked for only where their attachments cover a message."""

from __future__ import annotations

import numpy as np

from penstock.pipeline.trace.deliveries import Block, BrokerDeliveries, log_silence
from penstock.pipeline.trace.facts import BrokerFacts
from penstock.pipeline.trace.stored import LakeFilter, filters_of
from penstock.pipeline.trace.timeline import Timeline
from penstock.tracking.accuracy import message_columns
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.records import AttachmentRecord
from penstock.tracking.sizing import FilterShape

SHAPE = FilterShape(8_192, 400, 10)
HIGH, LOW = message_columns(100, publisher=1, start_ms=1_000)
TIMES = (LOW >> np.uint64(16)).astype(np.int64)


def attached(number: int, name: str, first_ms: int, last_ms: int | None) -> AttachmentRecord:
    return AttachmentRecord(number, name, first_ms, last_ms, {}, {})


def deliveries(
    *attachments: AttachmentRecord, receivers: dict[str, slice]
) -> tuple[BrokerDeliveries, list[LakeFilter]]:
    made = BloomFilter(SHAPE)
    for name, some in receivers.items():
        made.add_columns(HIGH[some] ^ np.uint64(subscriber_key(name)), LOW[some])
    row = {
        "broker": "b",
        "history": "deliver/7",
        "filter_id": 1,
        "generation": 1,
        "is_open": False,
        "hash_version": 1,
        "m": SHAPE.m,
        "k": SHAPE.k,
        "n": SHAPE.n,
        "count": made.count,
        "added_ms": 1_500,
        "first_ms": 1_000,
        "last_ms": 1_019,
        "singletons": b"",
        "bits": made.to_bytes(),
    }
    filters = list(filters_of([row], now_ms=0))
    timeline = Timeline([(1_000, 1_019)], first_ms=1_000, last_ms=1_019)
    return BrokerDeliveries(BrokerFacts("b", attachments=attachments), filters, timeline, 0), filters


def test_receivers_are_found_and_counted() -> None:
    broker, filters = deliveries(
        attached(1, "ann", 0, None), attached(2, "bob", 0, None), receivers={"ann": slice(0, 50), "bob": slice(40, 100)}
    )
    block = Block(HIGH, LOW, TIMES, np.zeros(100, dtype=np.intp))
    found = broker.received(block, lambda: TIMES)
    assert broker.names == ("ann", "bob")
    assert found.hits[:, 0].tolist() == [True] * 50 + [False] * 50
    assert found.hits[:, 1].tolist() == [False] * 40 + [True] * 60
    assert set(found.checked.tolist()) == {2}
    ((_, log),) = log_silence(filters)
    assert np.allclose(found.log_right, 2 * log)
    assert np.allclose(found.expected[:40], -np.expm1(log))


def test_who_was_not_attached_is_not_asked_for() -> None:
    broker, _ = deliveries(
        attached(1, "early", 0, 1_009),
        attached(2, "late", 1_015, None),
        attached(3, "gone", 0, 500),
        receivers={"early": slice(0, 100), "late": slice(0, 100), "gone": slice(0, 100)},
    )
    block = Block(HIGH, LOW, TIMES, np.zeros(100, dtype=np.intp))
    found = broker.received(block, lambda: np.full(100, 1_012))
    assert found.hits[:, broker.names.index("early")].tolist() == (TIMES <= 1_009).tolist()
    assert found.hits[:, broker.names.index("late")].tolist() == (TIMES >= 1_015).tolist()
    assert not found.hits[:, broker.names.index("gone")].any()
    # One that came later may have got it as long as a filter was filled that has it.
    found = broker.received(block, lambda: np.full(100, 1_020))
    assert found.hits[:, broker.names.index("late")].all()
