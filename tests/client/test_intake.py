"""What threads publish: in order, within the window, and never lost between two threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from client.scripted import run
from client.test_publisher import Bench
from penstock.client.intake import Intake
from penstock.model.body import decode_id, encode_content
from penstock.model.errors import LimitError
from penstock.model.message_id import MessageId
from penstock.protocol.frames import HeldBack, PublishAck
from penstock.session.errors import ClientClosedError, UnknownPubendError


class Threads(Bench):
    """An intake, whose calls to the client's thread are only written down."""

    def __init__(self, credit_bytes: int) -> None:
        super().__init__(credit_bytes)
        self.intake = Intake(self.session, self.publisher, self.lock)
        queue = self.session.publishing.queue_for("a")
        assert queue is not None
        self.queue = queue
        self.calls: list[Callable[[], None]] = []

    def take(self, number: int, size: int = 0, pubend: str = "a") -> MessageId | None:
        return self.intake.take(encode_content({"n": number}, bytes(size)), pubend, None, self.calls.append)

    def queued(self) -> list[MessageId]:
        """The identifiers of all messages in the publish queue, sent or not."""
        queue: Any = self.queue
        return [decode_id(body) for part in (*queue._wire, *queue._runs) for body in part.bodies]


def test_the_count_of_messages_waits_for_nobody() -> None:
    """In a forked child, a thread that does not exist there may hold the lock for ever."""
    bench = Threads(credit_bytes=1_000)
    bench.take(1)
    found: list[int] = []
    with bench.lock:
        asking = threading.Thread(target=lambda: found.append(bench.intake.published), daemon=True)
        asking.start()
        asking.join(timeout=10)
    assert found == [1]


def test_messages_are_fetched_together_in_their_order() -> None:
    bench = Threads(credit_bytes=1_000)
    taken = [bench.take(number) for number in range(5)]
    assert (len(bench.calls), bench.queue.published, bench.intake.published) == (1, 0, 5)
    bench.calls[0]()
    assert taken == sorted(bench.queued()) == bench.queued()
    assert (bench.queue.published, bench.intake.published) == (5, 5)
    bench.take(5)
    assert len(bench.calls) == 2, "what comes later needs another call"


def test_what_waits_to_be_fetched_counts_against_the_window() -> None:
    bench = Threads(credit_bytes=200)
    assert bench.take(1, 100) is not None
    assert bench.take(2, 100) is None
    bench.intake.fetch()
    assert bench.take(3, 100) is None
    bench.feed(PublishAck(1, bench.queue._wire_bytes, "a"))
    assert bench.take(4, 100) is not None
    assert bench.queue.published == 1


def test_a_message_larger_than_the_window_goes_alone() -> None:
    bench = Threads(credit_bytes=100)
    assert bench.take(1, 500) is not None
    assert bench.take(2) is None
    bench.intake.fetch()
    bench.queue.check_invariants()
    assert bench.take(3) is None


def test_nothing_overtakes_a_message_that_waits_its_turn() -> None:
    async def test() -> None:
        bench = Threads(credit_bytes=200)
        first = bench.take(1, 100)
        waiting = asyncio.create_task(bench.intake.take_in_turn(encode_content({"n": 2}, bytes(100)), "a", None))
        await asyncio.sleep(0)
        assert bench.queued() == [first], "what was taken before goes first"
        assert bench.take(3) is None
        bench.feed(PublishAck(1, bench.queue._wire_bytes, "a"))
        second = await waiting
        assert bench.queued() == [second]
        assert bench.take(4) is not None

    run(test())


def test_a_window_that_shrinks_meanwhile_loses_nothing() -> None:
    bench = Threads(credit_bytes=1_000)
    taken = [bench.take(number, 100) for number in range(3)]
    bench.feed(HeldBack("full", 50, "a"))
    bench.intake.fetch()
    bench.queue.check_invariants()
    assert bench.queued() == taken
    assert bench.take(3) is None


