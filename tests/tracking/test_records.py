from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tracking.records import (
    AliasRecord,
    AttachmentRecord,
    DamagedRecordError,
    GapRecord,
    Keep,
    MarkRecord,
    Record,
    SinceRecord,
    decode_record,
    encode_record,
)

RECORDS: list[Record] = [
    MarkRecord(1_000, 900),
    MarkRecord(1_000, 900, is_stopped=True),
    GapRecord(((1, 5), (9, 9)), "crash"),
    GapRecord(((1, 5),), "overload", "route/7"),
    AliasRecord(bytes(range(16)), "b2", 2, 77),
    SinceRecord(7),
    AttachmentRecord(1, "alice", 5, None, {"p": 65_536}, {}),
    AttachmentRecord(1, "alice", 5, 9, {"p": 65_536}, {"p": 131_072}),
]


@pytest.mark.parametrize("record", RECORDS)
def test_records_are_read_back(record: Record) -> None:
    assert decode_record(encode_record(record), type(record)) == record  # type: ignore[type-var]


@given(record=st.sampled_from(RECORDS), data=st.data())
def test_missing_and_flipped_bits_are_noticed(record: Record, data: st.DataObject) -> None:
    value = encode_record(record)
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    flipped = bytearray(value)
    flipped[bit // 8] ^= 1 << bit % 8
    for damaged in (cut, bytes(flipped)):
        with pytest.raises(DamagedRecordError):
            decode_record(damaged, type(record))  # type: ignore[type-var]


def test_a_record_of_another_kind_is_refused() -> None:
    with pytest.raises(DamagedRecordError, match="so it is no GapRecord"):
        decode_record(encode_record(MarkRecord(1, 1)), GapRecord)


def test_a_gap_concerns_its_history_and_its_timestamps() -> None:
    everywhere, one = GapRecord(((10, 20), (30, 30)), "crash"), GapRecord(((10, 20),), "overload", "route/7")
    assert everywhere.concerns("route/7", 10)
    assert everywhere.concerns("publish/1", 30)
    assert not everywhere.concerns("route/7", 25)
    assert one.concerns("route/7", 20)
    assert not one.concerns("route/8", 20)


def test_a_value_counts_with_its_name() -> None:
    assert Keep("mark", b"12345").size_bytes == 9
    assert Keep("mark", None).size_bytes == 4
