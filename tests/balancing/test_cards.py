"""Report cards as the log shows them."""

from __future__ import annotations

from penstock.balancing.cards import ReportCard


def test_a_card_is_readable() -> None:
    card = ReportCard("a = 1", 3, -0.01234, is_covered=True, rate_reduced_msg_s=0.5, output_bytes_s=99.6)
    assert card.fields() == {
        "interest": "a = 1",
        "subscribers": 3,
        "difference": "-0.0123",
        "covered": "yes",
        "reduces_msg_s": "0.500",
        "output_bytes_s": 100,
    }
