"""The ends of connections: the broker hears of them as time allows, and a shutdown waits for them, but not for ever."""

from __future__ import annotations

import asyncio
from typing import cast

from live.support import run
from penstock.live.connection import Connection
from penstock.live.endings import Departures, wait_for_ends
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


class Stub:
    """A connection that ends when it is told to, or when it is cut."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.was_cut = False

    def abort(self) -> None:
        self.was_cut = True
        self.ended.set()


def test_who_ends_is_not_cut_and_who_does_not_is() -> None:
    async def scenario() -> None:
        prompt, stubborn = Stub(), Stub()
        connections = {1: cast("Connection", prompt), 2: cast("Connection", stubborn)}
        waiting = asyncio.create_task(wait_for_ends(connections, seconds_max=0.01))
        await asyncio.sleep(0)
        prompt.ended.set()
        del connections[1]
        await waiting
        assert (prompt.was_cut, stubborn.was_cut) == (False, True)

    run(scenario())


def test_with_no_connection_there_is_nothing_to_wait_for() -> None:
    run(wait_for_ends({}))
