"""The clock runs callbacks in the order of time, then of asking, and time never turns back."""

from __future__ import annotations

from random import Random

import pytest

from penstock.sim.clock import Clock


def test_callbacks_run_in_order_of_time_and_ties_in_order_of_asking() -> None:
    clock, seen = Clock(), list[tuple[int, int]]()
    times = [Random(1).randrange(20) for _ in range(200)]
    for place, time_us in enumerate(times):
        clock.at(time_us, lambda time_us=time_us, place=place: seen.append((time_us, place)))  # type: ignore[misc]
    clock.run_until(20)
    assert seen == sorted(zip(times, range(200), strict=True))
    assert clock.steps == 200


def test_only_what_is_due_runs_and_the_present_is_the_end_of_the_run() -> None:
    clock, seen = Clock(1_000), list[str]()
    clock.after(10, lambda: seen.append("first"))
    clock.after(11, lambda: seen.append("second"))
    clock.run_for(10)
    assert (seen, clock.now_us, clock.pending) == (["first"], 1_010, 1)
    clock.run_for(500)
    assert (seen, clock.now_us, clock.pending) == (["first", "second"], 1_510, 0)


def test_a_callback_sees_its_own_time_and_may_ask_for_more_at_once() -> None:
    clock, seen = Clock(), list[int]()

    def again() -> None:
        seen.append(clock.now_us)
        if len(seen) < 3:
            clock.after(0, again)

    clock.at(7, again)
    clock.run_until(7)
    assert seen == [7, 7, 7]


def test_a_cancelled_callback_does_not_run() -> None:
    clock, seen = Clock(), list[str]()
    timer = clock.after(5, lambda: seen.append("cancelled"))
    clock.after(5, lambda: seen.append("kept"))
    clock.cancel(timer)
    clock.run_for(5)
    clock.cancel(timer)
    assert seen == ["kept"]


def test_milliseconds_are_whole() -> None:
    clock = Clock(1_999)
    assert clock.now_ms == 1
    clock.run_for(1)
    assert clock.now_ms == 2


def test_the_past_is_over() -> None:
    clock = Clock(10)
    with pytest.raises(AssertionError, match="in the past"):
        clock.at(9, lambda: None)
    with pytest.raises(AssertionError, match="before the present"):
        clock.run_until(9)


def test_steps_are_counted_when_a_callback_fails() -> None:
    clock = Clock()
    clock.after(1, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        clock.run_for(2)
    assert (clock.steps, clock.now_us) == (1, 1)
