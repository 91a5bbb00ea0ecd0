from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.exact import ExactRecords, exact_shape
from penstock.tracking.hashing import columns
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.records import DamagedRecordError
from penstock.tracking.sizing import FilterShape
from penstock.tracking.spans import TimeIndex
from penstock.tracking.stored import (
    HEADER_BYTES_MAX,
    FilterHeader,
    StoredFilter,
    decode_filter,
    decode_header,
    merged,
)

KEY = HistoryKey(Phase.ROUTE, 7)
SHAPE = FilterShape(256, 20, 3)


def stored(*numbers: int, range_: tuple[int, int] | None = (5, 9), filter_id: int = 1_000) -> StoredFilter:
    made = BloomFilter(SHAPE)
    for number in numbers:
        made.add(number, number)
    header = FilterHeader(
        key=KEY,
        filter_id=filter_id,
        generation=2,
        is_open=True,
        kind="bloom",
        shape=SHAPE,
        count=made.count,
        opened_ms=6,
        added_ms=8,
        index=TimeIndex(range_, [(1, 1), (3, 4)]),
    )
    return StoredFilter(header, made.to_bytes())


def fields(header: FilterHeader) -> list[object]:
    values = [getattr(header, name) for name in FilterHeader.__dataclass_fields__ if name != "index"]
    return [*values, header.index.range, header.index.singletons]


@pytest.mark.parametrize("range_", [(5, 9), None])
def test_a_filter_is_read_back(range_: tuple[int, int] | None) -> None:
    before = stored(1, 2, range_=range_)
    after = decode_filter(before.encode())
    assert fields(after.header) == fields(before.header)
    assert after.body == before.body
    assert after.bloom().contains(2, 2)
    assert after.header.name == "route/7#00000000000003e8"


def test_exact_records_are_read_back() -> None:
    shape = exact_shape(10_000, has_subscribers=True)
    records = ExactRecords(shape)
    high, low = columns(bytes(range(32)))
    records.add_columns(high, low, high)
    header = replace(stored().header, kind="exact", shape=shape, count=2, is_open=False)
    after = decode_filter(StoredFilter(header, records.to_bytes()).encode())
    assert len(after.body) == 48
    assert isinstance(after.container(), ExactRecords)
    assert after.exact().contains(0, int(low[0]))


def test_a_header_is_read_from_the_beginning() -> None:
    value = stored(1).encode()
    assert fields(decode_header(value[: len(value) - 30])) == fields(stored(1).header)
    many = [(each * 10, each * 10) for each in range(256)]
    longest = replace(
        stored(1).header, key=HistoryKey(Phase.DELIVER, 2**32 - 1, "x" * 100), index=TimeIndex(None, many)
    )
    assert decode_header(StoredFilter(longest, bytes(32)).encode()[:HEADER_BYTES_MAX]).index.singletons == tuple(many)


def test_the_framing_is_small() -> None:
    assert len(stored(1).encode()) - SHAPE.size_bytes <= 164


@given(data=st.data())
def test_missing_and_flipped_bits_are_noticed(data: st.DataObject) -> None:
    value = stored(1, 2, 3).encode()
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    bit = data.draw(st.integers(0, 8 * len(value) - 1))
    flipped = bytearray(value)
    flipped[bit // 8] ^= 1 << bit % 8
    for damaged in (cut, bytes(flipped), value + b"x"):
        with pytest.raises(DamagedRecordError):
            decode_filter(damaged)


@given(value=st.binary(max_size=200))
def test_any_bytes_are_refused_without_a_fault(value: bytes) -> None:
    with pytest.raises(DamagedRecordError):
        decode_filter(b"PTH\x01" + value)


def test_partly_full_filters_are_merged() -> None:
    one, other = stored(1, 2, filter_id=5), stored(3, range_=(7, 30), filter_id=6)
    united = merged(one, other, singletons_max=4)
    assert united.header.count == 3
    assert (united.header.filter_id, united.header.generation) == (5, 3)
    assert not united.header.is_open
    assert (united.header.index.range, united.header.index.singletons) == ((5, 30), ((1, 1), (3, 4)))
    assert all(united.bloom().contains(each, each) for each in (1, 2, 3))
    assert fields(decode_filter(united.encode()).header) == fields(united.header)


def test_filters_that_are_too_full_or_of_other_histories_are_not_merged() -> None:
    with pytest.raises(MisuseError, match="over the capacity 20"):
        merged(stored(*range(15)), stored(*range(6)), singletons_max=4)
    other = stored(1)
    with pytest.raises(MisuseError, match="are not of one history"):
        merged(stored(1), replace(other, header=replace(other.header, key=KEY.late)), singletons_max=4)
