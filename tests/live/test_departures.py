"""Connections that are gone: told at once while there is time, and later when there is none."""

from __future__ import annotations

import asyncio

from penstock.live.departures import Departures
from penstock.live.turns import TURN_S, Turns


def turns_with(clock: list[float]) -> Turns:
    return Turns(
        give_up=lambda _, error: (_ for _ in ()).throw(error),
        settle=lambda: None,
        on_end=lambda: None,
        clock=lambda: clock[0],
    )


def test_what_a_turn_has_no_time_for_is_told_in_the_next_ones_in_order() -> None:
    async def test() -> None:
        clock, told = [0.0], list[int]()
        turns = turns_with(clock)

        def tell(number: int) -> None:
            told.append(number)
            clock[0] += 2 * TURN_S

        departures = Departures(turns, tell)
        for number in range(1, 5):
            departures.add(number)
        assert told == [1]
        for turn in range(2, 5):
            turns.end()
            assert told == list(range(1, turn + 1))

    asyncio.run(test())


def test_cheap_ones_are_told_at_once() -> None:
    async def test() -> None:
        told = list[int]()
        departures = Departures(turns_with([0.0]), told.append)
        for number in range(1, 100):
            departures.add(number)
        assert told == list(range(1, 100))

    asyncio.run(test())
