"""Filters on their side give the answers that they give one by one."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.pipeline.trace.slices import BitSlice, Probe, transposed
from penstock.tracking.accuracy import message_columns
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.sizing import FilterShape

SHAPE = FilterShape(4_096, 300, 7)


def filled(count: int) -> list[BloomFilter]:
    filters = []
    for number in range(count):
        made = BloomFilter(SHAPE)
        made.add_columns(*message_columns(300, publisher=1, start_ms=1_000 + 40 * number))
        filters.append(made)
    return filters


@pytest.mark.parametrize(("count", "bits"), [(1, 8), (8, 8), (9, 16), (17, 32), (45, 64), (64, 64)])
def test_a_slice_claims_what_its_filters_claim(count: int, bits: int) -> None:
    filters = filled(count)
    made = BitSlice(SHAPE.m, SHAPE.k, [each.to_bytes() for each in filters])
    assert made.words.dtype.itemsize * 8 == bits
    high, low = message_columns(5_000, publisher=1, start_ms=900)
    probe = Probe(high, low, SHAPE.m)
    wanted = np.full(len(high), 2**count - 1, dtype=np.uint64)
    wanted[::3] &= np.uint64(0x5555555555555555)
    found = made.claims([probe.next() for _ in range(SHAPE.k)], wanted)
    expected = np.zeros(len(high), dtype=np.uint64)
    for place, each in enumerate(filters):
        expected |= each.contains_columns(high, low).astype(np.uint64) << np.uint64(place)
    assert np.array_equal(found, expected & wanted)
    assert np.array_equal(made.has_any(high, low, wanted), (expected & wanted) != 0)
    assert 0 < np.count_nonzero(expected) < len(high)


def test_few_looks_are_enough_for_filters_of_few_hashes() -> None:
    shape = FilterShape(512, 40, 2)
    one = BloomFilter(shape)
    one.add_columns(*message_columns(40, publisher=1, start_ms=0))
    high, low = message_columns(2_000, publisher=1, start_ms=0)
    made = BitSlice(shape.m, shape.k, [one.to_bytes()])
    wanted = np.ones(len(high), dtype=np.uint64)
    assert np.array_equal(made.has_any(high, low, wanted), one.contains_columns(high, low))


def test_bits_stand_where_their_filters_do() -> None:
    bodies = [bytes([1, 0]), bytes([0, 128]), bytes([255, 255])]
    assert transposed(bodies, 16).tolist() == [0b101, *[0b100] * 14, 0b110]
