"""A thread does one thing after the other, and says what came of it."""

from __future__ import annotations

import asyncio
from threading import Event, current_thread

import pytest

from live.support import run
from penstock.live.shipping.thread import LakeThread


def test_calls_are_made_in_order_in_a_thread_of_its_own() -> None:
    async def scenario() -> None:
        thread = LakeThread("lake of b1")
        done: list[int] = []
        results = [thread.call(lambda each=each: done.append(each) or current_thread().name) for each in range(3)]  # type: ignore[misc, func-returns-value]
        assert [await each for each in results] == ["lake of b1"] * 3
        assert done == [0, 1, 2]
        thread.end()

    run(scenario())


def test_an_error_goes_to_who_asked_and_the_thread_goes_on() -> None:
    async def scenario() -> None:
        thread = LakeThread("t")
        with pytest.raises(ZeroDivisionError):
            await thread.call(lambda: 1 // 0)
        assert await thread.call(lambda: 5) == 5
        thread.end()

    run(scenario())


def test_who_does_not_wait_any_more_hurts_nobody() -> None:
    async def scenario() -> None:
        thread, gate = LakeThread("t"), Event()
        waiting = thread.call(gate.wait)
        waiting.cancel()
        gate.set()
        assert await thread.call(lambda: 5) == 5
        thread.end()
        await asyncio.sleep(0)

    run(scenario())
