from __future__ import annotations

from math import inf

from penstock.congestion import CongestionSettings, Dcq, EdgeControl, Uca
from penstock.model.tick import tick_at

PAPER = CongestionSettings.paper(sample_ms=1000)


def control(settings: CongestionSettings = PAPER) -> EdgeControl:
    return EdgeControl(settings, tick_at(0), receive_window_ms=10_000, now_ms=0)


def test_a_stream_that_stands_still_alerts_with_its_rate_and_lag() -> None:
    edge = control()
    assert edge.next_deadline() == 1_000
    edge.on_deadline(tick_at(0), 0, now_ms=1_000)
    assert edge.on_dcq(Dcq(1, tick_at(1_000)), tick_at(0), 0, now_ms=1_000) == Uca(1, 0.9, inf, 1_000)


def test_a_stream_that_keeps_up_does_not() -> None:
    edge = control()
    for now_ms in range(1_000, 20_000, 1_000):
        edge.on_deadline(tick_at(now_ms), 0, now_ms=now_ms)
        assert edge.on_dcq(Dcq(now_ms, tick_at(now_ms)), tick_at(now_ms), 0, now_ms=now_ms) is None


def test_a_query_takes_a_sample_that_is_due() -> None:
    edge = control()
    assert edge.on_dcq(Dcq(1, tick_at(1_000)), tick_at(0), 0, now_ms=1_000) is not None
    assert edge.next_deadline() == 2_000


def test_a_stream_that_ignores_ticks_is_recovering() -> None:
    edge = control()
    assert not edge.is_recovering(now_ms=0)
    assert edge.on_dcq(Dcq(1, tick_at(500)), tick_at(0), 3, now_ms=500) == Uca(1, inf, 1.0)
    assert edge.is_recovering(now_ms=500)


def test_without_pdcc_it_neither_samples_nor_alerts_but_knows_whether_it_recovers() -> None:
    edge = control()
    edge.tune(CongestionSettings.paper(pdcc=False))
    assert edge.next_deadline() is None
    assert edge.on_dcq(Dcq(1, tick_at(90_000)), tick_at(0), 3, now_ms=90_000) is None
    assert edge.is_recovering(now_ms=90_000)


def test_tuning_reaches_every_part() -> None:
    edge = control()
    edge.tune(CongestionSettings.swift(sdcc=False))
    assert edge.next_deadline() == 250
    assert edge.nacks.window_ms == 10_000
    edge.on_deadline(tick_at(0), 0, now_ms=250)
    assert edge.on_dcq(Dcq(1, tick_at(190)), tick_at(0), 0, now_ms=250) is None
    assert edge.on_dcq(Dcq(2, tick_at(210)), tick_at(0), 0, now_ms=260) is not None


def test_a_host_that_was_cut_off_measures_its_rate_anew() -> None:
    edge = control()
    edge.on_dcq(Dcq(1, tick_at(1_000)), tick_at(1_000), 0, now_ms=1_000)
    for now_ms in range(2_000, 60_000, 1_000):
        edge.on_deadline(tick_at(1_000), 0, now_ms=now_ms)
    assert edge.horizon_rate.rate < 0.01
    assert edge.on_dcq(Dcq(2, tick_at(60_000)), tick_at(1_000), 1, now_ms=60_000) == Uca(2, inf, 1.0)
    # A few missed queries are no proof of having been cut off.
    edge.on_deadline(tick_at(1_000), 1, now_ms=61_000)
    edge.on_dcq(Dcq(3, tick_at(64_000)), tick_at(1_000), 1, now_ms=65_000)
    assert edge.horizon_rate.rate < 0.7
