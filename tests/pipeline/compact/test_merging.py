"""Half-empty filters that follow each other become one; nothing that was in them is denied afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.pipeline.compact.merging import compacted
from penstock.pipeline.trace.stored import filters_of
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.sizing import FilterShape

SHAPE = FilterShape(4_096, 100, 7)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row(filter_id: int, keys: range, **more: Any) -> dict[str, Any]:
    """A filter with one key for each millisecond of a range."""
    made = BloomFilter(SHAPE)
    for key in keys:
        made.add(key, key << 16)
    plain = {
        "incarnation": 1,
        "sequence": filter_id,
        "history": "route/7",
        "phase": "route",
        "origin": 7,
        "part": "",
        "is_late": False,
        "filter_id": filter_id,
        "generation": 1,
        "is_open": False,
        "hash_version": 1,
        "m": SHAPE.m,
        "k": SHAPE.k,
        "n": SHAPE.n,
        "count": len(keys),
        "singletons": b"",
        "opened_at": EPOCH + timedelta(milliseconds=keys[0]),
        "added_at": EPOCH + timedelta(milliseconds=keys[-1]),
        "first_ms": keys[0],
        "last_ms": keys[-1],
        "bits": made.to_bytes(),
    }
    return {**plain, **more}


def claimed(rows: Any, key: int) -> bool:
    filters = filters_of([{**each, "broker": "b", "added_ms": 0} for each in rows], now_ms=0)
    return any(key in each.header.index and each.stored.bloom().contains(key, key << 16) for each in filters)


def test_what_fits_together_is_merged_and_nothing_is_lost() -> None:
    rows = [row(1, range(100, 130)), row(2, range(130, 170)), row(3, range(170, 200)), row(4, range(200, 290))]
    result = compacted(rows)
    assert (result.merged, result.superseded, len(result.rows)) == (2, 0, 2)
    assert [(each["filter_id"], each["count"], each["first_ms"], each["last_ms"]) for each in result.rows] == [
        (1, 100, 100, 199),
        (4, 90, 200, 289),
    ]
    assert all(each["count"] <= SHAPE.n for each in result.rows)
    assert all(claimed(result.rows, key) for key in range(100, 290))
    # No more is claimed than full filters may claim.
    foreign = [claimed(result.rows, key) for key in range(290, 400)]
    assert not any(foreign)


def test_older_generations_are_dropped() -> None:
    rows = [
        row(1, range(100, 110), generation=1, is_open=True),
        row(1, range(100, 130), generation=3, sequence=9),
        row(1, range(100, 120), generation=2, is_open=True),
    ]
    result = compacted(rows)
    assert (result.superseded, [each["generation"] for each in result.rows]) == (2, [3])


def test_a_merged_filter_is_newer_than_what_went_into_it() -> None:
    (made,) = compacted([row(1, range(100, 120), generation=4), row(2, range(120, 130), sequence=8)]).rows
    assert (made["generation"], made["sequence"], made["filter_id"]) == (5, 8, 1)
    # If a broker ships the first one again, the merged one counts.
    result = compacted([made, row(1, range(100, 120), generation=4, sequence=99)])
    assert (result.superseded, result.rows[0]["count"]) == (1, 30)


@pytest.mark.parametrize(
    "harm",
    [{"is_open": True}, {"hash_version": 9}, {"history": "route/8"}, {"m": 8_192}, {"bits": b"short"}],
)
def test_what_is_of_another_kind_stays_alone(harm: dict[str, Any]) -> None:
    result = compacted([row(1, range(100, 110)), row(2, range(110, 120), **harm)])
    assert (result.merged, len(result.rows), result.is_worth_it) == (0, 2, False)


def test_no_timestamp_has_more_filters_than_before() -> None:
    # Between 1 and 4 two others are to be asked already; a merged filter would be the third.
    rows = [
        row(1, range(100, 110)),
        row(2, range(101, 200), first_ms=101, last_ms=300),
        row(3, range(102, 201), first_ms=102, last_ms=300),
        row(4, range(250, 260)),
    ]
    assert compacted(rows).merged == 0


def test_singletons_are_united_as_far_as_there_is_room() -> None:
    import struct

    def spans(start: int) -> bytes:
        return b"".join(struct.pack(">qq", each, each) for each in range(start, start + 80, 2))

    few = [row(1, range(100, 110), singletons=spans(0)[:160]), row(2, range(110, 120), singletons=spans(20)[:160])]
    (made,) = compacted(few).rows
    assert len(made["singletons"]) == 320
    many = [row(1, range(100, 110), singletons=spans(0)), row(2, range(110, 120), singletons=spans(1_000))]
    assert compacted(many).merged == 0
