"""Reading logs as the client sees it: parts in order, asked for ahead, asked for again, and ended cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.scripted import run, until
from penstock.client.reading import READ_BYTES, LogPart, LogReading, PubendSpan, Survey
from penstock.model.errors import MisuseError
from penstock.protocol.frames import LATEST, Frame, LogAnswer, ReadRequest, SurveyReply, SurveyRequest
from penstock.session.changes import Reply
from penstock.session.errors import ClientClosedError, ClientError, ConnectionFailedError, RefusedError


class Log:
    """A broker that has messages at some ticks, and answers a few ticks at a time."""

    def __init__(self, ticks: list[int], step: int = 10, end: int = 10**6) -> None:
        self.ticks, self.step, self.end = ticks, step, end
        self.asked: list[Frame] = []
        self.problems: list[Exception] = []
        """Raised in place of the next answers."""
        self.is_mute = False
        self.given_up = 0

    async def ask(self, question: Callable[[int], Frame], _again_ms: int) -> Reply:
        frame = question(len(self.asked) + 1)
        self.asked.append(frame)
        if self.problems:
            raise self.problems.pop(0)
        if self.is_mute:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up += 1
        await asyncio.sleep(0)
        if isinstance(frame, SurveyRequest):
            return SurveyReply(frame.number, (("p", 3, 9), ("q", 0, 5)), ("r",))
        assert isinstance(frame, ReadRequest)
        last = min(frame.first + self.step - 1, frame.last, self.end)
        ticks = [tick for tick in self.ticks if frame.first <= tick <= last]
        return LogAnswer(frame.pubend, "", frame.number, (frame.first, last), ticks, [b"%d" % each for each in ticks])


@asynccontextmanager
async def complaints() -> AsyncIterator[list[dict[str, Any]]]:
    """What asyncio complains of."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    yield found


async def all_of(reading: LogReading, first: int, last: int, **wishes: Any) -> list[LogPart]:
    return [part async for part in reading.read("p", first, last, "TRUE", **wishes)]


@given(st.sets(st.integers(0, 60)), st.integers(0, 60), st.integers(0, 60), st.integers(1, 70))
def test_the_parts_lie_side_by_side_and_hold_what_is_there(ticks: set[int], one: int, other: int, step: int) -> None:
    first, last = min(one, other), max(one, other)

    async def test() -> None:
        log = Log(sorted(ticks), step)
        parts = await all_of(LogReading(log.ask), first, last)
        assert [part.first for part in parts] == list(range(first, last + 1, step))
        assert [part.last + 1 for part in parts] == [*(part.first for part in parts[1:]), last + 1]
        assert [tick for part in parts for tick in part.ticks] == [
            each for each in sorted(ticks) if first <= each <= last
        ]
        assert len(log.asked) == len(parts)

    run(test())


def test_what_is_asked_is_what_was_wished_for() -> None:
    async def test() -> None:
        log = Log([], 10**6)
        await all_of(LogReading(log.ask), 5, 9, bytes_max=77)
        await all_of(LogReading(log.ask), 5, 9)
        assert log.asked == [
            ReadRequest(1, "p", 5, 9, "TRUE", 77),
            ReadRequest(2, "p", 5, 9, "TRUE", READ_BYTES),
        ]

    run(test())


def test_the_next_part_is_asked_for_while_the_application_looks_at_one() -> None:
    async def test() -> None:
        log = Log([1, 11, 21])
        parts = LogReading(log.ask).read("p", 0, 29, "TRUE")
        assert log.asked == []
        assert (await anext(parts)).ticks == [1]
        await until(lambda: len(log.asked) == 2)
        await asyncio.sleep(0)
        assert len(log.asked) == 2
        assert [part.ticks async for part in parts] == [[11], [21]]
        assert len(log.asked) == 3

    run(test())


@pytest.mark.parametrize(("first", "last", "size"), [(5, 4, 1), (-1, 4, 1), (0, LATEST + 1, 1), (0, 4, 0), (0, 4, -1)])
def test_what_is_no_range_or_no_size_is_misuse(first: int, last: int, size: int) -> None:
    async def test() -> None:
        log = Log([])
        with pytest.raises(MisuseError):
            await all_of(LogReading(log.ask), first, last, bytes_max=size)
        assert log.asked == []

    run(test())


def test_what_is_yet_to_come_is_refused_behind_what_there_is() -> None:
    async def test() -> None:
        reading = LogReading(Log([3], end=14).ask)
        parts = reading.read("p", 0, 99, "TRUE")
        assert [(await anext(parts)).last for _ in range(2)] == [9, 14]
        with pytest.raises(
            RefusedError, match=r"^the broker refused to read its log: .*\+15 of pubend p is in the future$"
        ):
            await anext(parts)
        with pytest.raises(StopAsyncIteration):
            await anext(parts)

    run(test())


def test_a_lost_connection_is_survived_by_asking_again() -> None:
    async def test() -> None:
        log = Log([1, 15])
        log.problems = [ConnectionFailedError("gone")] * 3
        parts = await all_of(LogReading(log.ask), 0, 19)
        assert [part.ticks for part in parts] == [[1], [15]]
        assert len(log.asked) == 5

    run(test())


