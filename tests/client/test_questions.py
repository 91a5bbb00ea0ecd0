from __future__ import annotations

import asyncio

import pytest

from client.scripted import run
from penstock.broker.frames import Forgotten, Refused, StatusReply
from penstock.client.errors import ConnectionFailedError, RefusedError
from penstock.client.questions import Questions


def test_each_gets_its_answer_whatever_the_order() -> None:
    async def test() -> None:
        questions = Questions()
        asking = [asyncio.create_task(questions.answer(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        questions.on_answers([Forgotten(3, ("p",)), Refused("forget", 2, "unknown"), Forgotten(9)])
        questions.on_answers([StatusReply(1, b"{}")])
        assert await asking[0] == StatusReply(1, b"{}")
        with pytest.raises(RefusedError, match="the broker refused to forget a durable subscription: unknown"):
            await asking[1]
        assert await asking[2] == Forgotten(3, ("p",))

    run(test())


def test_everybody_who_waits_is_told_that_no_answer_comes() -> None:
    async def test() -> None:
        questions = Questions()
        asking = [asyncio.create_task(questions.answer(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        asking[0].cancel()
        await asyncio.sleep(0)
        questions.fail(ConnectionFailedError("gone"))
        questions.on_answers([StatusReply(2, b"{}")])
        with pytest.raises(ConnectionFailedError, match="gone"):
            await asking[1]
        assert asking[0].cancelled()

    run(test())
