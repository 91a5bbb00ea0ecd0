from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion.meter import RateMeter


def steady(rate_ms: int = 10, until_ms: int = 5_000) -> RateMeter:
    meter = RateMeter(now_ms=0)
    for now_ms in range(0, until_ms, rate_ms):
        meter.count(1, now_ms=now_ms)
    return meter


def test_a_steady_rate_is_measured_exactly() -> None:
    assert steady().rate(until_ms=5_000, window_ms=1000) == 100
    assert steady(20).rate(until_ms=3_000, window_ms=1000) == 50


def test_the_past_is_remembered() -> None:
    meter = steady(until_ms=2_000)
    meter.count(10, now_ms=4_000)
    assert meter.rate(until_ms=2_000, window_ms=1000) == 100
    assert meter.rate(until_ms=2_500, window_ms=1000) == 50
    assert meter.rate(until_ms=4_000, window_ms=1000) == 0
    assert meter.rate(until_ms=4_100, window_ms=1000) == 10


def test_the_first_second_is_measured_over_what_there_was_of_it() -> None:
    meter = RateMeter(now_ms=10_000)
    assert meter.rate(until_ms=10_000, window_ms=1000) == 0
    meter.count(30, now_ms=10_050)
    assert meter.rate(until_ms=10_200, window_ms=1000) == 150


def test_nothing_was_published_before_it_began() -> None:
    meter = RateMeter(now_ms=10_000)
    meter.count(30, now_ms=10_050)
    assert meter.rate(until_ms=5_000, window_ms=1000) == 0


def test_a_clock_that_was_set_back_loses_no_messages() -> None:
    meter = RateMeter(now_ms=0)
    meter.count(5, now_ms=1_000)
    meter.count(5, now_ms=400)
    assert meter.rate(until_ms=1_100, window_ms=1000) == 10


def test_memory_is_bounded() -> None:
    meter = steady(100, until_ms=100_000)
    assert meter.rate(until_ms=100_000, window_ms=100_000) == pytest.approx(3)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 50)), max_size=40))
def test_every_message_counts_once(steps: list[tuple[int, int]]) -> None:
    meter, now_ms = RateMeter(now_ms=0), 0
    for wait_ms, messages in steps:
        now_ms += wait_ms
        meter.count(messages, now_ms=now_ms)
    until_ms = (now_ms // 100 + 1) * 100
    counted = meter.rate(until_ms=until_ms, window_ms=until_ms) * until_ms / 1000
    assert counted == pytest.approx(sum(messages for _, messages in steps))
