from __future__ import annotations

import pytest

from client.moving import welcome
from penstock.client.identifying import Identifying
from penstock.model.errors import LimitError
from penstock.model.message import Message


def test_identifiers_have_the_number_and_the_clock_of_the_broker_and_ascend() -> None:
    identifying = Identifying()
    identifying.on_welcome(welcome("b"), skew_ms=500)
    ids = [identifying.identify(Message({}), wall_ms=1_000)[0] for _ in range(2)]
    assert [(each.publisher, each.broker, each.timestamp_ms) for each in ids] == [(11, 2, 1_500)] * 2
    identifying.on_welcome(welcome("b"), skew_ms=-900)
    assert identifying.identify(Message({}), wall_ms=1_000)[0] > max(ids)


def test_a_message_that_no_frame_can_carry_is_refused() -> None:
    identifying = Identifying()
    identifying.on_welcome(welcome("b"), skew_ms=0)
    with pytest.raises(LimitError):
        identifying.identify(Message({f"a{number}": "x" * 65_536 for number in range(20)}), wall_ms=0)
