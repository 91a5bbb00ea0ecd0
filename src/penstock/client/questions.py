"""Requests that the broker answers one by one, and who waits for the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from penstock.protocol.frames import Forget, Forgotten, Frame, Refused, StatusReply, StatusRequest
from penstock.protocol.status import BrokerStatus
from penstock.session.changes import Answer, Reply
from penstock.session.errors import ClientError, RefusedError

__all__ = ["Questions", "forget_durable", "status_of_broker"]

_MEANING = {
    "status": "tell its status",
    "forget": "forget a durable subscription",
    "read": "read its log",
    "trace": "trace a message",
}


class Questions:
    """The requests that are not answered yet, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def answer(self, number: int) -> Reply:
        """Wait for the answer to a request; raises ``RefusedError`` if the broker says no."""
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            # Not awaited itself, which would cancel it together with who waits.
            await asyncio.wait([waiting])
            answer: Answer = waiting.result()
        finally:
            self._waiting.pop(number, None)
            if waiting.done():
                # Looked at also by who was cancelled at the same moment, or asyncio complains that nobody did.
                waiting.exception()
        if isinstance(answer, Refused):
            raise RefusedError(_MEANING.get(answer.request, answer.request), answer.reason)
        return answer

    def on_answers(self, answers: Iterable[Answer]) -> None:
        """The broker has answered; what nobody waits for any more is forgotten."""
        for answer in answers:
            waiting = self._waiting.get(answer.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def fail(self, error: ClientError) -> None:
        """No answers will come."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


async def status_of_broker(ask: Callable[[Callable[[int], Frame]], Awaitable[Reply]]) -> BrokerStatus:
    """How the broker is."""
    answer = await ask(StatusRequest)
    assert isinstance(answer, StatusReply), f"not an answer to this: {answer}"
    try:
        return msgspec.json.decode(answer.status, type=BrokerStatus)
    except msgspec.DecodeError as error:
        raise ClientError(f"the status of the broker cannot be read: {error}") from None


async def forget_durable(ask: Callable[[Callable[[int], Frame]], Awaitable[Reply]], durable: str) -> tuple[str, ...]:
    """Have a durable subscription forgotten; answers with the pubends that could not be reached."""
    answer = await ask(lambda number: Forget(number, durable))
    assert isinstance(answer, Forgotten), f"not an answer to this: {answer}"
    return answer.pending