def test_a_client_that_has_ended_reads_no_more() -> None:
    async def test(error: ClientError, end: ClientError) -> None:
        log = Log([])
        log.problems = [error]
        with pytest.raises(type(error), match="over"):
            await all_of(LogReading(log.ask, lambda: end), 0, 9)
        assert len(log.asked) == 1

    run(test(ConnectionFailedError("over"), ConnectionFailedError("over")))
    run(test(ClientClosedError("over"), ClientClosedError("over")))


def test_a_refusal_ends_the_reading() -> None:
    async def test() -> None:
        log = Log([])
        log.problems = [RefusedError("read its log", "no")]
        with pytest.raises(RefusedError, match="no"):
            await all_of(LogReading(log.ask), 0, 9)

    run(test())


def test_who_gives_up_says_what_did_not_answer() -> None:
    async def test() -> None:
        log = Log([])
        log.is_mute = True
        reading = LogReading(log.ask, give_up_ms=1)
        with pytest.raises(ConnectionFailedError, match=r"^the log of pubend p: no answer within 0\.001 s$"):
            await all_of(reading, 0, 9)
        with pytest.raises(ConnectionFailedError, match=r"^survey of the logs: no answer within 0\.001 s$"):
            await reading.survey()
        assert log.given_up == 2

    run(test())


def test_a_broker_that_is_gone_again_and_again_is_given_up_too() -> None:
    async def test() -> None:
        async def ask(_question: Callable[[int], Frame], _again_ms: int) -> Reply:
            await asyncio.sleep(0)
            raise ConnectionFailedError("gone")

        with pytest.raises(ConnectionFailedError, match="no answer within"):
            await all_of(LogReading(ask, give_up_ms=1), 0, 9)

    run(test())


def test_a_survey_tells_spans_and_who_is_out_of_reach() -> None:
    async def test() -> None:
        found = await LogReading(Log([]).ask).survey()
        assert found == Survey({"p": PubendSpan(3, 9), "q": PubendSpan(0, 5)}, ("r",))

    run(test())


def test_a_reading_that_is_left_early_asks_no_more_and_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with complaints() as found:
            log = Log([1])
            parts = LogReading(log.ask).read("p", 0, 99, "TRUE")
            await anext(parts)
            log.is_mute = True
            await until(lambda: len(log.asked) == 2)
            await parts.aclose()
            assert log.given_up == 1
            assert asyncio.all_tasks() == {asyncio.current_task()}
        assert found == []

    run(test())


def test_a_reading_that_nobody_holds_any_more_ends_by_itself() -> None:
    async def test() -> None:
        async with complaints() as found:
            log = Log([1])
            async for _ in LogReading(log.ask).read("p", 0, 99, "TRUE"):
                log.is_mute = True
                await until(lambda: len(log.asked) == 2)
                break
            await until(lambda: log.given_up == 1)
        assert found == []

    run(test())


def test_a_failure_that_nobody_waits_for_any_more_is_not_complained_of() -> None:
    async def test() -> None:
        async with complaints() as found:
            log = Log([1])
            parts = LogReading(log.ask).read("p", 0, 99, "TRUE")
            await anext(parts)
            log.problems = [RefusedError("read its log", "no")]
            await until(lambda: not log.problems)
            await parts.aclose()
            del parts
        assert found == []

    run(test())


def test_a_failure_ahead_is_raised_when_its_turn_comes() -> None:
    async def test() -> None:
        log = Log([1])
        parts = LogReading(log.ask).read("p", 0, 99, "TRUE")
        await anext(parts)
        log.problems = [RefusedError("read its log", "no")]
        await until(lambda: not log.problems)
        with pytest.raises(RefusedError):
            await anext(parts)

    run(test())


def test_who_is_cancelled_while_waiting_for_a_part_is_cancelled() -> None:
    async def test() -> None:
        log = Log([1])
        log.is_mute = True
        reader = asyncio.create_task(all_of(LogReading(log.ask), 0, 9))
        await until(lambda: log.asked)
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
        assert reader.cancelled()
        assert log.given_up == 1

    run(test())


def test_who_is_cancelled_while_closing_is_cancelled() -> None:
    async def test() -> None:
        closing = asyncio.Event()

        async def ask(question: Callable[[int], Frame], _again_ms: int) -> Reply:
            frame = question(1)
            assert isinstance(frame, ReadRequest)
            if frame.first == 0:
                return LogAnswer("p", "", 1, (0, 4), [], [])
            try:
                await asyncio.Event().wait()
            finally:
                closing.set()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            raise AssertionError

        async def look() -> None:
            parts = LogReading(ask).read("p", 0, 9, "TRUE")
            await anext(parts)
            await asyncio.sleep(0)
            await parts.aclose()
            await asyncio.Event().wait()

        reader = asyncio.create_task(look())
        await closing.wait()
        reader.cancel()
        async with asyncio.timeout(10):
            with suppress(asyncio.CancelledError):
                await reader
        assert reader.cancelled()

    run(test())
