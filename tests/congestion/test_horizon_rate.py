from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.congestion import CongestionSettings, HorizonRate
from penstock.model.tick import tick_at

PAPER = CongestionSettings.paper(sample_ms=1000)
START_MS = 5_000


def meter(settings: CongestionSettings = PAPER) -> HorizonRate:
    return HorizonRate(settings, tick_at(START_MS), now_ms=START_MS)


@pytest.mark.parametrize(
    ("advance_ms", "rate"),
    [(1000, 1.0), (0, 0.9), (500, 0.95), (2000, 1.1), (11_000, 2.0)],
)
def test_a_sample_weighs_a_tenth(advance_ms: int, rate: float) -> None:
    measured = meter()
    assert measured.rate == 1.0
    assert measured.on_deadline(tick_at(START_MS + advance_ms), now_ms=START_MS + 1000)
    assert measured.rate == pytest.approx(rate)


def test_the_counter_of_a_tick_is_a_fraction_of_a_millisecond() -> None:
    measured = meter(CongestionSettings.paper(sample_ms=1000, smoothing=1.0))
    measured.on_deadline(tick_at(START_MS + 500, 1 << 15), now_ms=START_MS + 1000)
    assert measured.rate == pytest.approx(0.5005)


def test_samples_are_taken_only_when_they_are_due() -> None:
    measured = meter()
    assert measured.next_deadline() == START_MS + 1000
    assert not measured.on_deadline(tick_at(START_MS), now_ms=START_MS + 999)
    assert measured.rate == 1.0
    assert measured.on_deadline(tick_at(START_MS), now_ms=START_MS + 1005)
    assert measured.next_deadline() == START_MS + 2005


def test_a_late_sample_weighs_as_much_as_those_it_stands_for() -> None:
    late, punctual = meter(), meter()
    late.on_deadline(tick_at(START_MS), now_ms=START_MS + 3000)
    for second in (1, 2, 3):
        punctual.on_deadline(tick_at(START_MS), now_ms=START_MS + 1000 * second)
    assert late.rate == pytest.approx(punctual.rate) == pytest.approx(0.729)


def test_a_clock_that_was_set_back_begins_anew_without_a_sample() -> None:
    measured = meter()
    assert not measured.on_deadline(tick_at(START_MS), now_ms=START_MS - 500)
    assert measured.rate == 1.0
    assert measured.next_deadline() == START_MS + 500


def test_a_stream_that_begins_anew_further_back_counts_as_standing() -> None:
    measured = meter()
    measured.on_deadline(tick_at(START_MS - 900), now_ms=START_MS + 1000)
    assert measured.rate == pytest.approx(0.9)
    measured.on_deadline(tick_at(START_MS + 100), now_ms=START_MS + 2000)
    assert measured.rate == pytest.approx(0.91)


@pytest.mark.parametrize(("after_ms", "recovering"), [(0, True), (1999, True), (2000, True), (2001, False)])
def test_who_ignored_ticks_is_recovering_for_two_seconds(after_ms: int, *, recovering: bool) -> None:
    measured = meter()
    assert not measured.is_recovering(now_ms=START_MS)
    measured.on_ignored(7, now_ms=START_MS)
    assert measured.is_recovering(now_ms=START_MS + after_ms) is recovering


def test_only_ticks_ignored_since_count() -> None:
    measured = meter()
    measured.on_ignored(7, now_ms=START_MS)
    measured.on_ignored(7, now_ms=START_MS + 1500)
    assert not measured.is_recovering(now_ms=START_MS + 2500)
    measured.on_ignored(8, now_ms=START_MS + 2600)
    assert measured.is_recovering(now_ms=START_MS + 4600)


def test_a_stream_that_never_ignored_anything_is_not_recovering() -> None:
    measured = meter()
    measured.on_ignored(0, now_ms=START_MS)
    assert not measured.is_recovering(now_ms=START_MS)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 20_000)), max_size=30))
def test_the_rate_stays_within_its_samples(steps: list[tuple[int, int]]) -> None:
    measured = meter()
    now_ms, horizon_ms = START_MS, START_MS
    sampled_ms, sampled_horizon_ms = now_ms, horizon_ms
    samples = [1.0]
    for wait_ms, advance_ms in steps:
        now_ms, horizon_ms = now_ms + wait_ms, horizon_ms + advance_ms
        if measured.on_deadline(tick_at(horizon_ms), now_ms=now_ms):
            samples.append((horizon_ms - sampled_horizon_ms) / (now_ms - sampled_ms))
            sampled_ms, sampled_horizon_ms = now_ms, horizon_ms
        assert min(samples) - 1e-9 <= measured.rate <= max(samples) + 1e-9
