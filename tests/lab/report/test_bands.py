"""Bands say whether a figure lies within, also relative to another figure of the run, and read well."""

from __future__ import annotations

import pytest

from penstock.lab.report.bands import Band, at_least, at_most, between, exactly


@pytest.mark.parametrize(
    ("band", "value", "expected"),
    [
        (at_most(2), 2.0, True),
        (at_most(2), 2.1, False),
        (at_least(2), 2.0, True),
        (at_least(2), 1.9, False),
        (between(1, 2), 0.9, False),
        (between(1, 2), 1.0, True),
        (between(1, 2), 2.1, False),
        (exactly(0), 0.0, True),
        (exactly(0), 1.0, False),
    ],
)
def test_limits_belong_to_the_band(band: Band, value: float, expected: bool) -> None:
    assert band.has(value, {}) is expected


def test_limits_may_be_multiples_of_another_figure() -> None:
    band = between(1.3, 2.5, of="slow")
    assert band.has(15.0, {"slow": 10.0}) is True
    assert band.has(26.0, {"slow": 10.0}) is False
    assert band.has(15.0, {}) is None


@pytest.mark.parametrize(
    ("band", "text"),
    [
        (at_most(0.05), "≤ 0.05"),
        (at_least(1000), "≥ 1,000"),
        (between(0.65, 1), "0.65 to 1"),
        (exactly(0), "0"),
        (at_most(1_048_576), "≤ 1,048,576"),
        (at_most(0.5, of="rate_limited"), "≤ 0.5 × rate_limited"),
    ],
)
def test_a_band_reads_well(band: Band, text: str) -> None:
    assert band.text == text


def test_a_band_has_limits_in_order() -> None:
    with pytest.raises(AssertionError):
        Band()
    with pytest.raises(AssertionError):
        Band(2, 1)
