"""Who hears that messages were refused, or may be lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from client.scripted import RefusingBroker, ScriptedBroker, broker_in_a_thread, run, until
from penstock.client.client import Client, connect
from penstock.client.reports import NAMED_MAX, Reports, who_calls
from penstock.client.sync import connect_sync
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.frames import PROTOCOL_VERSION, PubendPlaces, Publish, Welcome
from penstock.session.errors import ConnectionFailedError, RefusedError
from penstock.session.publish_queue import PublishQueue
from penstock.session.publishing import Publishing
from penstock.session.settings import ClientSettings

QUIET = ClientSettings(linger_ms=50, backoff_first_ms=1)


def refusing(is_bad: Callable[[object], bool]) -> ScriptedBroker:
    return RefusingBroker(is_bad)


def is_negative(number: object) -> bool:
    return isinstance(number, int) and number < 0


async def outcome(client: Client) -> list[tuple[MessageId, str]]:
    try:
        await client.flush()
    except RefusedError as error:
        refused = error
    else:
        return []
    assert refused.count == len(refused.messages)
    return list(refused.messages)


def test_each_task_hears_of_its_own_messages_whoever_flushes_first() -> None:
    async def test() -> None:
        async with refusing(is_negative) as broker, connect(broker.address, settings=QUIET) as client:
            published = asyncio.Barrier(2)

            async def work(*numbers: int) -> tuple[list[MessageId], list[tuple[MessageId, str]]]:
                ids = []
                for number in numbers:
                    ids.append(await client.publish({"n": number}))
                    await asyncio.sleep(0)
                await published.wait()
                return ids, await outcome(client)

            async with asyncio.TaskGroup() as group:
                innocent = group.create_task(work(1, 2, 3))
                guilty = group.create_task(work(-1, 4, -2))
            ids, heard = guilty.result()
            assert heard == [(ids[0], "not -1"), (ids[2], "not -2")]
            assert innocent.result()[1] == []
            await client.flush()

    run(test())


def test_threads_of_a_blocking_client_hear_of_their_own_messages() -> None:
    broker = refusing(is_negative)
    with broker_in_a_thread(broker), connect_sync(broker.address, settings=QUIET) as client:
        both, heard = threading.Barrier(2), dict[int, int]()

        def work(number: int) -> None:
            client.publish({"n": number})
            client.publish_many([Message({"n": number})])
            both.wait()
            try:
                client.flush()
            except RefusedError as error:
                heard[number] = error.count
            both.wait()

        threads = [threading.Thread(target=work, args=(number,)) for number in (1, -1)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert heard == {-1: 2}
        client.flush()


def test_what_a_task_that_has_ended_published_is_heard_by_whoever_flushes_next() -> None:
    async def test() -> None:
        async with refusing(is_negative) as broker, connect(broker.address, settings=QUIET) as client:

            async def work() -> MessageId:
                return await client.publish({"n": -1})

            message_id = await asyncio.create_task(work())
            assert await outcome(client) == [(message_id, "not -1")]
            assert await outcome(client) == []

    run(test())


def test_a_call_with_a_time_limit_counts_for_the_task_that_makes_it() -> None:
    """Some Pythons run it in a task of its own."""

    async def test() -> None:
        async with refusing(is_negative) as broker, connect(broker.address, settings=QUIET) as client:
            await asyncio.wait_for(client.publish({"n": -1}), 60)
            await asyncio.wait_for(client.publish_many([Message({"n": -2})]), 60)
            other = asyncio.create_task(outcome(client))
            assert await other == []
            with pytest.raises(RefusedError, match=r"messages refused: 2"):
                await asyncio.wait_for(client.flush(), 60)

    run(test())


def test_a_cancelled_flush_leaves_the_report_to_the_next_one() -> None:
    async def test() -> None:
        async with refusing(is_negative) as broker, connect(broker.address, settings=QUIET) as client:
            await client.publish({"n": -1})
            flushing = asyncio.create_task(client.flush())
            await until(lambda: client.counters.refused == 1)
            flushing.cancel()
            await asyncio.wait([flushing])
            heard = 0 if flushing.cancelled() else 1
            assert heard + len(await outcome(client)) == 1

    run(test())


def test_closing_tells_what_nobody_has_heard_and_what_cannot_be_told_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with refusing(is_negative) as broker:
            idle = asyncio.Event()

            async def work(client: Client) -> None:
                await client.publish({"n": -1})
                await idle.wait()

            for flush in (True, False):
                client = await connect(broker.address, settings=ClientSettings(linger_ms=0)).open()
                working = asyncio.create_task(work(client))
                await until(lambda client=client: client.counters.refused == 1)  # type: ignore[misc]
                if flush:
                    with pytest.raises(RefusedError, match="not -1"):
                        await client.close()
                    assert not [each for each in caplog.messages if "closed before a flush" in each]
                else:
                    await client.close(flush=False)
                idle.set()
                await working
                idle.clear()

    run(test())
    assert [each for each in caplog.messages if "closed before a flush" in each and "messages refused: 1" in each]


def test_what_may_be_lost_is_heard_by_the_task_that_published_it() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=ClientSettings(linger_ms=0, backoff_first_ms=1)).open()
            message_id = await client.publish({"n": 1})
            await until(lambda: broker.peer.of(Publish))
            del broker.answers[Publish]
            broker.peer.cut()
            await until(lambda: client.counters.lost == 1)
            await asyncio.create_task(client_flushes(client))
            with pytest.raises(ConnectionFailedError, match="with 1 messages on the wire") as caught:
                await client.flush()
            assert (caught.value.messages, caught.value.count) == ((message_id,), 1)
            await client.close()

    run(test())


async def client_flushes(client: Client) -> None:
    await client.flush()


def publishing_to(*pubends: str) -> Publishing:
    publishing = Publishing(ClientSettings(linger_ms=0, batch_bytes=1_000_000))
    greeting = Welcome(PROTOCOL_VERSION, "b1", "test", 11, 2, 50_000, 1_000, 10_000_000, pubends)
    publishing.on_welcome(greeting, now_ms=0)
    return publishing


def queue_of(publishing: Publishing, pubend: str) -> PublishQueue:
    queue = publishing.queue_for(pubend)
    assert queue is not None
    return queue


def body(number: int) -> bytes:
    return encode_body(MessageId(1, 1, 1 + number, 1), Message({}))


def filled(count: int) -> tuple[PublishQueue, Reports]:
    """A queue with messages on the wire."""
    publishing = publishing_to("q")
    queue = queue_of(publishing, "q")
    reports = Reports(publishing)
    for number in range(count):
        queue.put(body(number), now_ms=0)
    queue.take(now_ms=0)
    return queue, reports


def test_of_very_many_refusals_the_first_are_named_and_all_are_counted() -> None:
    queue, reports = filled(NAMED_MAX + 5)
    queue.on_refused(1, "no", NAMED_MAX + 5)
    refusal = reports.refusal(None)
    assert refusal is not None
    assert (len(refusal.messages), refusal.count) == (NAMED_MAX, NAMED_MAX + 5)
    assert reports.refusal(None) is None


def test_marks_of_what_is_settled_are_forgotten() -> None:
    queue, reports = filled(0)
    threads = [threading.current_thread(), None]
    for number in range(1, 101):
        reports.mark(queue, threads[number % 2])
        queue.put(b"x", now_ms=0)
        queue.take(now_ms=0)
        queue.on_ack(number, 1)
    assert len(reports._marks["q"]) <= 2


def test_who_published_is_known_for_each_pubend() -> None:
    """Two publishers take turns at one pubend, and each has the other's share at the second."""
    publishing = publishing_to("a", "b")
    reports = Reports(publishing)
    me, other = threading.current_thread(), threading.Thread(target=threading.Event().wait, daemon=True)
    other.start()
    turns = [("a", me), ("b", other), ("a", other), ("b", me), ("a", other), ("b", me), ("b", other)]
    for number, (pubend, owner) in enumerate(turns):
        queue = queue_of(publishing, pubend)
        if owner is not reports.owner_of(pubend):
            reports.mark(queue, owner)
        queue.put(body(number), now_ms=0)
    publishing.take(now_ms=0)
    queue_of(publishing, "a").on_refused(1, "from a", 2)
    queue_of(publishing, "b").on_refused(2, "from b", 3)
    heard = reports.refusal(me)
    assert heard is not None
    assert heard.messages == tuple((MessageId(1, 1, 1 + number, 1), f"from {turns[number][0]}") for number in (0, 3, 5))
    heard = reports.refusal(other)
    assert heard is not None
    assert [message_id.timestamp_ms - 1 for message_id, _ in heard.messages] == [2, 6]
    assert heard.count == 2


