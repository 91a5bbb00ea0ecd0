"""The limits of a link."""

from __future__ import annotations

import pytest

from penstock.lab.frame.errors import ParameterError
from penstock.lab.links.limits import DIRECTIONS, LinkLimits


def test_directions_have_rates_and_bursts_of_their_own() -> None:
    limits = LinkLimits(there_bytes_s=60_000.0, back_bytes_s=1_000.0)
    assert [limits.rate(each) for each in DIRECTIONS] == [60_000.0, 1_000.0]
    assert [limits.burst_bytes(each) for each in DIRECTIONS] == [6_000, 2_048]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("there_bytes_s", -1.0),
        ("back_bytes_s", float("inf")),
        ("delay_ms", float("nan")),
        ("buffer_bytes", 0),
        ("buffer_bytes", 2**31),
    ],
)
def test_what_no_link_can_have_is_refused(name: str, value: float) -> None:
    with pytest.raises(ParameterError, match=f"{name} of a link is"):
        LinkLimits(**{name: value})  # type: ignore[arg-type]
