"""Reads the log of a pubend between two ticks, part by part, over as many connections as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.model.errors import MisuseError
from penstock.model.tick import Tick, format_tick
from penstock.protocol.frames import LATEST, Frame, LogAnswer, ReadRequest, SurveyReply, SurveyRequest
from penstock.session.changes import Reply
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError

__all__ = ["READ_BYTES", "LogPart", "LogReading", "PubendSpan", "Survey"]

READ_BYTES: Final = 512 * 1024
"""How much of a log is scanned for one part."""
_AGAIN_MS: Final = 5_000
"""How long to wait before asking again: the answer may have got lost on its way."""

Ask: TypeAlias = Callable[[Callable[[int], Frame], int], Awaitable[Reply]]
"""Asks the broker, and asks again at this interval in milliseconds until there is an answer."""


@dataclass(slots=True, frozen=True)
class PubendSpan:
    """The first and the last tick in the log of a pubend."""

    earliest: int
    """The first tick kept."""
    latest: int
    """The last tick up to which everything is durable: nothing at or below it will ever change."""


@dataclass(slots=True, frozen=True)
class Survey:
    """What the logs of an overlay contain, by pubend."""

    spans: dict[str, PubendSpan]
    unreachable: tuple[str, ...] = ()
    """Pubends whose brokers cannot be reached at the moment."""


@dataclass(slots=True, frozen=True)
class LogPart:
    """Everything in a pubend's log from one tick to another; a tick that is neither a message nor lost is silence."""

    pubend: str
    first: int
    last: int
    ticks: list[int]
    """The ticks of the messages that match, in order."""
    bodies: list[bytes]
    """The messages as encoded bytes, which ``Received`` decodes."""
    lost: tuple[tuple[int, int], ...] = ()
    """Ranges of ticks that were trimmed or are damaged: nobody knows what was there."""


class LogReading:
    """Reads logs for one client, which knows how to ask its broker."""

    def __init__(
        self,
        ask: Ask,
        end: Callable[[], ClientError | None] = lambda: None,
        give_up_ms: int | None = None,
        *,
        again_ms: int = _AGAIN_MS,
    ) -> None:
        self._ask = ask
        self._end = end
        self._again_ms = again_ms
        self._give_up_s = None if give_up_ms is None else give_up_ms / 1000

    async def survey(self) -> Survey:
        """Ask for the first and last tick of all logs."""
        reply = await self._patiently(SurveyRequest, "survey of the logs")
        assert isinstance(reply, SurveyReply), f"not an answer to this: {reply}"
        return Survey({name: PubendSpan(first, last) for name, first, last in reply.spans}, reply.unreachable)

    async def read(
        self, pubend: str, first: int, last: int, selector: str, *, bytes_max: int = READ_BYTES
    ) -> AsyncGenerator[LogPart, None]:
        """Yield the parts in order; the next one is requested while the application works on the last."""
        if not 0 <= first <= last <= LATEST:
            raise MisuseError(f"ticks {first} to {last} of pubend {pubend} are not a valid range")
        if bytes_max <= 0:
            raise MisuseError(f"bytes_max {bytes_max} is not positive")

        def ask_from(tick: int) -> asyncio.Task[LogPart]:
            return asyncio.ensure_future(self._part(pubend, tick, last, selector, bytes_max))

        asked = ask_from(first)
        try:
            while True:
                part = await asked
                if part.last >= last:
                    yield part
                    return
                asked = ask_from(part.last + 1)
                yield part
        finally:
            asked.cancel()
            # Not awaited directly: a cancellation of the caller meanwhile would go unnoticed.
            await asyncio.wait([asked])
            if not asked.cancelled():
                # Retrieved, or asyncio complains that it never was.
                asked.exception()

    async def _part(self, pubend: str, first: int, last: int, selector: str, bytes_max: int) -> LogPart:
        answer = await self._patiently(
            lambda number: ReadRequest(number, pubend, first, last, selector, bytes_max),
            f"the log of pubend {pubend}",
        )
        assert isinstance(answer, LogAnswer), f"not an answer to this: {answer}"
        if answer.last < first:
            raise RefusedError("read its log", f"{format_tick(Tick(first))} of pubend {pubend} is in the future")
        return LogPart(pubend, first, answer.last, answer.ticks, answer.bodies, answer.lost)

    async def _patiently(self, question: Callable[[int], Frame], what: str) -> Reply:
        """Ask until there is an answer, over as many connections as it takes."""
        try:
            async with asyncio.timeout(self._give_up_s):
                while True:
                    try:
                        return await self._ask(question, self._again_ms)
                    except ConnectionFailedError:
                        if self._end() is not None:
                            raise
        except TimeoutError:
            raise ConnectionFailedError(f"{what}: no answer within {self._give_up_s:g} s") from None
