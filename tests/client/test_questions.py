from __future__ import annotations

import asyncio

import pytest

from client.scripted import run
from penstock.client.questions import Questions
from penstock.protocol.frames import Forgotten, Refused, StatusReply
from penstock.session.errors import ConnectionFailedError, RefusedError


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


def test_the_first_answer_will_do() -> None:
    async def test() -> None:
        questions = Questions()
        asking = asyncio.create_task(questions.answer(1))
        await asyncio.sleep(0)
        questions.on_answers([Forgotten(1, ("late",)), Forgotten(1, ("later",))])
        assert await asking == Forgotten(1, ("late",))
        assert questions._waiting == {}

    run(test())


def test_who_was_cancelled_as_the_connection_was_lost_leaves_no_complaint() -> None:
    async def test() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        questions = Questions()
        asking = asyncio.create_task(questions.answer(1))
        await asyncio.sleep(0)
        questions.fail(ConnectionFailedError("gone"))
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert (questions._waiting, complaints) == ({}, [])

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
