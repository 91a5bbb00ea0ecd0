"""Filters as tracking stores them, for whoever keeps them."""

from __future__ import annotations

from penstock.broker.durable import KeepRecord
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import TimeIndex
from penstock.tracking.stored import FilterHeader, StoredFilter


def filter_record(number: int, *, is_open: bool = False, generation: int = 1, size_bytes: int = 8_192) -> KeepRecord:
    """A record of so many bytes and a few more, in which the number and the generation can be found again."""
    header = FilterHeader(
        key=HistoryKey(Phase.ROUTE, 3),
        filter_id=number,
        generation=generation,
        is_open=is_open,
        kind="bloom",
        shape=FilterShape(8 * size_bytes, 2_500, 16),
        count=7,
        opened_ms=number,
        added_ms=number + 5,
        index=TimeIndex((number, number + 5), [(0, 0)]),
    )
    body = bytes([number % 256, generation % 256]) * (size_bytes // 2)
    return KeepRecord(f"filter/{header.name}", StoredFilter(header, body).encode())


def value_of(record: KeepRecord) -> bytes:
    assert record.value is not None
    return record.value
