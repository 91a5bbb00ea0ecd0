"""The choice of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from penstock.system.loop import has_uvloop, run


async def loop_in_use() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_the_fast_loop_is_taken_where_it_is_installed() -> None:
    assert ("uvloop" in run(loop_in_use())) == has_uvloop()


def test_the_plain_loop_can_be_asked_for() -> None:
    assert run(loop_in_use(), plain=True).startswith("asyncio")


def test_what_the_program_raises_comes_out() -> None:
    async def failing() -> None:
        raise ValueError("found")

    with pytest.raises(ValueError, match="found"):
        run(failing())
