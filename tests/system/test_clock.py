"""The clock of a live broker."""

from __future__ import annotations

import time

from penstock.system.clock import Clock


def test_it_starts_at_wall_time() -> None:
    before_ms = time.time_ns() // 1_000_000
    clock = Clock()
    assert before_ms - 1 <= clock.started_ms <= time.time_ns() // 1_000_000 + 1


def test_it_is_an_integer_that_never_goes_back() -> None:
    clock = Clock()
    read = [clock.now_ms() for _ in range(1_000)]
    assert read == sorted(read)
    assert all(type(each) is int for each in read)
    assert clock.started_ms <= read[0]
