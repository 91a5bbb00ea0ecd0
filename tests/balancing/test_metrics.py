"""The load of a broker, from counts."""

from __future__ import annotations

import pytest

from penstock.balancing.metrics import Load, LoadMeter, Measurement
from penstock.model.metrics import DELAY, INPUT, OUTPUT


def measured(at_s: float, messages: int, **others: float) -> Measurement:
    """With a matching delay of 20 ms."""
    values = {"bytes_out": 0, "subscriptions": 10, **others}
    return Measurement(
        round(at_s * 1000),
        messages,
        int(values["bytes_out"]),
        messages,
        messages * 20_000_000,
        int(values["subscriptions"]),
        values.get("cpu", 0.0),
        values.get("memory", 0.0),
        handled=int(values["handled"]) if "handled" in values else None,
    )


def test_utilisations_follow_their_definitions() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    assert not meter.add(measured(0, 0))
    assert meter.add(measured(5, 100, bytes_out=1500, cpu=0.5, memory=0.25))
    assert meter.rate_msg_s == 20
    assert meter.load.input == pytest.approx(0.4)
    assert meter.load.output == pytest.approx(0.3)
    assert meter.load.delay_s == pytest.approx(0.02)
    assert (meter.load.cpu, meter.load.memory) == (0.5, 0.25)
    assert meter.load.highest() == 0.5


def test_only_the_last_while_counts() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    for second in range(0, 21, 5):
        meter.add(measured(second, 100 * second if second <= 10 else 1000))
    assert meter.rate_msg_s == 0
    assert meter.delay_s == pytest.approx(0.02), "nothing was matched since: the last delay holds"
    meter.add(measured(25, 1000, subscriptions=0))
    assert meter.delay_s == 0


def test_counts_that_fall_begin_anew() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    meter.add(measured(0, 1000))
    assert not meter.add(measured(1, 5))
    assert meter.add(measured(2, 15))
    assert meter.rate_msg_s == 10


def test_delays_are_compared_as_shares_of_the_norm() -> None:
    load = Load(input=0.5, output=0.25, delay_s=0.02)
    assert load.value(DELAY, delay_norm_s=0.1) == pytest.approx(0.2)
    assert load.value(INPUT, delay_norm_s=0.1) == 0.5
    assert load.value(OUTPUT, delay_norm_s=0.1) == 0.25
    assert load.is_finite()
    assert not Load(input=float("nan")).is_finite()
    assert not Load(output=-1.0).is_finite()


def test_what_is_forgotten_counts_no_more() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    assert meter.span_ms == 0
    meter.add(measured(0, 0))
    meter.add(measured(5, 1000, bytes_out=5000))
    assert (meter.rate_msg_s, meter.span_ms) == (200, 5_000)
    meter.forget()
    assert meter.span_ms == 0
    assert meter.rate_msg_s == 200, "until something was measured since"
    assert meter.add(measured(7, 1020, bytes_out=5200))
    assert (meter.rate_msg_s, meter.bytes_out_s, meter.span_ms) == (10, 100, 2_000)


def test_what_is_worked_off_is_no_load() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    meter.add(measured(0, 1000, handled=800))
    # Five seconds in which 100 came in and 200 were handled: twice as much as what comes in demands.
    meter.add(measured(5, 1100, handled=1000, bytes_out=4000, cpu=1.0))
    assert meter.rate_msg_s == 20
    assert meter.bytes_out_s == pytest.approx(400)
    assert meter.load.output == pytest.approx(0.4)
    assert meter.load.cpu == pytest.approx(0.5)


def test_a_broker_with_a_large_pile_is_as_busy_as_it_looks() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    meter.add(measured(0, 3000, handled=1600))
    # 20 come in a second: 1,200 that wait are those of a minute.
    meter.add(measured(5, 3100, handled=1899, bytes_out=4000, cpu=1.0))
    assert meter.load.output == pytest.approx(0.8)
    assert meter.load.cpu == 1.0
    meter.add(measured(10, 3200, handled=2001, bytes_out=5200, cpu=1.0))
    assert meter.load.cpu == pytest.approx(200 / 401)


def test_what_piles_up_will_have_to_be_sent() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    meter.add(measured(0, 1000, handled=1000))
    meter.add(measured(5, 1200, handled=1100, bytes_out=2000, cpu=1.0))
    assert meter.load.output == pytest.approx(0.8)
    assert meter.load.cpu == 1.0, "a processor is not busier than always"


def test_a_broker_that_handles_nothing_shows_what_was_measured() -> None:
    meter = LoadMeter(window_ms=10_000, output_bandwidth=1000)
    meter.add(measured(0, 1000, handled=900))
    meter.add(measured(5, 1200, handled=900, bytes_out=500, cpu=0.25))
    assert meter.load.output == pytest.approx(0.1)
    assert meter.load.cpu == 0.25
