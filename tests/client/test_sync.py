from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from itertools import accumulate
from typing import Any

import pytest

from client.scripted import LIMIT_S, ONCE, ScriptedBroker, acknowledgement, broker_in_a_thread, delivering
from penstock.client.sync import SyncClient, connect_sync
from penstock.model.body import decode_attributes, decode_id
from penstock.model.errors import MisuseError
from penstock.model.message import Message
from penstock.protocol.frames import (
    Frame,
    LogAnswer,
    Publish,
    ReadRequest,
    SurveyReply,
    SurveyRequest,
    Unsubscribe,
)
from penstock.protocol.status import BrokerStatus
from penstock.selectors.errors import SelectorError
from penstock.session.errors import ClientClosedError, ConnectionFailedError, PublishTimeoutError, UnknownPubendError
from penstock.session.publishing import PubendPlace


def test_messages_are_published_and_received_without_asyncio() -> None:
    broker = delivering(3_000)
    with broker_in_a_thread(broker), connect_sync(broker.address, name="me") as client:
        first = client.publish({"n": 1}, b"x")
        rest = client.publish_many([Message({"n": 2}), Message({"n": 3})])
        client.flush()
        assert [first, *rest] == sorted([first, *rest])
        assert sum(len(frame.bodies) for frame in broker.peer.of(Publish)) == 3
        with client.subscribe("TRUE") as subscription:
            assert subscription.ready().selector == "TRUE"
            assert subscription.get().tick == 0
            ticks = []
            for message in subscription:
                ticks.append(message.tick)
                if len(ticks) == 2_999:
                    break
            assert ticks == list(range(1, 3_000))
            assert subscription.pending == ()
        assert len(broker.peer.of(Unsubscribe)) == 1
        assert client.status() == BrokerStatus("scripted")
        assert client.counters.published == 3
        assert (client.name, client.broker, client.is_connected) == ("me", "scripted", True)


def test_threads_that_publish_at_once_through_a_small_window_keep_their_order() -> None:
    broker = delivering(0)
    broker.credit_bytes = 1_000
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:

        def publish(place: int) -> None:
            for number in range(200):
                client.publish({"thread": place, "n": number})
            client.flush()

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert (client.counters.published, client.counters.settled) == (800, 800)
        frames = [frame for frame in broker.peer.of(Publish) if frame.bodies]
    firsts = [1, *accumulate((len(frame.bodies) for frame in frames), initial=1)]
    assert [frame.first for frame in frames] == firsts[1 : len(frames) + 1]
    bodies = [body for frame in frames for body in frame.bodies]
    assert len({decode_id(body) for body in bodies}) == 800
    attributes = [decode_attributes(body) for body in bodies]
    for place in range(4):
        assert [each["n"] for each in attributes if each["thread"] == place] == list(range(200))


def test_messages_that_were_published_before_a_close_are_sent() -> None:
    broker = delivering(0)
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address).open()
        for number in range(10):
            client.publish({"n": number})
        assert client.counters.published == 10
        client.close()
        assert client.counters.acknowledged == 10


def test_a_bad_selector_and_a_broker_that_is_not_there_are_reported() -> None:
    broker = delivering(0)
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        with pytest.raises(SelectorError):
            client.subscribe("a = ")
        subscription = client.subscribe("TRUE")
        subscription.close()
        with pytest.raises(ClientClosedError):
            subscription.get()
    with pytest.raises(ConnectionFailedError):
        connect_sync(broker.address, settings=ONCE).open()


def test_a_closed_client_says_so_and_its_thread_has_ended() -> None:
    broker = delivering(0)
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address, name="short-lived")
        with pytest.raises(ClientClosedError, match="not open"):
            client.flush()
        client.open()
        with pytest.raises(ClientClosedError, match="opened before"):
            client.open()
        client.close()
        client.close()
        with pytest.raises(ClientClosedError):
            client.publish({"n": 1})
        assert "penstock short-lived" not in [thread.name for thread in threading.enumerate()]


def test_an_error_inside_with_closes_without_waiting() -> None:
    broker = ScriptedBroker({Publish: lambda _: []})

    def fail() -> None:
        with connect_sync(broker.address) as client:
            client.publish({"n": 1})
            raise ZeroDivisionError

    with broker_in_a_thread(broker), pytest.raises(ZeroDivisionError):
        fail()


def in_parts(frame: ReadRequest) -> list[Frame]:
    """Ten ticks of a log, with a message at the first."""
    last = min(frame.first + 9, frame.last)
    return [LogAnswer(frame.pubend, "", frame.number, (frame.first, last), [frame.first], [b"x"])]