def test_a_task_hears_of_all_pubends_to_which_it_has_published() -> None:
    async def test() -> None:
        broker = refusing(is_negative)
        broker.pubends = ("a", "b")
        async with broker, connect(broker.address, settings=QUIET) as client:

            async def work(sign: int) -> list[tuple[MessageId, str]]:
                for number, pubend in enumerate("abba", start=1):
                    await client.publish({"n": sign * number}, pubend=pubend)
                    await asyncio.sleep(0)
                return await outcome(client)

            async with asyncio.TaskGroup() as group:
                innocent, guilty = group.create_task(work(1)), group.create_task(work(-1))
            assert innocent.result() == []
            assert sorted(reason for _, reason in guilty.result()) == ["not -1", "not -2", "not -3", "not -4"]
            assert client.counters.acknowledged == client.counters.refused == 4

    run(test())


def test_what_was_waiting_for_a_pubend_that_does_not_exist_is_reported_as_refused() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            broker.others, broker.is_complete = (("far", "home", True),), False
            async with connect(broker.address, settings=ClientSettings(linger_ms=60_000)) as client:
                message_id = await client.publish({"n": 1}, pubend="far")
                broker.peer.send(PubendPlaces((), ("far",)))
                await until(lambda: client.counters.refused == 1)
                with pytest.raises(RefusedError, match="overlay penstock has no pubend 'far'") as caught:
                    await client.flush()
                assert [each for each, _ in caught.value.messages] == [message_id]

    run(test())


def test_outside_of_a_loop_it_is_the_thread_that_calls() -> None:
    assert who_calls() is threading.current_thread()

    async def inside() -> None:
        assert who_calls() is asyncio.current_task()
        seen = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: seen.set_result(who_calls()))
        assert await seen is None

    asyncio.run(inside())
