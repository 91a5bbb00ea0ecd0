"""Which values of an attribute are the same key."""

from __future__ import annotations

import math

import pytest

from penstock.model.keys import key_of
from penstock.model.values import Scalar


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), ("a", "a"), (math.nan, -math.nan), (True, True), (0, -0.0)])
def test_equal_values_are_one_key(one: Scalar, other: Scalar) -> None:
    assert key_of(one) == key_of(other)
    assert hash(key_of(one)) == hash(key_of(other))


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (1, "1"), (math.nan, "nan"), (math.nan, 0), ("a", "A")]
)
def test_different_values_are_different_keys(one: Scalar, other: Scalar) -> None:
    assert key_of(one) != key_of(other)
