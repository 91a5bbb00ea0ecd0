"""Turns are bounded, and everybody who waits has one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from live.support import run, until
from penstock.live.turns import TURN_S, Pace, Turns


class Busy:
    """Has some slices of work left, each of which takes a while, and notes when it worked."""

    uses_much = False

    def __init__(self, number: int, turns: Turns, slices: int, log: list[int], spend: Callable[[], None]) -> None:
        self.number, self.slices = number, slices
        self._turns, self._log, self._spend = turns, log, spend

    def flush(self) -> None:
        self._log.append(-self.number)

    def work(self) -> None:
        self._turns.timed(self._spend)
        self._log.append(self.number)
        self.slices -= 1
        if self.slices:
            self._turns.put_off(self)


class World:
    """Turns with a clock that only work moves on."""

    def __init__(self) -> None:
        self.now_s, self.log, self.ends = 0.0, list[int](), list[int]()
        self.given_up: list[tuple[int, str]] = []
        self.turns = Turns(
            give_up=lambda worker, error: self.given_up.append((worker.number, str(error))),
            settle=lambda: None,
            on_end=lambda: self.ends.append(len(self.log)),
            clock=lambda: self.now_s,
        )

    def busy(self, number: int, slices: int, took_s: float) -> Busy:
        def spend() -> None:
            self.now_s += took_s

        return Busy(number, self.turns, slices, self.log, spend)


def test_who_waits_works_in_turn_and_a_turn_ends_when_it_is_spent() -> None:
    async def scenario() -> None:
        world = World()
        for number in (1, 2, 3):
            world.turns.put_off(world.busy(number, slices=2, took_s=TURN_S / 2))
        await until(lambda: not world.turns.behind)
        assert world.log == [1, 2, 3, 1, 2, 3]
        assert world.ends == [2, 4, 6]

    run(scenario())


def test_who_is_woken_or_waits_twice_has_one_turn_and_who_is_gone_has_none() -> None:
    async def scenario() -> None:
        world = World()
        first, second = (world.busy(number, slices=1, took_s=0.0) for number in (1, 2))
        for each in (first, second, first):
            world.turns.wake(each)
            world.turns.put_off(each)
        world.turns.forget(second)
        world.turns.end()
        assert world.log == [-1, 1]
        world.turns.stop()

    run(scenario())


def test_a_bug_of_one_is_not_the_end_of_the_others() -> None:
    class Broken:
        number = 7
        uses_much = False

        def flush(self) -> None:
            raise ValueError("flush")

        def work(self) -> None:
            raise ValueError("work")

    async def scenario() -> None:
        world = World()
        for each in (Broken(), world.busy(1, slices=1, took_s=0.0)):
            world.turns.wake(each)
            world.turns.put_off(each)
        world.turns.end()
        assert world.log == [-1, 1]
        assert world.given_up == [(7, "flush"), (7, "work")]
        world.turns.stop()

    run(scenario())


def test_slices_shrink_at_once_when_frames_become_dear_and_grow_again_by_and_by() -> None:
    pace = Pace()
    start = pace.weight_max
    pace.note(100, 100 * TURN_S, now_s=1.0)
    assert pace.weight_max == 1
    assert pace.is_heavy
    sizes = []
    for _ in range(20):
        pace.note(1, 1e-6, now_s=1.0)
        sizes.append(pace.weight_max)
    assert sizes == sorted(sizes)
    assert sizes[-1] > start
    assert not pace.is_heavy


def test_who_has_used_much_waits_behind_the_others_but_one_of_them_has_a_slice_in_each_turn() -> None:
    async def scenario() -> None:
        world = World()
        for number in (1, 2, 3, 4):
            worker = world.busy(number, slices=2, took_s=2 * TURN_S)
            worker.uses_much = number < 3
            world.turns.put_off(worker)
        await until(lambda: not world.turns.behind)
        assert world.log == [3, 1, 4, 2, 3, 1, 4, 2]
        assert world.ends == [2, 4, 6, 8]

    run(scenario())


def test_a_connection_uses_much_until_it_has_used_less_than_its_share_for_a_while() -> None:
    pace = Pace()
    seen = [pace.uses_much]
    now_s = 1.0
    for _ in range(20):
        pace.note(1, 0.001, now_s=now_s)
        now_s += 0.1
    seen.append(pace.uses_much)
    for took_s, later_s in ((1.0, 0.0), (0.0, 0.4), (0.0, 0.6)):
        pace.note(1, took_s, now_s=now_s + later_s)
        seen.append(pace.uses_much)
    assert seen == [True, False, True, True, False]


def test_what_is_done_for_a_connection_outside_its_slices_counts_as_used() -> None:
    pace = Pace()
    for step in range(20):
        pace.note(1, 0.001, now_s=1.0 + 0.1 * step)
    assert not pace.uses_much
    pace.charge(0.02)
    assert not pace.uses_much
    pace.charge(0.04)
    assert pace.uses_much


def test_settling_a_turn_does_not_ask_for_another_one() -> None:
    async def scenario() -> None:
        ends: list[str] = []

        def settle() -> None:
            turns.end_later()

        turns = Turns(
            give_up=lambda _worker, error: pytest.fail(str(error)),
            settle=settle,
            on_end=lambda: ends.append("end"),
        )
        turns.end_later()
        for _ in range(5):
            await asyncio.sleep(0)
        assert ends == ["end"]

    run(scenario())


def test_what_messages_cost_after_their_slice_is_a_part_of_their_price() -> None:
    pace = Pace()
    for _ in range(30):
        pace.note(1, 10e-6, now_s=1.0)
        pace.charge(1e-3)
    assert pace.weight_max * 1e-3 < 2 * TURN_S
    seen = [pace.is_heavy]
    pace.charge(5e-3)
    seen.append(pace.is_heavy)
    assert seen == [False, True]
    assert pace.weight_max == 1
