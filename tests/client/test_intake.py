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
from penstock.session.errors import ClientClosedError


class Threads(Bench):
    """An intake, whose calls to the client's thread are only written down."""

    def __init__(self, credit_bytes: int) -> None:
        super().__init__(credit_bytes)
        self.lock = threading.Lock()
        self.intake = Intake(self.session, self.publisher, self.lock)
        self.queue = self.session.publishing
        self.calls: list[Callable[[], None]] = []

    def take(self, number: int, size: int = 0) -> MessageId | None:
        return self.intake.take(encode_content({"n": number}, bytes(size)), "", None, self.calls.append)

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
    bench.feed(PublishAck(1, bench.queue._wire_bytes))
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
        waiting = asyncio.create_task(bench.intake.take_in_turn(encode_content({"n": 2}, bytes(100)), "", None))
        await asyncio.sleep(0)
        assert bench.queued() == [first], "what was taken before goes first"
        assert bench.take(3) is None
        bench.feed(PublishAck(1, bench.queue._wire_bytes))
        second = await waiting
        assert bench.queued() == [second]
        assert bench.take(4) is not None

    run(test())


def test_a_window_that_shrinks_meanwhile_loses_nothing() -> None:
    bench = Threads(credit_bytes=1_000)
    taken = [bench.take(number, 100) for number in range(3)]
    bench.feed(HeldBack("full", 50))
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


def test_a_name_that_no_pubend_can_have_is_refused_at_once_and_harms_no_other_message() -> None:
    bench = Threads(credit_bytes=1_000)
    taken = bench.take(1)
    with pytest.raises(LimitError, match="the name of the pubend"):
        bench.intake.take(encode_content({}), "p" * 101, None, bench.calls.append)
    assert bench.take(2) is not None
    bench.intake.fetch()
    assert bench.queued()[0] == taken
    assert bench.queue.published == 2


def test_an_interrupt_in_the_middle_leaves_a_window_that_can_be_used() -> None:
    bench = Threads(credit_bytes=200)

    def interrupted(_: Callable[[], None]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.intake.take(encode_content({"n": 1}, bytes(100)), "", None, interrupted)
    assert bench.take(2) is not None
    assert len(bench.calls) == 1, "the interrupted call was none"
    bench.calls[0]()
    bench.queue.check_invariants()
    assert len(bench.queued()) == 2
