"""The effort of a condition grows with what has to be evaluated, and with the size of messages."""

from __future__ import annotations

import pytest

from penstock.selectors.effort import effort_of, effort_with
from penstock.selectors.text import parse


@pytest.mark.parametrize(
    ("text", "effort"),
    [
        ("TRUE", 1),
        ("x = 1", 1),
        ("x = 1 AND y = 2", 2),
        ("NOT (x = 1 OR y LIKE 'a%')", 2),
        ("x BETWEEN 1 AND 2", 2),
        ("x IN (1, 2, 3)", 1),
        ("x IS NULL", 1),
        ("x + 2 * y > -z", 4),
        (" OR ".join(f"x + {each} * x = 9" for each in range(700)), 2_100),
    ],
)
def test_every_operation_counts(text: str, effort: int) -> None:
    assert effort_of(parse(text)) == effort


def test_large_messages_count_more() -> None:
    assert effort_with(10, bytes(100)) == 10
    assert effort_with(10, bytes(64 * 1_024)) == 650
