"""Clocks that are too wrong are noticed; small errors are not."""

from __future__ import annotations

from penstock.token.clocks import ClockFault, ClockWatch

MAX_MS = 1_800_000


def test_drift_and_delay_are_harmless() -> None:
    watch = ClockWatch(MAX_MS)
    # A day at a drift of 10⁻⁴, corrected once a day, and a second on the way.
    assert watch.on_time("b", 86_400_000, now_ms=86_400_000 + 8_640 + 1_000) is None
    assert watch.faults == {}


def test_an_error_comparable_to_the_largest_constant_is_reported_once() -> None:
    watch = ClockWatch(MAX_MS)
    assert watch.on_time("b", 3 * MAX_MS, now_ms=2 * MAX_MS) == ClockFault("b", MAX_MS, is_own=False)
    assert watch.on_time("b", 3 * MAX_MS + 10, now_ms=2 * MAX_MS + 10) is None
    assert watch.faults == {"b": MAX_MS}


def test_an_error_that_was_mended_may_be_reported_again() -> None:
    watch = ClockWatch(MAX_MS)
    assert watch.on_time("b", 0, now_ms=MAX_MS) is not None
    assert watch.on_time("b", MAX_MS, now_ms=MAX_MS) is None
    assert watch.faults == {}
    assert watch.on_time("b", MAX_MS, now_ms=2 * MAX_MS) == ClockFault("b", -MAX_MS, is_own=False)


def test_the_own_clock_is_blamed_when_most_others_differ_from_it() -> None:
    watch = ClockWatch(MAX_MS)
    faults = [watch.on_time(peer, 0, now_ms=MAX_MS) for peer in ("b", "c", "d")]
    assert [fault is not None and fault.is_own for fault in faults] == [False, True, True]


def test_the_tolerance_follows_the_largest_constant() -> None:
    watch = ClockWatch(1_000)
    assert watch.on_time("b", 500, now_ms=0) is not None
    watch.adapt(100_000)
    assert watch.faults == {}
    assert watch.tolerance_ms == 10_000


def test_few_clocks_are_remembered() -> None:
    watch = ClockWatch(10)
    for number in range(1_100):
        watch.on_time(str(number), 10_000, now_ms=0)
    assert len(watch.faults) == 1_024
