from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import CongestionSettings, Shaper

PAPER = CongestionSettings.paper()


def shaper(rate: float | None) -> Shaper:
    made = Shaper(PAPER, now_ms=0)
    made.set_rate(rate, now_ms=0)
    return made


def passed(shaper: Shaper, wanted: int, *, every_ms: int, until_ms: int) -> int:
    return sum(shaper.grant(wanted, now_ms=now_ms) for now_ms in range(0, until_ms + 1, every_ms))


def test_without_a_rate_everything_passes() -> None:
    unlimited = shaper(None)
    assert unlimited.grant(1_000_000, now_ms=0) == 1_000_000
    assert unlimited.next_ms(now_ms=5) == 5


@pytest.mark.parametrize("rate", [0.5, 1.0, 43.0, 47.3, 125.0, 1000.0, 20_000.0])
@pytest.mark.parametrize("every_ms", [1, 7, 10, 20])
def test_the_rate_is_kept_however_often_the_broker_looks(rate: float, every_ms: int) -> None:
    got = passed(shaper(rate), 10**6, every_ms=every_ms, until_ms=20_000)
    assert got == pytest.approx(20 * rate, rel=0.02, abs=1.5)


def test_half_a_message_per_second() -> None:
    slow = shaper(0.5)
    assert slow.grant(1, now_ms=1_999) == 0
    assert slow.next_ms(now_ms=1_999) == 2_000
    assert slow.grant(5, now_ms=2_000) == 1
    assert slow.next_ms(now_ms=2_000) == 4_000
    assert slow.grant(1, now_ms=3_999) == 0
    assert slow.grant(1, now_ms=4_000) == 1


def test_no_burst_follows_a_pause() -> None:
    shaped = shaper(100.0)
    # One message, and what would come in 20 ms.
    assert shaped.grant(1_000, now_ms=60_000) == 3
    assert shaped.grant(1_000, now_ms=60_000) == 0
    assert shaped.next_ms(now_ms=60_000) == 60_010


def test_nothing_is_saved_up_while_there_is_no_limit() -> None:
    shaped = shaper(None)
    shaped.grant(5, now_ms=10_000)
    shaped.set_rate(10.0, now_ms=10_000)
    assert shaped.grant(5, now_ms=10_000) == 0
    assert shaped.next_ms(now_ms=10_000) == 10_100


def test_a_cut_takes_away_what_was_saved_up() -> None:
    shaped = shaper(1000.0)
    shaped.next_ms(now_ms=1_000)
    shaped.set_rate(10.0, now_ms=1_000)
    shaped.check_invariants()
    assert shaped.grant(100, now_ms=1_000) == 1


def test_setting_the_same_rate_again_changes_nothing() -> None:
    shaped = shaper(10.0)
    for now_ms in range(0, 100, 5):
        shaped.set_rate(10.0, now_ms=now_ms)
    assert shaped.grant(1, now_ms=100) == 1


def test_a_clock_that_was_set_back_gives_nothing_away() -> None:
    shaped = shaper(100.0)
    assert shaped.grant(100, now_ms=1_000) == 3
    assert shaped.grant(100, now_ms=500) == 0
    assert shaped.grant(100, now_ms=510) == 1


@given(
    st.floats(0.01, 1e5),
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 1_000)), min_size=1, max_size=50),
)
def test_never_more_than_the_rate_and_one_burst(rate: float, steps: list[tuple[int, int]]) -> None:
    shaped, now_ms, granted = shaper(rate), 0, 0
    for wait_ms, wanted in steps:
        now_ms += wait_ms
        got = shaped.grant(wanted, now_ms=now_ms)
        assert 0 <= got <= wanted
        granted += got
        shaped.check_invariants()
        assert granted <= rate * now_ms / 1000 + 1e-6
        if got < wanted:
            due_ms = shaped.next_ms(now_ms=now_ms)
            assert due_ms > now_ms
            now_ms = due_ms
            assert shaped.grant(1, now_ms=due_ms) == 1
            granted += 1
