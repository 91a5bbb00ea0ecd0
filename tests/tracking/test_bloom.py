from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.tracking.accuracy import message_columns
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.sizing import FilterShape

halves = st.integers(0, 2**64 - 1)
keys = st.lists(st.tuples(halves, halves), max_size=40)
shapes = st.builds(FilterShape, st.sampled_from([8, 1_000, 65_536]), st.just(100), st.sampled_from([1, 2, 3, 16]))


def as_columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([high for high, _ in pairs], dtype=np.uint64), np.array([low for _, low in pairs], dtype=np.uint64)


@given(shape=shapes, singly=keys, together=keys)
def test_what_was_added_is_never_denied(
    shape: FilterShape, singly: list[tuple[int, int]], together: list[tuple[int, int]]
) -> None:
    made = BloomFilter(shape)
    for pair in singly:
        made.add(*pair)
    made.add_columns(*as_columns(together))
    assert all(made.contains(*pair) for pair in singly + together)
    assert made.contains_columns(*as_columns(singly + together)).all()
    assert made.count == len(singly) + len(together)


@given(shape=shapes, pairs=keys)
def test_both_ways_to_add_set_the_same_bits(shape: FilterShape, pairs: list[tuple[int, int]]) -> None:
    one, many = BloomFilter(shape), BloomFilter(shape)
    for pair in pairs:
        one.add(*pair)
    many.add_columns(*as_columns(pairs))
    assert one.to_bytes() == many.to_bytes()


@given(shape=shapes, mine=keys, theirs=keys)
def test_a_union_is_the_filter_of_both(
    shape: FilterShape, mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    one, other, both = BloomFilter(shape), BloomFilter(shape), BloomFilter(shape)
    one.add_columns(*as_columns(mine))
    other.add_columns(*as_columns(theirs))
    both.add_columns(*as_columns(mine + theirs))
    united = one.union(other)
    assert (united.to_bytes(), united.count) == (both.to_bytes(), both.count)


@pytest.mark.parametrize("count", [10, 3_000])
def test_few_and_many_keys_set_the_same_bits_in_a_large_filter(count: int) -> None:
    # Few keys set their bits one by one, many by a pass over the filter.
    high, low = message_columns(count, publisher=1, start_ms=1_000)
    one, many = BloomFilter(FilterShape(1 << 20, 5_000, 4)), BloomFilter(FilterShape(1 << 20, 5_000, 4))
    many.add_columns(high, low)
    for pair in zip(high.tolist(), low.tolist(), strict=True):
        one.add(*pair)
    assert one.to_bytes() == many.to_bytes()
    assert one.bits_set() == many.bits_set() > 0


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_a_large_question_has_the_same_answer_as_one_by_one(k: int) -> None:
    made = BloomFilter(FilterShape(4_096, 600, k))
    made.add_columns(*message_columns(600, publisher=1, start_ms=1_000))
    high, low = message_columns(9_000, publisher=1, start_ms=1_050)
    found = made.contains_columns(high, low)
    assert found.tolist() == [made.contains(*pair) for pair in zip(high.tolist(), low.tolist(), strict=True)]
    assert 0 < found.sum() < 9_000


def test_a_filter_survives_as_bytes() -> None:
    made = BloomFilter(FilterShape(1_024, 10, 3))
    made.add(1, 2)
    again = BloomFilter(made.shape, made.to_bytes(), made.count)
    assert (again.contains(1, 2), again.contains(2, 1), again.count) == (True, False, 1)
    again.add(2, 1)
    assert not made.contains(2, 1)


def test_an_empty_filter_claims_nothing() -> None:
    made = BloomFilter(FilterShape(1_024, 10, 3))
    assert not made.contains(0, 0)
    assert not made.contains_columns(*as_columns([(0, 0)])).any()
    assert (made.fpp, made.bits_set()) == (0, 0)


def test_fpp_follows_the_count() -> None:
    made = BloomFilter(FilterShape(65_536, 2_521, 16))
    made.add_columns(*message_columns(2_521, publisher=1, start_ms=1_000))
    assert made.fpp == made.shape.fpp
    assert made.bits_set() / 65_536 == pytest.approx(0.4597, abs=0.01)


def test_filters_of_other_shapes_are_refused() -> None:
    with pytest.raises(MisuseError, match="cannot be united"):
        BloomFilter(FilterShape(64, 1, 2)).union(BloomFilter(FilterShape(64, 1, 3)))
    with pytest.raises(MisuseError, match="a filter of 64 bits is not 7 bytes"):
        BloomFilter(FilterShape(64, 1, 2), bytes(7))