def test_logs_are_read_without_asyncio_and_by_several_threads() -> None:
    broker = ScriptedBroker(
        {SurveyRequest: lambda frame: [SurveyReply(frame.number, (("p", 0, 99),))], ReadRequest: in_parts}
    )
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        span = client.survey().spans["p"]
        found: dict[int, list[int]] = {}

        def read(number: int) -> None:
            parts = list(client.read("p", span.earliest + number, span.latest, "n > 1"))
            found[number] = [tick for part in parts for tick in part.ticks]

        threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert found == {number: list(range(number, 100, 10)) for number in range(5)}
        with pytest.raises(SelectorError):
            next(client.read("p", 0, 9, "n >"))
        with pytest.raises(MisuseError):
            next(client.read("p", 9, 0))


def nothing_runs_in(client: SyncClient) -> Callable[[], bool]:
    """Whether the client's thread has no task but those that it always has."""

    async def tasks() -> list[str]:
        return [each.get_coro().__qualname__ for each in asyncio.all_tasks()]  # type: ignore[union-attr]

    def look() -> bool:
        return not [each for each in client.call(tasks) if "read" in each.lower() or "_part" in each]

    return look


def wait_until(condition: Callable[[], bool]) -> None:
    limit = threading.Event()
    timer = threading.Timer(LIMIT_S, limit.set)
    timer.start()
    try:
        while not condition():
            assert not limit.is_set()
    finally:
        timer.cancel()


def test_a_reading_that_is_left_early_asks_no_more() -> None:
    answers = {ReadRequest: lambda frame: in_parts(frame) if frame.first < 10 else []}
    broker = ScriptedBroker(answers)
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        for _ in range(2):
            for part in client.read("p", 0, 99):
                assert part.first == 0
                break
            wait_until(nothing_runs_in(client))
        parts = client.read("p", 0, 99)
        next(parts)
        del parts
        wait_until(nothing_runs_in(client))
        unread = client.read("p", 0, 99)
        del unread
        assert client._begun == set()


def test_a_reading_ends_when_another_thread_closes_the_client() -> None:
    answers = {ReadRequest: lambda frame: in_parts(frame) if frame.first < 10 else []}
    broker = ScriptedBroker(answers)
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address).open()
        parts = client.read("p", 0, 99)
        next(parts)
        ended: list[Exception] = []

        def read() -> None:
            try:
                next(parts)
            except ClientClosedError as error:
                ended.append(error)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        client.close()
        reader.join(LIMIT_S)
        assert len(ended) == 1
        with pytest.raises(ClientClosedError):
            next(client.read("p", 0, 99))


def test_a_reading_that_was_not_finished_when_the_client_was_closed_can_be_left() -> None:
    broker = ScriptedBroker({ReadRequest: in_parts})
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address).open()
        parts = client.read("p", 0, 99)
        next(parts)
        client.close()
        with pytest.raises(ClientClosedError):
            next(parts)
        left = client.read("p", 0, 99)
        del parts, left


def test_an_interrupt_ends_a_reading_and_is_what_the_application_sees() -> None:
    """As by control C, which arrives where the application waits."""
    broker = ScriptedBroker({ReadRequest: lambda frame: in_parts(frame) if frame.first < 10 else []})
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        parts = client.read("p", 0, 99)
        next(parts)
        ordinary = client.call

        def interrupted(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
            assert client._loop is not None
            future = asyncio.run_coroutine_threadsafe(work(), client._loop)
            wait_until(lambda: len(broker.peer.of(ReadRequest)) == 2)
            future.cancel()
            raise KeyboardInterrupt

        client.call = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            next(parts)
        client.call = ordinary  # type: ignore[method-assign]
        wait_until(nothing_runs_in(client))
        assert [part.first for part in client.read("p", 0, 9)] == [0]


def test_a_reading_that_is_collected_in_the_clients_own_thread_does_not_stop_it() -> None:
    broker = ScriptedBroker({ReadRequest: lambda frame: in_parts(frame) if frame.first < 10 else []})
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        held = [client.read("p", 0, 99)]
        next(held[0])

        async def collect() -> None:
            held.clear()

        client.call(collect)
        wait_until(nothing_runs_in(client))
        assert [part.first for part in client.read("p", 0, 9)] == [0]


class Interrupted:
    """Raises an interrupt in place of the result of some calls; what was begun goes on as it would."""

    def __init__(self, client: SyncClient, *, before: bool) -> None:
        self._client, self._ordinary, self._before = client, client.call, before

    def __call__(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if not self._before:
            assert self._client._loop is not None
            asyncio.run_coroutine_threadsafe(work(), self._client._loop).cancel()
        raise KeyboardInterrupt


@pytest.mark.parametrize("before", [True, False])
def test_an_interrupted_close_leaves_no_connection_and_no_thread(*, before: bool) -> None:
    broker = ScriptedBroker({Publish: lambda _: []})
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address, name="interrupted").open()
        client.publish({"n": 1})
        client.call = Interrupted(client, before=before)  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            client.close()
        wait_until(lambda: broker.peer.is_gone)
        assert "penstock interrupted" not in [thread.name for thread in threading.enumerate()]
        client.close()


def test_a_close_that_is_interrupted_while_the_thread_ends_is_finished_by_the_next_one() -> None:
    broker = ScriptedBroker()
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address, name="half-closed").open()
        thread = client._thread
        assert thread is not None
        ordinary, interrupts = thread.join, [KeyboardInterrupt()]

        def join(timeout: float | None = None) -> None:
            if interrupts:
                raise interrupts.pop()
            ordinary(timeout)

        thread.join = join  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            client.close()
        client.close()
        assert not thread.is_alive()


