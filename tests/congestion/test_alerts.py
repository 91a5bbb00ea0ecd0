from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import Alerts, CongestionSettings, Dcq, HorizonRate, Uca
from penstock.congestion.alerts import QueryDelay, alert
from penstock.model.tick import tick_at

PAPER = CongestionSettings.paper(alert_lag_ms=0)
SWIFT = CongestionSettings.swift()


@pytest.mark.parametrize(
    ("rate", "lag_ms", "recovering", "expected"),
    [
        (1.0, 0, False, None),
        (0.95, 0, False, None),
        (0.949, 0, False, Uca(9, 0.949, inf, 0)),
        (0.0, 0, False, Uca(9, 0.0, inf, 0)),
        (1.0, 4000, False, None),
        (1.0, 4001, False, Uca(9, 1.0, inf, 4001)),
        (1.5, 60_000, False, Uca(9, 1.5, inf, 60_000)),
        (2.0, 60_000, True, None),
        (1.999, 60_000, True, Uca(9, inf, 1.999)),
        (0.0, 0, True, Uca(9, inf, 0.0)),
        (5.0, 0, True, None),
    ],
)
def test_who_alerts(rate: float, lag_ms: int, expected: Uca | None, *, recovering: bool) -> None:
    assert alert(PAPER, 9, rate=rate, lag_ms=lag_ms, is_recovering=recovering) == expected


@pytest.mark.parametrize(
    ("rate", "lag_ms", "recovering", "alerts"),
    [
        (0.5, SWIFT.alert_lag_ms - 1, False, False),
        (0.5, SWIFT.alert_lag_ms, False, True),
        (1.0, SWIFT.lag_ms_max + 1, False, True),
        (0.1, 0, True, True),
    ],
)
def test_swift_does_not_alert_while_all_is_there(rate: float, lag_ms: int, *, recovering: bool, alerts: bool) -> None:
    assert (alert(SWIFT, 9, rate=rate, lag_ms=lag_ms, is_recovering=recovering) is not None) is alerts


def test_neither_does_paper_by_default() -> None:
    settings = CongestionSettings.paper()
    assert alert(settings, 9, rate=0.5, lag_ms=settings.alert_lag_ms - 1, is_recovering=False) is None
    assert alert(settings, 9, rate=0.5, lag_ms=settings.alert_lag_ms, is_recovering=False) is not None


def test_a_query_that_came_late_is_a_reason_to_alert_though_the_stream_is_up_to_it() -> None:
    settings, rate = CongestionSettings.paper(), slow_rate()
    alerts = Alerts(settings)
    for sent_ms, delay_ms in ((1_000, 20), (2_000, 219)):
        query = Dcq(tick_at(sent_ms), tick_at(sent_ms))
        assert alerts.on_dcq(query, tick_at(sent_ms + 1), rate, now_ms=sent_ms + delay_ms) is None
    late = Dcq(tick_at(3_000), tick_at(3_000))
    assert alerts.on_dcq(late, tick_at(3_001), rate, now_ms=3_220) == Uca(late.seq, 0.9, inf, 0)
    rate.rate = 1.0
    later = Dcq(tick_at(4_000), tick_at(4_000))
    assert alerts.on_dcq(later, tick_at(4_001), rate, now_ms=5_000) is None, "late, and not slow"


def test_a_query_gets_at_most_one_answer() -> None:
    alerts, rate = Alerts(PAPER), slow_rate()
    dcq = Dcq(50, tick_at(2_000))
    assert alerts.on_dcq(dcq, tick_at(1_000), rate, now_ms=2_000) == Uca(50, 0.9, inf, 1000)
    assert alerts.on_dcq(dcq, tick_at(1_000), rate, now_ms=2_000) is None
    assert alerts.on_dcq(Dcq(49, tick_at(1_900)), tick_at(1_000), rate, now_ms=2_001) is None
    assert alerts.on_dcq(Dcq(51, tick_at(2_100)), tick_at(1_000), rate, now_ms=2_100) == Uca(51, 0.9, inf, 1100)


def test_who_has_the_last_tick_does_not_lag() -> None:
    alerts, rate = Alerts(PAPER), slow_rate()
    assert alerts.on_dcq(Dcq(1, tick_at(2_000)), tick_at(2_000) + 1, rate, now_ms=2_000) == Uca(1, 0.9, inf, 0)
    assert alerts.on_dcq(Dcq(2, tick_at(2_000) - 1), tick_at(1_000), rate, now_ms=2_000) == Uca(2, 0.9, inf, 1_000)
    # The query has overtaken nothing: the stream is ahead of it.
    assert alerts.on_dcq(Dcq(3, tick_at(2_000)), tick_at(9_000), rate, now_ms=2_000) == Uca(3, 0.9, inf, 0)
    assert alerts.lag_ms == 0


def test_the_last_alert_is_remembered_for_the_operator() -> None:
    alerts, rate = Alerts(PAPER), slow_rate()
    uca = alerts.on_dcq(Dcq(1, tick_at(2_000)), tick_at(1_000), rate, now_ms=2_000)
    rate.rate = 1.0
    assert alerts.on_dcq(Dcq(2, tick_at(3_000)), tick_at(2_500), rate, now_ms=3_000) is None
    assert (alerts.last, alerts.lag_ms) == (uca, 500)


def test_the_class_is_that_of_the_moment() -> None:
    alerts, rate = Alerts(PAPER), slow_rate()
    rate.on_ignored(1, now_ms=2_000)
    assert alerts.on_dcq(Dcq(1, tick_at(2_000)), tick_at(1_000), rate, now_ms=2_000) == Uca(1, inf, 0.9)
    assert alerts.on_dcq(Dcq(2, tick_at(4_001)), tick_at(1_000), rate, now_ms=4_001) == Uca(2, 0.9, inf, 3001)


@given(st.floats(0, 10), st.integers(0, 100_000), st.booleans(), st.sampled_from([PAPER, SWIFT]))
def test_an_alert_has_one_class_and_carries_the_rate(
    rate: float, lag_ms: int, recovering: bool, settings: CongestionSettings
) -> None:
    uca = alert(settings, 3, rate=rate, lag_ms=lag_ms, is_recovering=recovering)
    if uca is not None:
        assert (uca.min_nonrec, uca.min_rec) == ((inf, rate) if recovering else (rate, inf))
        assert (uca.seq, uca.lag_ms) == (3, 0 if recovering else lag_ms)


def slow_rate() -> HorizonRate:
    rate = HorizonRate(PAPER, tick_at(0), now_ms=0)
    rate.rate = 0.9
    return rate


# --- how late queries come


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
