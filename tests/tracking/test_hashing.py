from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.message_id import MessageId
from penstock.tracking.hashing import (
    HASH_VERSION,
    HASHES_MAX,
    IndexMaker,
    columns,
    index_columns,
    index_matrix,
    mixed,
    mixed_columns,
    subscriber_key,
)

U64 = 2**64 - 1
halves = st.integers(0, U64)
keys = st.lists(st.tuples(halves, halves), min_size=1, max_size=30)

# Filters of years depend on these: if one changes, HASH_VERSION must.
GOLDEN = [
    (0x0, 0x0, 0x3940CDE349565DD4, 0xD5E134D4EE018CBE, (14656, 22648, 49414, 29418, 28197), (223, 345, 754)),
    (0x1, 0x0, 0xCBFB804BC27DDDAA, 0xB1F94071A3BCCC7F, (52219, 16498, 30567, 28890, 11467), (796, 251, 466)),
    (0x0, 0x1, 0xDEF523799817669A, 0xD7EC86CD4EEFDE5F, (57077, 20217, 22292, 63303, 12177), (870, 308, 340)),
    (
        0x700000003,
        0x18BCFE568000005,
        0x7BC33F3F99A92153,
        0xB65807F755F70E96,
        (31683, 52164, 46446, 14530, 21950),
        (483, 795, 708),
    ),
    (U64, U64, 0x160759B210FA929B, 0x435B659A4581EFCA, (5639, 27229, 53165, 17912, 52542), (86, 415, 811)),
]


def by_the_definition(high: int, low: int, m: int, k: int) -> tuple[int, ...]:
    """The docstring's definition, step by step."""

    def fmix64(value: int) -> int:
        value ^= value >> 33
        value = value * 0xFF51AFD7ED558CCD & U64
        value ^= value >> 33
        value = value * 0xC4CEB9FE1A85EC53 & U64
        return value ^ value >> 33

    a = (high + low + 0x9E3779B97F4A7C15) & U64
    b = fmix64((a + low) & U64)
    a = fmix64(a)
    h1, h2 = (a + b) & U64, (a + 2 * b) & U64
    h3 = (h1 << 32 | h1 >> 32) & U64
    made = [(h1 + i * h2 + i * (i + 1) // 2 * h3) & U64 for i in range(k)]
    return tuple((g >> 32) * m >> 32 for g in made)


def as_columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([high for high, _ in pairs], dtype=np.uint64), np.array([low for _, low in pairs], dtype=np.uint64)


def test_version_1_is_what_the_golden_vectors_are_of() -> None:
    assert HASH_VERSION == 1


@pytest.mark.parametrize(("high", "low", "h1", "h2", "in_64k", "in_1000"), GOLDEN)
def test_golden_vectors(
    high: int, low: int, h1: int, h2: int, in_64k: tuple[int, ...], in_1000: tuple[int, ...]
) -> None:
    assert mixed(high, low) == (h1, h2)
    assert IndexMaker(65_536, 5).indices(high, low) == in_64k
    assert IndexMaker(1_000, 3).indices(high, low) == in_1000


def test_golden_keys_of_subscribers() -> None:
    assert subscriber_key("") == 0xBC54D47789D7C87C
    assert subscriber_key("alice") == 0x8FB9031FA6A6F7B9
    assert subscriber_key("é") == 0x8FC031E4500F6093


@given(pairs=keys, m=st.sampled_from([8, 1_000, 65_536, 1_048_576, 2**31]), k=st.integers(1, HASHES_MAX))
def test_one_key_a_batch_and_the_definition_agree(pairs: list[tuple[int, int]], m: int, k: int) -> None:
    high, low = as_columns(pairs)
    expected = [by_the_definition(*pair, m, k) for pair in pairs]
    assert [IndexMaker(m, k).indices(*pair) for pair in pairs] == expected
    assert list(zip(*(column.tolist() for column in index_columns(high, low, m, k)), strict=True)) == expected
    assert list(map(tuple, index_matrix(high, low, m, k).T.tolist())) == expected
    assert list(zip(*(column.tolist() for column in mixed_columns(high, low)), strict=True)) == [
        mixed(*pair) for pair in pairs
    ]


def test_a_batch_leaves_its_input_alone() -> None:
    high, low = as_columns([(1, 2), (3, 4)])
    list(index_columns(high, low, 1_000, 3))
    index_matrix(high, low, 1_000, 3)
    assert (high.tolist(), low.tolist()) == ([1, 3], [2, 4])


def test_identifiers_become_their_halves() -> None:
    ids = [MessageId(1, 2, 3, 4), MessageId(2**32 - 1, 5, 2**48 - 1, 65_535)]
    high, low = columns(b"".join(each.to_bytes() for each in ids))
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == [each.halves() for each in ids]
    assert high.dtype == low.dtype == np.uint64


def test_indices_are_spread_evenly_over_regular_ids() -> None:
    # 200,000 indices of ids that differ in few bits, in 100 places: the chi-square of 99 degrees stays below 160.
    low = np.arange(20_000, dtype=np.uint64) << np.uint64(16)
    high = np.full(20_000, 7 << 32 | 1, dtype=np.uint64)
    for column in index_columns(high, low, 100, 10):
        counts = np.bincount(column.astype(np.int64), minlength=100)
        assert ((counts - 200) ** 2 / 200).sum() < 160
