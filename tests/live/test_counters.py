"""What a node counts."""

from __future__ import annotations

from penstock.live.counters import Counters


def test_counters_start_at_zero_and_are_shown_by_name() -> None:
    counters = Counters()
    assert set(counters.as_dict().values()) == {0}
    counters.bytes_in += 5
    assert counters.as_dict()["bytes_in"] == 5
