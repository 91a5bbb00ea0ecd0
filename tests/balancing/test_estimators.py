"""Loads after subscribers came or went."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balancing.estimators import DelayFit, Figures, accuracy, figures_of
from penstock.balancing.metrics import LoadMeter, Measurement

BROKER = Figures(20.0, 100, 500.0, 1000.0, 0.005, 0.0002, 0.5, 0.25, 0.001)


def test_input_and_output_follow_their_definitions() -> None:
    assert BROKER.delay_s == pytest.approx(0.025)
    assert BROKER.input == pytest.approx(0.5)
    assert BROKER.output == pytest.approx(0.5)
    load = BROKER.load()
    assert load.input == pytest.approx(0.5)
    assert (load.output, load.cpu, load.memory) == (0.5, 0.5, 0.25)


def test_a_change_moves_all_metrics() -> None:
    after = BROKER.changed(rate=10.0, subscriptions=50, bytes_out=250.0)
    assert after.delay_s == pytest.approx(0.035)
    assert after.input == pytest.approx(30 * 0.035)
    assert after.output == pytest.approx(0.75)
    assert after.cpu == pytest.approx(0.5 + 30 * 0.035 - 0.5)
    assert after.memory == pytest.approx(0.3)


def test_many_cases_at_once_are_the_single_ones() -> None:
    counts = np.array([0, 10, 20])
    many = BROKER.changed(rate=counts * 0.1, subscriptions=counts, bytes_out=counts * 5.0)
    for place, count in enumerate(counts.tolist()):
        single = BROKER.changed(rate=count * 0.1, subscriptions=count, bytes_out=count * 5.0)
        assert many.input[place] == pytest.approx(single.input)
        assert many.cpu[place] == pytest.approx(single.cpu)


@given(st.floats(0, 0.1), st.floats(1e-6, 1e-3), st.lists(st.integers(1, 5000), min_size=3, max_size=30))
def test_a_line_is_found_where_there_is_one(base: float, slope: float, counts: list[int]) -> None:
    fit = DelayFit()
    for count in counts:
        fit.add(count, base + slope * count)
    last = counts[-1]
    a, b = fit.line(last, base + slope * last)
    assert a + b * last == pytest.approx(base + slope * last)
    assert a >= -1e-9
    if np.std(counts) > 0.5 * np.mean(counts):
        assert b == pytest.approx(slope, rel=1e-3)


def test_the_papers_line_goes_through_the_origin() -> None:
    for fit in (DelayFit(is_proportional=True), DelayFit()):
        fit.add(100, 0.02)
        fit.add(100, 0.02)
        base, slope = fit.line(100, 0.02)
        assert base == pytest.approx(0.0)
        assert slope == pytest.approx(0.0002)
    fit = DelayFit(is_proportional=True)
    fit.add(50, 0.02)
    fit.add(100, 0.02)
    # d' = d (n + Δn) / n
    base, slope = fit.line(100, 0.02)
    assert base + slope * 150 == pytest.approx(0.02 * 150 / 100)


def test_noise_promises_nothing_impossible() -> None:
    fit = DelayFit()
    for count, delay in ((10, 0.05), (100, 0.01), (200, 0.001)):
        fit.add(count, delay)
    assert fit.line(200, 0.001) == (0.001, 0.0)
    assert DelayFit().line(10, 0.0) == (0.0, 0.0)


def test_a_broker_without_subscriptions_has_a_delay_and_no_slope() -> None:
    assert DelayFit().line(0, 0.02) == (0.02, 0.0)
    assert DelayFit().line(10, 0.02) == (0.0, 0.0), "nothing was measured with subscriptions"


def test_figures_come_from_what_was_measured() -> None:
    meter, fit = LoadMeter(window_ms=10_000, output_bandwidth=1000), DelayFit()
    meter.add(Measurement(0, 0, 0, 0, 0, 100))
    meter.add(Measurement(1000, 20, 500, 20, 20 * 25_000_000, 100, 0.5, 0.25, 0.001))
    fit.add(meter.subscriptions_mean, meter.delay_s)
    figures = figures_of(meter, fit)
    assert (figures.rate_msg_s, figures.subscriptions, figures.bytes_out_s) == (20, 100, 500)
    assert figures.input == pytest.approx(0.5)
    assert figures.is_sound()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 1e18])
def test_unsound_figures_are_found(bad: float) -> None:
    assert not Figures(bad, 1, 1.0, 1.0, 0.0, 0.1).is_sound()
    assert not Figures(1.0, 1, 1.0, bad, 0.0, 0.1).is_sound()
    assert not Figures(1.0, 1, 1.0, 0.0, 0.0, 0.1).is_sound()


def test_accuracy_is_a_fraction() -> None:
    assert accuracy(0.5, 0.5) == accuracy(0.0, 0.0) == 1.0
    assert accuracy(0.45, 0.5) == pytest.approx(0.9)
    assert accuracy(2.0, 0.5) == 0.0
    assert accuracy(0.1, 0.0) == 0.0


def test_a_line_through_the_origin_has_no_base_below_zero_by_rounding() -> None:
    points = [(count, count * 1.7e-5 / 3) for count in range(1, 3_000)]
    assert any(delay - delay / count * count < 0 for count, delay in points), "else this would test nothing"
    for count, delay in points:
        fit = DelayFit(is_proportional=True)
        fit.add(count, delay)
        assert fit.line(count, delay)[0] >= 0
