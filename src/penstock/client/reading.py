"""Reading the log of a pubend between two ticks, part by part, over as many connections as it takes."""

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
"""How much of a log is looked through for one part."""
_AGAIN_MS: Final = 5_000
"""An answer that has not come by then may have got lost on its way."""

Ask: TypeAlias = Callable[[Callable[[int], Frame], int], Awaitable[Reply]]
"""Asks the broker, and again after every so many milliseconds without an answer."""


@dataclass(slots=True, frozen=True)
class PubendSpan:
    """From where to where the log of a pubend goes."""

    earliest: int
    """The first tick that is kept."""
    latest: int
    """The last tick of which everything is durable: nothing at or below it will ever change."""


@dataclass(slots=True, frozen=True)
class Survey:
    """The logs of an overlay."""

    spans: dict[str, PubendSpan]
    unreachable: tuple[str, ...] = ()
    """Pubends whose brokers cannot be reached at the moment."""


@dataclass(slots=True, frozen=True)
class LogPart:
    """All that a pubend has from one tick to another; what is no message and not lost is silence."""

    pubend: str
    first: int
    last: int
    ticks: list[int]
    """The ticks of the messages that match, in order."""
    bodies: list[bytes]
    """The messages themselves, as ``Received`` takes them apart."""
    lost: tuple[tuple[int, int], ...] = ()
    """Ranges that were trimmed or are damaged: nobody knows what they were."""


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
        self._ask, self._end, self._again_ms = ask, end, again_ms
        self._give_up_s = None if give_up_ms is None else give_up_ms / 1000

    async def survey(self) -> Survey:
        """From where to where all logs go."""
        reply = await self._patiently(SurveyRequest, "survey of the logs")
        assert isinstance(reply, SurveyReply), f"not an answer to this: {reply}"
        return Survey({name: PubendSpan(first, last) for name, first, last in reply.spans}, reply.unreachable)

    async def read(
        self, pubend: str, first: int, last: int, selector: str, *, bytes_max: int = READ_BYTES
    ) -> AsyncGenerator[LogPart, None]:
        """The parts in order; the next one is asked for while the application looks at one."""
        if not 0 <= first <= last <= LATEST:
            raise MisuseError(f"ticks {first} to {last} of pubend {pubend} are no range")
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
            # Not awaited itself: who is cancelled meanwhile would not notice.
            await asyncio.wait([asked])
            if not asked.cancelled():
                # Looked at, or asyncio complains that nobody did.
                asked.exception()

    async def _part(self, pubend: str, first: int, last: int, selector: str, bytes_max: int) -> LogPart:
        answer = await self._patiently(
            lambda number: ReadRequest(number, pubend, first, last, selector, bytes_max),
            f"the log of pubend {pubend}",
        )
        assert isinstance(answer, LogAnswer), f"not an answer to this: {answer}"
        if answer.last < first:
            raise RefusedError("read its log", f"{format_tick(Tick(first))} of pubend {pubend} is yet to come")
        return LogPart(pubend, first, answer.last, answer.ticks, answer.bodies, answer.lost)

    async def _patiently(self, question: Callable[[int], Frame], what: str) -> Reply:
        """The answer, however often it has to be asked for."""
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
