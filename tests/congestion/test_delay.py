from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion.delay import QueryDelay


def test_the_first_query_is_not_late() -> None:
    assert QueryDelay().on_query(1_000, now_ms=9_000) == 0


def test_late_is_above_the_fastest_whatever_the_clocks_say() -> None:
    delay = QueryDelay()
    # The sender's clock is an hour ahead.
    assert delay.on_query(3_601_000, now_ms=1_040) == 0
    assert delay.on_query(3_602_000, now_ms=2_340) == 300
    assert delay.on_query(3_603_000, now_ms=3_010) == 0
    assert delay.on_query(3_604_000, now_ms=4_340) == 330


def test_the_fastest_is_forgotten_after_two_spans_since_clocks_drift() -> None:
    delay = QueryDelay()
    delay.on_query(0, now_ms=0)
    late = [delay.on_query(at_ms, now_ms=at_ms + 500) for at_ms in range(1_000, 180_000, 1_000)]
    assert late[:60] == [500] * 60
    assert late[-50:] == [0] * 50


def test_a_clock_that_was_set_back_starts_a_span_and_leaves_nothing_late() -> None:
    delay = QueryDelay()
    delay.on_query(100_000, now_ms=100_010)
    assert delay.on_query(101_000, now_ms=61_010) == 0
    assert delay.on_query(102_000, now_ms=62_310) == 300


@given(st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 10_000)), min_size=1, max_size=200))
def test_nothing_comes_before_it_can(steps: list[tuple[int, int]]) -> None:
    delay, at_ms = QueryDelay(), 0
    for step_ms, extra_ms in steps:
        at_ms += step_ms
        assert 0 <= delay.on_query(at_ms, now_ms=at_ms + extra_ms) <= 10_000
