"""Durations as people write them."""

from __future__ import annotations

import pytest

from penstock.client.token.durations import duration_ms
from penstock.model.errors import MisuseError


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("10 min", 600_000),
        ("4 s", 4_000),
        ("4s", 4_000),
        (" 250 ms ", 250),
        ("1.5 h", 5_400_000),
        ("2 days", 172_800_000),
        ("1 Minute", 60_000),
        (4, 4_000),
        (0.25, 250),
    ],
)
def test_durations_are_read(value: str | float, ms: int) -> None:
    assert duration_ms(value) == ms


@pytest.mark.parametrize("value", ["", "4", "s", "4 parsecs", "-4 s", "4 s 5", "0 s", "500 days", 0, -1, float("nan")])
def test_what_is_no_duration_is_refused(value: str | float) -> None:
    with pytest.raises(MisuseError, match="every is"):
        duration_ms(value, "every")