def test_at_the_end_everything_taken_is_fetched_and_nothing_more_is_taken() -> None:
    bench = Threads(credit_bytes=1_000)
    taken = bench.take(1)
    bench.intake.close(ClientClosedError("closed for a test"))
    assert bench.queued() == [taken]
    with pytest.raises(ClientClosedError, match="closed for a test"):
        bench.take(2)


@pytest.mark.parametrize(
    ("pubend", "error", "problem"),
    [
        ("p" * 101, LimitError, "the name of the pubend"),
        ("nowhere", UnknownPubendError, "no pubend 'nowhere'; there are: a, b"),
    ],
)
def test_a_pubend_that_does_not_exist_is_found_out_in_turn_and_harms_no_other_message(
    pubend: str, error: type[Exception], problem: str
) -> None:
    async def test() -> None:
        bench = Threads(credit_bytes=1_000)
        taken = bench.take(1)
        assert bench.take(2, pubend=pubend) is None, "the client's own thread has to find out"
        with pytest.raises(error, match=problem):
            await bench.intake.take_in_turn(encode_content({}), pubend, None)
        assert bench.take(3) is not None
        bench.intake.fetch()
        assert bench.queued()[0] == taken
        assert bench.session.publishing.published == 2

    run(test())


def test_a_pubend_is_found_once_and_messages_to_it_are_taken_at_once_then() -> None:
    async def test() -> None:
        bench = Threads(credit_bytes=1_000)
        assert bench.take(1, pubend="b") is None
        await bench.intake.take_in_turn(encode_content({"n": 1}), "b", None)
        assert bench.take(2, pubend="b") is not None
        assert bench.take(3) is not None
        bench.intake.fetch()
        assert bench.session.publishing.mark() == {"a": 1, "b": 2}

    run(test())


def test_a_message_that_waits_its_turn_at_one_pubend_holds_up_no_other() -> None:
    async def test() -> None:
        bench = Threads(credit_bytes=200)
        await bench.intake.take_in_turn(encode_content({"n": 1}), "b", None)
        bench.take(2, 100)
        waiting = asyncio.create_task(bench.intake.take_in_turn(encode_content({"n": 3}, bytes(100)), "a", None))
        await asyncio.sleep(0)
        assert bench.take(4) is None
        assert bench.take(5, pubend="b") is not None
        bench.intake.fetch()
        assert not waiting.done()
        bench.feed(PublishAck(1, bench.queue._wire_bytes, "a"))
        await waiting
        assert bench.session.publishing.mark() == {"a": 2, "b": 2}

    run(test())


def test_only_one_thread_at_a_time_makes_identifiers() -> None:
    """A message to another pubend may be taken while the client's thread queues one that has waited."""

    async def test() -> None:
        bench = Threads(credit_bytes=200)
        bench.take(1, 100)
        waiting = asyncio.create_task(bench.intake.take_in_turn(encode_content({"n": 2}, bytes(100)), "a", None))
        await asyncio.sleep(0)
        held: list[bool] = []

        def stamp(content: bytes, *, wall_ms: int) -> tuple[MessageId, bytes]:
            held.append(bench.lock.locked())
            return bench.session.stamp(content, wall_ms=wall_ms)

        bench.publisher._stamp = stamp
        bench.feed(PublishAck(1, bench.queue._wire_bytes, "a"))
        await waiting
        assert held == [True]

    run(test())


def test_an_interrupt_in_the_middle_leaves_a_window_that_can_be_used() -> None:
    bench = Threads(credit_bytes=200)

    def interrupted(_: Callable[[], None]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.intake.take(encode_content({"n": 1}, bytes(100)), "a", None, interrupted)
    assert bench.take(2) is not None
    assert len(bench.calls) == 1, "the interrupted call was none"
    bench.calls[0]()
    bench.queue.check_invariants()
    assert len(bench.queued()) == 2
