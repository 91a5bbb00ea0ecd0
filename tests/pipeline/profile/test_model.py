"""A profile of five messages, counted by hand."""

from __future__ import annotations

import pytest

from penstock.pipeline.profile.model import BrokerLoad
from pipeline.profile.profiles import SIZE, profile_of

MESSAGES = [{"n": number} for number in range(5)]
WANTED = [("b1", "n < 4"), ("b1", "n < 2"), ("b1", "n = 4"), ("b2", "n > 2"), ("b2", "n > 2"), ("b2", "n > 9")]
FOUND = profile_of(WANTED, MESSAGES, rate=10.0)


def test_rates_are_shares_of_the_rate_of_all() -> None:
    assert (FOUND.window.seconds, FOUND.window.rate) == (1.0, 5.0)
    rates = {text: FOUND.rate(number) for number, text in enumerate(FOUND.selectors)}
    assert rates == {"n < 4": 4.0, "n < 2": 2.0, "n = 4": 1.0, "n > 2": 2.0, "n > 9": 0.0}
    assert FOUND.bytes_rate(0) == 4.0 * SIZE


def test_a_broker_gets_what_any_wants_and_sends_what_all_want() -> None:
    assert FOUND.brokers == [
        BrokerLoad("b1", 3, 2, input_msg_s=5.0, output_msg_s=7.0, output_bytes_s=7.0 * SIZE),
        BrokerLoad("b2", 3, 1, input_msg_s=2.0, output_msg_s=4.0, output_bytes_s=4.0 * SIZE),
    ]
    assert FOUND.covering_of("b1") == {"n < 4", "n = 4"}


def test_alone_is_what_nobody_else_there_wants() -> None:
    assert FOUND.alone_rates("b1") == pytest.approx({0: 2.0, 1: 0.0, 2: 1.0})
    # Two want the same: if one goes, nothing changes.
    assert FOUND.alone_rates("b2") == pytest.approx({3: 0.0, 4: 0.0})


def test_what_is_in_common_is_told_with_the_most_first() -> None:
    assert FOUND.common[0] == [(1, 2), (3, 1)]
    assert 4 not in FOUND.common