def test_a_thread_that_gets_no_loop_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(main: Coroutine[Any, Any, None]) -> None:
        main.close()

    monkeypatch.setattr("penstock.client.sync.run", fail)
    with pytest.raises(ClientClosedError):
        connect_sync("penstock://127.0.0.1:1").open()


def test_a_pubend_that_does_not_exist_is_the_callers_fault_and_harms_no_other_message() -> None:
    broker = delivering(0)
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        client.publish({"n": 1})
        for _ in range(2):
            with pytest.raises(UnknownPubendError, match="overlay penstock has no pubend 'nowhere'; there are: quotes"):
                client.publish({"n": 2}, pubend="nowhere")
        with pytest.raises(UnknownPubendError):
            client.publish_many([Message({"n": 2})], pubend="nowhere")
        client.publish({"n": 3})
        client.flush()
        assert (client.counters.published, client.counters.acknowledged) == (2, 2)


def test_a_blocking_client_knows_the_pubends_of_the_overlay() -> None:
    broker = delivering(0)
    broker.pubends, broker.best_effort, broker.others = ("a", "b"), ("b",), (("c", "far", True),)
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        assert client.pubends == {
            "a": PubendPlace("scripted", is_guaranteed=True),
            "b": PubendPlace("scripted", is_guaranteed=False),
            "c": PubendPlace("far", is_guaranteed=True),
        }


def test_a_thread_that_waits_for_one_pubend_keeps_no_other_thread_from_publishing_to_another() -> None:
    broker = delivering(0)
    broker.pubends, broker.credit_bytes = ("a", "b"), 200
    broker.answers[Publish] = lambda frame: [] if frame.pubend == "a" else [acknowledgement(frame)]
    with broker_in_a_thread(broker) as there, connect_sync(broker.address) as client:
        client.publish({"n": 0}, bytes(200), pubend="a")
        waiting = threading.Thread(target=lambda: client.publish({"n": 1}, bytes(200), pubend="a"), daemon=True)
        waiting.start()
        for number in range(50):
            client.publish({"n": number}, bytes(50), pubend="b")
        assert waiting.is_alive()

        def let_go() -> None:
            del broker.answers[Publish]
            broker.peer.send(acknowledgement(next(each for each in broker.peer.of(Publish) if each.pubend == "a")))

        there(let_go)
        waiting.join(LIMIT_S)
        client.flush()
        assert client.counters.acknowledged == 52
        bodies = {pubend: list[object]() for pubend in ("a", "b")}
        for frame in broker.peer.of(Publish):
            bodies[frame.pubend] += [decode_attributes(body)["n"] for body in frame.bodies]
        assert bodies == {"a": [0, 1], "b": list(range(50))}


def test_threads_that_publish_to_several_pubends_at_once_keep_their_order_at_each() -> None:
    broker = delivering(0)
    broker.pubends, broker.credit_bytes = ("a", "b"), 1_000
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:

        def publish(place: int) -> None:
            for number in range(200):
                client.publish({"thread": place, "n": number}, pubend="ab"[number % 2])
            client.flush()

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert (client.counters.published, client.counters.settled) == (800, 800)
        frames = broker.peer.of(Publish)
    bodies = [(frame.pubend, body) for frame in frames for body in frame.bodies]
    assert len({decode_id(body) for _, body in bodies}) == 800, "no identifier is used twice"
    for pubend, start in (("a", 0), ("b", 1)):
        attributes = [decode_attributes(body) for name, body in bodies if name == pubend]
        for place in range(4):
            assert [each["n"] for each in attributes if each["thread"] == place] == list(range(start, 200, 2))


def test_a_blocking_publish_and_flush_can_be_limited_in_time() -> None:
    broker = ScriptedBroker({Publish: lambda _: []})
    broker.credit_bytes = 900
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address).open()
        with pytest.raises(PublishTimeoutError) as caught:
            client.publish_many([Message({"n": number}, bytes(300)) for number in range(5)], timeout_s=0.01)
        assert len(caught.value.messages) == 2
        with pytest.raises(PublishTimeoutError):
            client.publish({"n": 9}, bytes(300), timeout_s=0)
        with pytest.raises(PublishTimeoutError, match="2 messages were not acknowledged"):
            client.flush(timeout_s=0.01)
        assert client.counters.published == 2
        client.close(flush=False)
