"""Claims by column, from filters and from exact records, and when they were last added to."""

from __future__ import annotations

import numpy as np

from penstock.pipeline.trace.paths import PathHistories, timed_slices
from penstock.pipeline.trace.stored import LakeFilter, filters_of, spans_of_index
from penstock.pipeline.trace.timeline import Timeline
from penstock.tracking.accuracy import message_columns
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.sizing import FilterShape

SHAPE = FilterShape(2_048, 100, 8)
HIGH, LOW = message_columns(250, publisher=1, start_ms=1_000)


def filter_of(broker: str, start_ms: int, filter_id: int, *, count: int = 100) -> LakeFilter:
    made = BloomFilter(SHAPE)
    first = (start_ms - 1_000) * 5
    made.add_columns(HIGH[first : first + count], LOW[first : first + count])
    row = {
        "broker": broker,
        "history": "route/7",
        "filter_id": filter_id,
        "generation": 1,
        "is_open": False,
        "hash_version": 1,
        "m": SHAPE.m,
        "k": SHAPE.k,
        "n": SHAPE.n,
        "count": count,
        "added_ms": start_ms + 500,
        "first_ms": start_ms,
        "last_ms": start_ms + 19,
        "singletons": b"",
        "bits": made.to_bytes(),
    }
    return next(iter(filters_of([row], now_ms=0)))


def test_columns_are_claimed_by_their_own_filters_in_their_own_time() -> None:
    one = [filter_of("a", 1_000, 1), filter_of("a", 1_020, 2)]
    other = [filter_of("b", 1_000, 1)]
    high, low = HIGH, LOW
    times = (low >> np.uint64(16)).astype(np.int64)
    spans = [span for each in [*one, *other] for span in spans_of_index(each.header.index)]
    timeline = Timeline(spans, first_ms=1_000, last_ms=1_060)
    assert len(timed_slices([*one, *other], timeline)) == 1
    histories = PathHistories([one, other, []], timeline)
    claims = histories.claims(high, low, timeline.segments(times))
    assert claims[:200, 0].all()
    assert claims[:100, 1].all()
    assert claims[150:, 1].sum() == 0
    assert claims[210:, 0].sum() == 0
    assert not claims[:, 2].any()
    added = histories.added_ms(0, np.array([0, 150, 249]), now_ms=9_999)
    assert added[:2].tolist() == [1_500, 1_520]
    assert histories.added_ms(2, np.array([0]), now_ms=9_999).tolist() == [-1]


def test_exact_records_claim_their_messages_only() -> None:
    high, low = message_columns(20, publisher=1, start_ms=1_000)
    body = np.stack((high[:5], low[:5]), axis=1).astype(">u8").tobytes()
    row = {"broker": "a", "history": "route/7", "filter_id": 3, "generation": 1, "m": 0, "count": 5, "bits": body}
    blocks = list(filters_of([row], now_ms=777))
    timeline = Timeline([], first_ms=1_000, last_ms=1_060)
    histories = PathHistories([blocks], timeline)
    segments = np.zeros(20, dtype=np.intp)
    assert histories.claims(high, low, segments)[:, 0].tolist() == [True] * 5 + [False] * 15
    assert histories.added_ms(0, np.array([0, 9]), now_ms=777).tolist() == [777, -1]
