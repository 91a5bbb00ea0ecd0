"""How publishing looks to applications is tested with the client; here is who waits, and for whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from client.scripted import ScriptedBroker, acknowledgement, run, until
from penstock.client.client import connect
from penstock.client.publisher import Publisher
from penstock.client.reports import Reports
from penstock.model.body import decode_attributes, encode_content
from penstock.model.message import Message
from penstock.protocol.frames import PROTOCOL_VERSION, HeldBack, PubendPlaces, Publish, PublishAck, Welcome
from penstock.session.errors import PublishTimeoutError, UnknownPubendError, WouldBlockError
from penstock.session.settings import ClientSettings
from session.stage import Stage


class Bench:
    """A publisher whose session is up, and whose connection writes nothing."""

    def __init__(self, credit_bytes: int, *, is_complete: bool = True) -> None:
        stage = Stage(settings=ClientSettings(linger_ms=0))
        stage.connect(stage.open())
        self.feed = partial(stage.tell, stage.line)
        greeting = Welcome(PROTOCOL_VERSION, "b1", "test", 11, 2, 50_000, 1_000, credit_bytes, ("a", "b"))
        self.feed(structs.replace(greeting, is_complete=is_complete))
        self.session = stage.session
        shell: Any = SimpleNamespace(now_ms=lambda: stage.now_ms, pump=stage.pump, schedule=lambda: None)
        self.lock = threading.Lock()
        reports = Reports(self.session.publishing)
        self.publisher = Publisher(self.session, shell, reports, self.until, self.lock)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)


def test_without_room_nothing_is_taken_and_who_waits_goes_first() -> None:
    async def test() -> None:
        bench = Bench(credit_bytes=100)
        bench.publisher.publish_nowait(encode_content({"n": 1}), "a", None)
        with pytest.raises(WouldBlockError, match="1 messages are not acknowledged yet"):
            bench.publisher.publish_nowait(encode_content({"n": 2}, bytes(100)), "a", None)
        large = asyncio.create_task(bench.publisher.publish(encode_content({"n": 3}, bytes(90)), "a", None))
        await asyncio.sleep(0)
        with pytest.raises(WouldBlockError):
            bench.publisher.publish_nowait(encode_content({"n": 4}), "a", None)
        small = asyncio.create_task(bench.publisher.publish(encode_content({"n": 5}), "a", None))
        await asyncio.sleep(0)
        assert (large.done(), small.done()) == (False, False)
        bench.feed(PublishAck(1, 100, "a"))
        first = await large
        bench.feed(PublishAck(2, 200, "a"))
        assert first < await small
        assert bench.session.publishing.published == 3

    run(test())


def content(number: int, size: int = 0) -> bytes:
    return encode_content({"n": number}, bytes(size))


def test_who_waits_for_one_pubend_keeps_nobody_from_another() -> None:
    async def test() -> None:
        bench = Bench(credit_bytes=100)
        bench.publisher.publish_nowait(content(1), "a", None)
        bench.feed(HeldBack("a is full", 1, "a"))
        waiting = asyncio.create_task(bench.publisher.publish(content(2), "a", None))
        await asyncio.sleep(0)
        assert (bench.publisher.is_waiting("a"), bench.publisher.is_waiting("b")) == (True, False)
        with pytest.raises(WouldBlockError, match="the broker holds publishers back: a is full"):
            bench.publisher.publish_nowait(content(3), "a", None)
        bench.publisher.publish_nowait(content(4), "b", None)
        other = asyncio.create_task(bench.publisher.publish(content(5, 100), "b", None))
        bench.feed(PublishAck(1, 50, "b"))
        await other
        assert not waiting.done()
        bench.feed(HeldBack("", 0, "a"), PublishAck(1, 50, "a"))
        await waiting
        assert bench.session.publishing.mark() == {"a": 2, "b": 2}

    run(test())


def test_a_message_to_a_pubend_that_nobody_knows_is_the_callers_fault() -> None:
    async def test() -> None:
        bench = Bench(credit_bytes=100)
        for use in (bench.publisher.publish, bench.publisher.publish_in_turn):
            with pytest.raises(UnknownPubendError, match="overlay test has no pubend 'c'; there are: a, b"):
                await use(content(1), "c", None)
        with pytest.raises(UnknownPubendError):
            bench.publisher.publish_nowait(content(1), "c", None)
        assert not bench.publisher.is_waiting("c")
        assert bench.session.publishing.published == 0

    run(test())


@pytest.mark.parametrize("exists", [True, False])
def test_while_the_broker_does_not_know_all_pubends_a_message_waits_for_its_own(exists: bool) -> None:
    async def test() -> None:
        bench = Bench(credit_bytes=100, is_complete=False)
        waiting = asyncio.create_task(bench.publisher.publish(content(1), "c", None))
        await asyncio.sleep(0)
        with pytest.raises(WouldBlockError):
            bench.publisher.publish_nowait(content(2), "c", None)
        bench.publisher.publish_nowait(content(3), "a", None)
        assert not waiting.done()
        bench.feed(PubendPlaces((("c", "far", True),) if exists else ()))
        if exists:
            await waiting
        else:
            with pytest.raises(UnknownPubendError, match="no pubend 'c'"):
                await waiting
        assert bench.session.publishing.published == 1 + exists

    run(test())


def test_a_message_that_waits_for_room_at_a_pubend_that_goes_away_is_the_callers_fault() -> None:
    async def test() -> None:
        bench = Bench(credit_bytes=100)
        bench.publisher.publish_nowait(content(1, 100), "a", None)
        waiting = asyncio.create_task(bench.publisher.publish(content(2), "a", None))
        await asyncio.sleep(0)
        bench.feed(PubendPlaces((), ("a",)))
        with pytest.raises(UnknownPubendError, match="no pubend 'a'; there are: b"):
            await waiting
        bench.publisher.publish_nowait(content(3), "b", None)

    run(test())


def test_nobody_overtakes_a_message_by_another_name_of_its_pubend() -> None:
    """Who names no pubend and who names the one that the client chooses publish to the same."""

    async def test() -> None:
        bench = Bench(credit_bytes=100)
        bench.publisher.publish_nowait(content(1), "", None)
        queue = bench.session.publishing.queue_for("")
        assert queue is not None
        large = asyncio.create_task(bench.publisher.publish(content(2, 100), "", None))
        await asyncio.sleep(0)
        assert not large.done()
        with pytest.raises(WouldBlockError):
            bench.publisher.publish_nowait(content(3), queue.pubend, None)
        bench.feed(PublishAck(1, 100, queue.pubend))
        await large

    run(test())


def test_a_message_that_finds_no_room_in_time_is_not_sent() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            broker.credit_bytes = 400
            async with connect(broker.address, settings=ClientSettings(close_ms=20)) as client:
                await client.publish({"n": 1}, bytes(300))
                with pytest.raises(PublishTimeoutError, match=r"1 messages are not ack.* yet; no room .* 0\.01 s"):
                    await client.publish({"n": 2}, bytes(300), timeout_s=0.01)
                with pytest.raises(TimeoutError):
                    await client.publish({"n": 3}, bytes(300), timeout_s=0)
                await until(lambda: broker.peer.of(Publish))
                del broker.answers[Publish]
                broker.peer.send(acknowledgement(broker.peer.of(Publish)[0]))
                await client.publish({"n": 4}, bytes(300), timeout_s=60)
                await client.flush(timeout_s=60)
                bodies = [body for frame in broker.peer.of(Publish) for body in frame.bodies]
                assert [decode_attributes(body)["n"] for body in bodies] == [1, 4]
                assert client.counters.published == 2

    run(test())


def test_of_many_messages_those_that_are_sent_are_named_if_the_time_is_up() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            broker.credit_bytes = 900
            client = await connect(broker.address, settings=ClientSettings(close_ms=20)).open()
            messages = [Message({"n": number}, bytes(300)) for number in range(5)]
            with pytest.raises(PublishTimeoutError) as caught:
                await client.publish_many(messages, timeout_s=0.01)
            assert len(caught.value.messages) == client.counters.published == 2
            await client.close(flush=False)

    run(test())


def test_a_limit_around_publish_is_not_taken_for_that_of_publish() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            broker.credit_bytes = 400
            client = await connect(broker.address, settings=ClientSettings(close_ms=20)).open()
            await client.publish({"n": 1}, bytes(300))
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(0.01):
                    await client.publish({"n": 2}, bytes(300), timeout_s=60)
            assert not isinstance(caught.value, PublishTimeoutError)
            await client.close(flush=False)

    run(test())
