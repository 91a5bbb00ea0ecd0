"""A process waits for values, notices nothing while it is stopped, and nothing more when it is cancelled."""

from __future__ import annotations

from penstock.sim.clock import Clock
from penstock.sim.process import Gate, Promise, Running, Waiting, sleep


def adding(first: Promise[int], second: Promise[int]) -> Waiting[int]:
    one = yield first
    other = yield second
    return int(one) + int(other)


def test_a_process_goes_on_with_the_values_that_it_waits_for() -> None:
    first: Promise[int] = Promise()
    second: Promise[int] = Promise()
    ended: list[int] = []
    second.keep(2)
    running = Running(adding(first, second), Gate(), ended.append)
    assert not running.is_over
    first.keep(1)
    first.keep(7)
    assert (ended, running.is_over) == ([3], True)


def test_a_stopped_process_notices_everything_in_order_when_it_goes_on() -> None:
    gate = Gate()
    noticed: list[int] = []
    gate.through(lambda: noticed.append(0))
    gate.shut()
    for number in (1, 2):
        gate.through(lambda number=number: noticed.append(number))  # type: ignore[misc]
    assert noticed == [0]
    gate.open()
    assert noticed == [0, 1, 2]


def test_timers_that_rang_meanwhile_are_noticed_last() -> None:
    gate = Gate()
    noticed: list[str] = []
    gate.ring(lambda: noticed.append("at once"))
    gate.shut()
    gate.ring(lambda: noticed.append("timer"))
    gate.through(lambda: noticed.append("frames"))
    gate.open()
    assert noticed == ["at once", "frames", "timer"]


def test_a_process_that_is_stopped_again_keeps_the_rest_for_later() -> None:
    gate = Gate()
    noticed: list[str] = []
    gate.shut()
    gate.through(gate.shut)
    gate.through(lambda: noticed.append("late"))
    gate.open()
    assert noticed == []
    gate.open()
    assert noticed == ["late"]


def test_a_process_that_has_ended_notices_nothing_of_what_was_held() -> None:
    gate = Gate()
    noticed: list[str] = []
    gate.shut()
    gate.through(lambda: noticed.append("never"))
    gate.clear()
    gate.open()
    assert (noticed, gate.is_shut) == ([], False)


def test_a_stopped_process_takes_no_step() -> None:
    clock, gate = Clock(), Gate()
    ended: list[None] = []

    def waiting() -> Waiting[None]:
        yield sleep(clock, 1_000)

    Running(waiting(), gate, ended.append)
    gate.shut()
    clock.run_for(5_000)
    assert ended == []
    gate.open()
    assert ended == [None]


def test_a_cancelled_process_tidies_up_and_hears_of_nothing() -> None:
    told: list[str] = []
    promise: Promise[str] = Promise()

    def tidy() -> Waiting[None]:
        try:
            told.append((yield promise))
        finally:
            told.append("tidied up")

    running = Running(tidy(), Gate(), lambda _: told.append("ended"))
    running.cancel()
    running.cancel()
    promise.keep("too late")
    assert told == ["tidied up"]


def test_a_process_may_cancel_itself() -> None:
    told: list[str] = []
    holder: list[Running[None]] = []
    first: Promise[None] = Promise()

    def ending() -> Waiting[None]:
        yield first
        holder[0].cancel()
        yield Promise()
        told.append("went on")

    holder.append(Running(ending(), Gate(), lambda _: told.append("ended")))
    first.keep(None)
    assert (told, holder[0].is_over) == ([], True)
