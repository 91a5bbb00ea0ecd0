from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion.delay import QueryDelay


def late(delay: QueryDelay, sent_ms: int | None, now_ms: int) -> int:
    return delay.on_query(sent_ms, now_ms=now_ms)


def test_the_first_query_is_not_late() -> None:
    assert late(QueryDelay(), 1_000, 9_000) == 0


def test_late_is_above_the_fastest_whatever_the_clocks_say() -> None:
    delay = QueryDelay()
    # The sender's clock is an hour ahead.
    assert late(delay, 3_601_000, 1_040) == 0
    assert late(delay, 3_602_000, 2_340) == 300
    assert late(delay, 3_603_000, 3_010) == 0
    assert late(delay, 3_604_000, 4_340) == 330


def test_the_fastest_is_forgotten_after_two_spans_since_clocks_drift() -> None:
    delay = QueryDelay()
    late(delay, 0, 0)
    found = [late(delay, at_ms, at_ms + 500) for at_ms in range(1_000, 180_000, 1_000)]
    assert found[:60] == [500] * 60
    assert found[-50:] == [0] * 50


def test_a_clock_that_was_set_back_starts_a_span_and_leaves_nothing_late() -> None:
    delay = QueryDelay()
    late(delay, 100_000, 100_010)
    assert late(delay, 101_000, 61_010) == 0
    assert late(delay, 102_000, 62_310) == 300


def test_nothing_is_late_while_the_senders_clock_is_behind_its_stream() -> None:
    delay = QueryDelay()
    late(delay, 100_000, 100_010)
    assert [late(delay, None, now_ms) for now_ms in (101_010, 102_010, 103_500)] == [0, 0, 0]
    assert [late(delay, 105_000, 105_510), late(delay, 106_000, 106_620)] == [0, 110], "of what is known since"


def test_nothing_is_late_after_a_clock_was_set_forward() -> None:
    delay = QueryDelay()
    late(delay, 1_000, 1_010)
    assert late(delay, 2_000, 602_010) == 0
    assert late(delay, 3_000, 603_310) == 300
    assert late(delay, 4_000, 614_010) == 10_000
    assert late(delay, 5_000, 615_011) == 0


@given(st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 10_000)), min_size=1, max_size=200))
def test_nothing_comes_before_it_can(steps: list[tuple[int, int]]) -> None:
    delay, at_ms = QueryDelay(), 0
    for step_ms, extra_ms in steps:
        at_ms += step_ms
        assert 0 <= late(delay, at_ms, at_ms + extra_ms) <= 10_000
