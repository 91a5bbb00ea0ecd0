"""What a client tells of what happens to it: in its log, and in streams of events."""

from __future__ import annotations

import asyncio
import logging

import pytest

from client.scripted import QUICK, RefusingBroker, ScriptedBroker, broker_in_a_thread, run, until
from client.test_shell import unused_port
from penstock.client.client import connect
from penstock.client.events import EVENTS_MAX, EventStream, SyncEventStream, Telling
from penstock.client.sync import connect_sync
from penstock.protocol.frames import Goodbye, Hello
from penstock.protocol.frames import HeldBack as HeldBackFrame
from penstock.session.errors import ClientClosedError, RefusedError
from penstock.session.events import (
    Connected,
    Disconnected,
    EventsDropped,
    GaveUp,
    HeldBack,
    Moved,
    Refused,
    Released,
)
from penstock.session.settings import ClientSettings


def test_streams_hear_everything_until_the_client_is_closed() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = connect(broker.address, settings=QUICK)
            first = client.events()
            await client.open()
            second = client.events()
            broker.peer.cut()
            await until(lambda: client.counters.reconnects == 1)
            await client.close()
            heard = [event async for event in first]
            assert [type(event) for event in heard] == [Connected, Disconnected, Connected]
            assert isinstance(heard[0], Connected)
            assert (heard[0].broker, heard[0].address) == ("scripted", broker.address)
            assert [event async for event in second] == heard[1:]
            assert [event async for event in client.events()] == []
            with pytest.raises(ClientClosedError):
                await first.get()

    run(test())


def test_a_stream_that_waits_is_woken() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            stream = client.events()
            waiting = asyncio.create_task(stream.get())
            await client.publish({"n": 1})
            await client.flush()
            broker.peer.send(HeldBackFrame("disk full", 0, "quotes"), HeldBackFrame("", 0, "quotes"))
            assert await waiting == HeldBack("quotes", "disk full")
            assert await stream.get() == Released("quotes")

    run(test())


def test_a_client_that_is_refused_for_good_says_so_at_the_end() -> None:
    async def test() -> None:
        async with ScriptedBroker({Hello: lambda _: [Goodbye("refused", "not you")]}) as broker:
            client = connect(broker.address)
            stream = client.events()
            with pytest.raises(RefusedError):
                await client.open()
            assert [event async for event in stream] == [GaveUp("the broker refused to let this client in: not you")]

    run(test())


def test_a_stream_that_nobody_reads_keeps_the_newest_and_counts_the_others() -> None:
    stream, telling = SyncEventStream(), Telling()
    telling.add(stream)
    for number in range(EVENTS_MAX + 5):
        telling.tell("me", Released(f"p{number}"))
    assert stream.get() == EventsDropped(5)
    assert stream.get() == Released("p5")
    telling.end()
    assert len([*stream]) == EVENTS_MAX - 1


def test_a_stream_that_was_dropped_is_forgotten() -> None:
    telling = Telling()
    stream = EventStream()
    telling.add(stream)
    assert len(telling._streams) == 1
    del stream
    assert len(telling._streams) == 0


def test_a_blocking_program_reads_events_with_a_timeout() -> None:
    broker = ScriptedBroker()
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address)
        stream = client.events()
        with pytest.raises(TimeoutError):
            stream.get(timeout_s=0)
        with client:
            event = stream.get(timeout_s=60)
            assert isinstance(event, Connected)
            with pytest.raises(TimeoutError):
                stream.get(timeout_s=0.001)
        assert [*stream] == []
        with pytest.raises(ClientClosedError):
            stream.get()


def test_the_log_has_a_line_for_each_event_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.client")
    telling = Telling()
    for event in (
        Connected("b", "x"),
        Moved("a", "b", "x", "y"),
        Disconnected("b", "x", "cut", 50),
        Refused("subscription", "TRUE", "no"),
        HeldBack("q", "full"),
        Released("q"),
        GaveUp("no"),
    ):
        telling.tell("me", event)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "INFO", "WARNING", "WARNING", "WARNING", "WARNING", "ERROR"]
    assert caplog.messages[0] == "me: connected to broker b at x"


def test_the_lines_of_one_kind_are_limited_and_no_broker_can_forge_one(caplog: pytest.LogCaptureFixture) -> None:
    telling = Telling()
    for _ in range(50):
        telling.tell("me", HeldBack("q", "full\nERROR forged\x1b[31m"))
    assert len(caplog.messages) == 10
    assert caplog.messages[0] == r"me: messages to pubend q are held back: full\nERROR forged\x1b[31m"


def test_refused_messages_make_few_lines_however_many_they_are(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with RefusingBroker(lambda _: True) as broker:
            client = await connect(broker.address, settings=ClientSettings(linger_ms=0)).open()
            for number in range(30):
                await client.publish({"n": number % 2})
                with pytest.raises(RefusedError):
                    await client.flush()
            await client.close()

    run(test())
    assert [each.partition(": ")[2] for each in caplog.messages] == [
        "a message to pubend quotes refused: not 0",
        "a message to pubend quotes refused: not 1",
        "10 messages so far to pubend quotes refused: not 0",
        "10 messages so far to pubend quotes refused: not 1",
    ]


def test_a_broker_that_starts_later_than_its_client_is_found() -> None:
    async def test() -> None:
        port = unused_port()
        client = connect(f"penstock://127.0.0.1:{port}", settings=QUICK)
        stream = client.events()
        opening = asyncio.create_task(client.open())
        assert "next try in" in str(await stream.get())
        assert not opening.done()
        async with ScriptedBroker(port=port):
            await opening
            assert client.is_connected
            await client.close()

    run(test())
