"""``@protected``: functions that wait for their turn."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.token import Alone, current_fence, protected
from penstock.model.errors import MisuseError


def test_a_protected_function_runs_at_its_turns_with_arguments_and_results() -> None:
    numbers: list[int] = []

    @protected(every="60 ms", about="10 ms")
    async def backup(what: str) -> str:
        """Copies."""
        fence = current_fence()
        assert fence is not None
        numbers.append(fence.number)
        return what.upper()

    async def scenario() -> None:
        async with asyncio.timeout(20):
            assert await backup("x") == "X"
            assert await backup("y") == "Y"
        assert backup.counters.operations == 2
        assert backup.status()["group"] == "backup"
        assert current_fence() is None
        await backup.close()

    asyncio.run(scenario())
    assert numbers[0] < numbers[1]
    assert backup.__doc__ == "Copies."


def test_it_can_run_at_every_turn_until_it_is_cancelled_and_join_again() -> None:
    turns = 0

    @protected(every="30 ms", about="5 ms", group="chores")
    async def chore() -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            raise ZeroDivisionError

    async def scenario() -> None:
        chore.join(Alone("worker"))
        async with asyncio.timeout(20):
            with pytest.raises(ZeroDivisionError):
                await chore.run()
            assert chore.status()["member"] == "worker"
            assert chore.status()["group"] == "chores"
            await chore.close()
            await chore()
            await chore.close()

    asyncio.run(scenario())
    assert turns == 4


def test_a_member_does_not_join_elsewhere() -> None:
    @protected(every="10 min", about="4 s")
    async def backup() -> None: ...

    async def scenario() -> None:
        await backup.open()
        with pytest.raises(MisuseError, match="already a member of group backup"):
            backup.join(Alone("other"))
        await backup.close()
        backup.join(Alone("other"))

    asyncio.run(scenario())


def test_a_wrong_duration_shows_where_it_was_written() -> None:
    with pytest.raises(MisuseError, match="about is"):

        @protected(every="10 min", about="a bit")
        async def backup() -> None: ...
