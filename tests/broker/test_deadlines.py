"""The earliest deadline is the lowest that is there."""

from __future__ import annotations

import pytest

from penstock.broker.deadlines import earliest


@pytest.mark.parametrize(
    ("deadlines", "expected"),
    [([], None), ([None, None], None), ([None, 7, None], 7), ([9, 3, None, 5], 3), ([0, 4], 0)],
)
def test_the_lowest_counts(deadlines: list[int | None], expected: int | None) -> None:
    assert earliest(deadlines) == expected
