from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import CongestionSettings, NackControl, NackGroup
from penstock.model.tick import Tick, TickRange, tick_at

PAPER = CongestionSettings.paper()
LIMIT_MS = 10_000


def control(limit_ms: int = LIMIT_MS, **changes: Any) -> NackControl:
    return NackControl(CongestionSettings.paper(**changes), receive_window_ms=limit_ms)


def span(first_ms: int, last_ms: int) -> TickRange:
    return TickRange(tick_at(first_ms), Tick(tick_at(last_ms) - 1))


class Recovery:
    """A stream in recovery: NACK after NACK, each answered after a while."""

    def __init__(self, control: NackControl) -> None:
        self.control = control
        self.now_ms = self.at_ms = 0

    def answer(self, rtt_ms: int) -> bool:
        """One NACK and its answer."""
        asked = span(self.at_ms, self.at_ms + 100)
        self.at_ms += 100
        self.control.on_asked([asked], now_ms=self.now_ms)
        self.control.on_gaps([asked], now_ms=self.now_ms)
        self.now_ms += rtt_ms
        return self.control.on_gaps([], now_ms=self.now_ms)

    def measure(self, rtt_ms: int) -> int:
        """Until one measurement is complete: the first answer begins it, one round trip later it ends."""
        self.answer(rtt_ms)
        self.answer(rtt_ms)
        return self.control.window_ms


def test_the_window_starts_with_one_nack_and_the_first_measurement_opens_it() -> None:
    recovery = Recovery(control())
    assert recovery.control.window_ms == 100
    assert recovery.control.rate is None
    assert not recovery.answer(50)
    assert recovery.control.window_ms == 100
    assert recovery.answer(50)
    assert recovery.control.window_ms == 200
    assert recovery.control.rate == pytest.approx(100 / 50)


@pytest.mark.parametrize(
    ("rtt_ms", "window_ms"),
    [
        (100, 300),  # 200 / 100 = 2.0, twice the 1.0 before
        (181, 300),  # 1.105
        (182, 200),  # 1.099
        (200, 200),  # 1.0
        (285, 200),  # 0.702
        (286, 100),  # 0.699
        (900, 100),
    ],
)
def test_ten_percent_open_it_and_thirty_narrow_it(rtt_ms: int, window_ms: int) -> None:
    recovery = Recovery(control())
    assert recovery.measure(100) == 200
    assert recovery.measure(rtt_ms) == window_ms


def test_rates_are_compared_with_that_of_the_last_change() -> None:
    recovery = Recovery(control())
    recovery.measure(100)
    # 1.0 before; 200 / 190 and 200 / 185 are less than a tenth more, one after the other, too.
    assert recovery.measure(190) == 200
    assert recovery.measure(185) == 200
    assert recovery.control.rate == pytest.approx(1.0)
    assert recovery.measure(181) == 300
    assert recovery.control.rate == pytest.approx(200 / 181)


def test_with_a_steady_round_trip_it_opens_until_one_more_is_less_than_a_tenth() -> None:
    recovery = Recovery(control())
    for _ in range(50):
        recovery.measure(100)
    # 1,100 gives a tenth more than 1,000, so it opens once more; 1,200 gives less than that.
    assert recovery.control.window_ms == 1_200


def test_it_is_bounded_by_the_receive_window() -> None:
    recovery = Recovery(control(450))
    for _ in range(20):
        recovery.measure(100)
        recovery.control.check_invariants()
    assert recovery.control.window_ms == 450


def test_it_never_gets_smaller_than_one_nack() -> None:
    recovery = Recovery(control(nack_stuck_max=1_000))
    for rtt_ms in (100, 1_000, 2_000, 4_000, 8_000):
        recovery.measure(rtt_ms)
    assert recovery.control.window_ms == 100


def test_a_window_that_is_stuck_at_its_smallest_starts_anew() -> None:
    recovery = Recovery(control(nack_stuck_max=3))
    recovery.measure(100)
    assert recovery.measure(1_000) == 100
    assert [recovery.measure(500) for _ in range(5)] == [100, 100, 100, 200, 300]


def test_a_round_trip_is_averaged_over_one() -> None:
    sdcc = control()
    asked = [span(0, 100), span(100, 200), span(200, 300)]
    sdcc.on_asked(asked, now_ms=0)
    assert not sdcc.on_gaps(asked[1:], now_ms=100)
    assert not sdcc.on_gaps(asked[2:], now_ms=150)
    # The mean is 125 ms by now, and 100 ms are over since the first.
    assert not sdcc.on_gaps(asked[2:], now_ms=200)
    assert sdcc.on_gaps(asked[2:], now_ms=225)
    assert sdcc.rate == pytest.approx(100 / 125)


def test_only_nacks_under_the_present_window_count() -> None:
    sdcc = control()
    first, second, late = span(0, 100), span(100, 200), span(200, 300)
    sdcc.on_asked([first], now_ms=0)
    sdcc.on_asked([late], now_ms=10)
    sdcc.on_gaps([late], now_ms=100)
    assert sdcc.on_gaps([late], now_ms=200)
    assert sdcc.window_ms == 200
    sdcc.on_asked([second], now_ms=200)
    # This one was sent before the window opened: its answer after 4 s says nothing.
    sdcc.on_gaps([second], now_ms=4_000)
    sdcc.on_gaps([], now_ms=4_000)
    sdcc.on_gaps([], now_ms=9_000)
    assert sdcc.rate == pytest.approx(200 / 3_800)


