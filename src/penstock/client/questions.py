"""Requests that the broker answers one by one, and the callers that wait for the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from penstock.model.decoding import UnreadableError, decoded
from penstock.protocol.frames import Forget, Forgotten, Frame, Refused, StatusReply, StatusRequest
from penstock.protocol.status import BrokerStatus
from penstock.session.changes import Answer, Reply
from penstock.session.errors import ClientError, RefusedError

__all__ = ["Questions", "forget_durable", "status_of_broker"]

_status: Final = msgspec.json.Decoder(BrokerStatus)

_MEANING = {
    "status": "tell its status",
    "forget": "forget a durable subscription",
    "read": "read its log",
    "durables": "list durable subscriptions",
    "trace": "trace a message",
}


class Questions:
    """Pending requests, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def answer(self, number: int) -> Reply:
        """Wait for the answer to a request; raises ``RefusedError`` if the broker refuses it."""
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            # Not awaited directly: cancelling the caller would cancel the future, too.
            await asyncio.wait([waiting])
            answer: Answer = waiting.result()
        finally:
            self._waiting.pop(number, None)
            if waiting.done():
                # Retrieved even if the caller was cancelled at the same moment, or asyncio complains that it never was.
                waiting.exception()
        if isinstance(answer, Refused):
            raise RefusedError(_MEANING.get(answer.request, answer.request), answer.reason)
        return answer

    def on_answers(self, answers: Iterable[Answer]) -> None:
        """Pass answers to those who wait for them; drop answers that nobody waits for any more."""
        for answer in answers:
            waiting = self._waiting.get(answer.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def fail(self, error: ClientError) -> None:
        """Fail all pending requests, since no answers will come."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


async def status_of_broker(ask: Callable[[Callable[[int], Frame]], Awaitable[Reply]]) -> BrokerStatus:
    """Ask for the broker's status."""
    answer = await ask(StatusRequest)
    assert isinstance(answer, StatusReply), f"not an answer to this: {answer}"
    try:
        return decoded(_status.decode, answer.status)
    except UnreadableError as error:
        raise ClientError(f"the status of the broker cannot be read: {error}") from None


async def forget_durable(
    ask: Callable[[Callable[[int], Frame]], Awaitable[Reply]], durable: str, pubends: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Have a durable subscription forgotten, by some pubends or by all; returns those that could not be reached."""
    answer = await ask(lambda number: Forget(number, durable, pubends))
    assert isinstance(answer, Forgotten), f"not an answer to this: {answer}"
    return answer.pending
