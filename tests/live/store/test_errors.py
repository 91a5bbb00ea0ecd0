"""What is said about a bad store."""

from __future__ import annotations

from penstock.live.store.errors import CorruptRecordError, CorruptValueError
from penstock.model.tick import Tick, TickRange


def test_a_corrupt_record_is_named() -> None:
    error = CorruptRecordError("p", TickRange(Tick(5), Tick(9)), 3)
    assert str(error) == "pubend 'p': the stored record of ticks 5 to 9 (3 messages) is damaged"
    assert (error.pubend, error.ticks, error.message_count) == ("p", (5, 9), 3)


def test_a_corrupt_value_is_named() -> None:
    assert str(CorruptValueError("v")) == "the stored value 'v' is damaged"