def test_a_nack_that_is_sent_again_counts_from_the_first_time() -> None:
    sdcc = control()
    asked = span(0, 100)
    sdcc.on_asked([asked], now_ms=0)
    sdcc.on_asked([span(50, 100)], now_ms=1_000)
    sdcc.on_gaps([], now_ms=1_500)
    sdcc.on_gaps([], now_ms=3_000)
    assert sdcc.rate == pytest.approx(100 / 1_500)


def test_a_nack_is_answered_when_all_of_its_ticks_are_known() -> None:
    sdcc = control()
    sdcc.on_asked([span(0, 100)], now_ms=0)
    sdcc.on_gaps([span(90, 100)], now_ms=100)
    sdcc.on_gaps([], now_ms=300)
    sdcc.on_gaps([], now_ms=600)
    assert sdcc.rate == pytest.approx(100 / 300)


@pytest.mark.parametrize(
    ("horizon_ms", "end_ms"), [(1_000, 1_100), (1_001, 1_200), (1_050, 1_200), (1_099, 1_200), (1_100, 1_200)]
)
def test_what_may_be_asked_for_ends_on_a_grid(horizon_ms: int, end_ms: int) -> None:
    assert control().until(tick_at(horizon_ms)) == tick_at(end_ms) - 1


@given(st.integers(0, 10**9), st.integers(1, 200))
def test_a_nack_covers_its_least_size_but_no_more_than_the_receive_window(horizon: int, limit: int) -> None:
    sdcc = control(limit * 100)
    asked = sdcc.until(horizon) - horizon + 1
    assert 100 << 16 <= asked < 200 << 16
    assert asked <= limit * 100 << 16


def test_without_control_it_is_the_receive_window() -> None:
    sdcc = control(sdcc=False)
    assert sdcc.window_ms == LIMIT_MS
    assert sdcc.until(tick_at(500)) == tick_at(500 + LIMIT_MS) - 1


def test_a_new_recovery_starts_with_a_small_window() -> None:
    recovery = Recovery(control())
    for _ in range(5):
        recovery.measure(100)
    assert recovery.control.window_ms > 300
    recovery.now_ms += 9_999
    recovery.control.on_gaps([span(0, 1)], now_ms=recovery.now_ms)
    assert recovery.control.window_ms > 300
    recovery.now_ms += 10_000
    recovery.control.on_gaps([], now_ms=recovery.now_ms)
    recovery.control.on_gaps([span(0, 1)], now_ms=recovery.now_ms)
    assert (recovery.control.window_ms, recovery.control.rate) == (100, None)


def test_after_a_change_of_parent_nothing_is_awaited() -> None:
    sdcc = control()
    sdcc.on_asked([span(0, 100)], now_ms=0)
    sdcc.clear()
    sdcc.on_gaps([], now_ms=100)
    assert not sdcc.on_gaps([], now_ms=5_000)
    assert sdcc.rate is None


def test_what_is_measured_is_bounded() -> None:
    sdcc = control()
    for number in range(3_000):
        sdcc.on_asked([span(number * 100, number * 100 + 100)], now_ms=number)
    sdcc.check_invariants()
    assert sdcc.on_gaps([], now_ms=10_000)
    assert sdcc.window_ms == 200


def test_a_group_uses_the_mean_of_the_windows_of_those_in_doubt() -> None:
    group = NackGroup()
    settings = CongestionSettings.paper(nack_group=True)
    one, two, three = [NackControl(settings, receive_window_ms=LIMIT_MS, group=group) for _ in range(3)]
    wide = Recovery(one)
    for _ in range(4):
        wide.measure(100)
    gap = [span(9_000, 9_100)]
    one.on_gaps(gap, now_ms=wide.now_ms)
    assert one.window_ms == one.own_window_ms == 500
    two.on_gaps(gap, now_ms=wide.now_ms)
    assert one.window_ms == two.window_ms == 300
    assert (three.window_ms, two.own_window_ms) == (100, 100)
    one.on_gaps([], now_ms=wide.now_ms)
    assert (one.window_ms, two.window_ms) == (500, 100)


def test_who_leaves_a_group_is_not_in_its_mean() -> None:
    group = NackGroup()
    settings = CongestionSettings.paper(nack_group=True, nack_window_ms=300)
    one = NackControl(settings, receive_window_ms=LIMIT_MS, group=group)
    two = NackControl(CongestionSettings.paper(nack_group=True), receive_window_ms=LIMIT_MS, group=group)
    for each in (one, two):
        each.on_gaps([span(0, 100)], now_ms=0)
    assert two.window_ms == 200
    one.clear()
    assert two.window_ms == 100


@given(
    st.integers(100, 3_000),
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 4_000)), max_size=60),
)
def test_the_window_stays_within_its_bounds(limit_ms: int, answers: list[tuple[int, int]]) -> None:
    recovery = Recovery(control(limit_ms))
    for wait_ms, rtt_ms in answers:
        recovery.now_ms += wait_ms
        before = recovery.control.window_ms
        recovery.answer(rtt_ms)
        recovery.control.check_invariants()
        after = recovery.control.window_ms
        assert 100 <= after <= limit_ms
        assert abs(after - before) <= 100 or after == 100


def test_a_floor_lifts_the_window_up_to_its_limit_and_only_while_it_is_there() -> None:
    nacks = control(limit_ms=2_000)
    assert nacks.window_ms == 100
    nacks.floor_ms = 1_000
    assert nacks.window_ms == 1_000
    nacks.floor_ms = 5_000
    assert nacks.window_ms == 2_000
    nacks.floor_ms = 0
    assert nacks.window_ms == 100
    nacks.check_invariants()
