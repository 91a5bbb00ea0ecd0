from __future__ import annotations

import pytest

from penstock.ajil.amounts import Unit, amount_text, parse_amount
from penstock.ajil.errors import AupError


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("600KB", 600_000),
        ("600 kBps", 600_000),
        ("1.5MB/s", 1_500_000),
        ("2MiB", 2 * 2**20),
        ("600000", 600_000),
        (".5k", 500),
        ("3g", 3e9),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, amount: float) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize("text", ["", "KB", "600 apples", "-5KB", "1e5", "6.0.0KB"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(AupError, match="is not an amount"):
        parse_amount(text)


def test_amounts_are_written_in_the_largest_unit_that_fits() -> None:
    assert amount_text(600_000, Unit.BYTES) == "600 KB/s"
    assert amount_text(2.5e6, Unit.BYTES) == "2.5 MB/s"
    assert amount_text(12, Unit.BYTES) == "12 B/s"
    assert amount_text(50, Unit.PACKETS) == "50 packets/s"


def test_units_have_words() -> None:
    assert [each.words for each in Unit] == ["bytes/s", "packets/s"]
