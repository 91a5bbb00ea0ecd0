"""Buckets of time that are neither too small nor too large, and records packed into blocks."""

from __future__ import annotations

import pytest

from penstock.model.message_id import MessageId

pa = pytest.importorskip("pyarrow")

from penstock.pipeline.trace.filters import choose_bucket_ms, packed_block  # noqa: E402
from penstock.pipeline.trace.stored import filters_of  # noqa: E402


@pytest.mark.parametrize(
    ("ids", "span_ms", "filter_ms", "chosen"),
    [
        (10_000_000, 2_000_000, 500.0, (8_000, False)),
        (10_000_000, 2_000_000, 50_000.0, (50_000, False)),
        (1_000, 31_536_000_000, 500.0, (1_000, True)),
        (1, 0, 0.0, (1_000, False)),
        (100_000, 100_000, 4_000.0, (64_000, False)),
    ],
)
def test_buckets_suit_messages_and_filters(ids: int, span_ms: int, filter_ms: float, chosen: tuple[int, bool]) -> None:
    assert choose_bucket_ms(ids, span_ms, filter_ms) == chosen


@pytest.mark.parametrize("keys", [None, [5, 2**64 - 3]])
def test_records_of_a_bucket_are_one_block(keys: list[int] | None) -> None:
    ids = [MessageId(2**31 + 1, 7, 1_000, 0), MessageId(2, 7, 1_005, 1)]
    halves = [each.halves() for each in ids]
    signed = [[value - 2**64 if value >= 2**63 else value for value in column] for column in zip(*halves, strict=True)]
    named = [None, None] if keys is None else [key - 2**64 if key >= 2**63 else key for key in keys]
    rows = {
        "broker": ["b"] * 2,
        "history": ["deliver/7"] * 2,
        "filter_id": [4, 4],
        "origin": [7, 7],
        "bucket": [1, 1],
        "id_high": signed[0],
        "id_low": signed[1],
        "subscriber_key": pa.array(named, pa.int64()),
    }
    (row,) = packed_block(pa.table(rows)).to_pylist()
    (block,) = filters_of([row], now_ms=5)
    high, low, subscribers = block.stored.exact().columns()
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == halves
    assert (subscribers is None) == (keys is None)
    assert keys is None or (subscribers is not None and subscribers.tolist() == keys)
