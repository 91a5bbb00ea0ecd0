"""Clients and forks: one made before is another one in each child, one that was open is of no use there."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from client.scripted import LIMIT_S, ScriptedBroker, broker_in_a_thread, delivering, run, until
from forked import Child, in_child
from penstock.client.client import Client, connect
from penstock.client.sync import SyncClient, connect_sync
from penstock.client.token.group import TokenGroup
from penstock.live.node import BrokerNode
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.model.errors import MisuseError
from penstock.model.message_id import MessageId
from penstock.protocol.frames import Hello, Publish
from penstock.session.errors import ClientError, ConnectionFailedError, ForkedError
from penstock.session.settings import ClientSettings

CHILDREN = 3
EACH = 100


@contextmanager
def real_broker(folder: Path) -> Iterator[str]:
    """A real broker with a pubend that guarantees, in a thread of its own; yields its address."""
    place = BrokerPlace(name="b1", number=1, port=0, pubends=("log",), data=folder)
    overlay = Overlay(name="fork", brokers={"b1": place}, links=())
    started, stopped = threading.Event(), asyncio.Event()
    found: list[tuple[asyncio.AbstractEventLoop, int]] = []

    async def serve() -> None:
        async with BrokerNode(overlay, "b1") as node:
            found.append((asyncio.get_running_loop(), node.address[1]))
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(LIMIT_S)
    loop, port = found[0]
    try:
        yield f"penstock://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(LIMIT_S)


async def published(client: Client, number: int) -> int:
    async with client:
        for each in range(EACH):
            await client.publish({"child": number, "n": each})
        await client.flush()
    return client.counters.acknowledged


def published_by_thread(client: SyncClient, number: int) -> int:
    with client:
        for each in range(EACH):
            client.publish({"child": number, "n": each})
        client.flush()
    return client.counters.acknowledged


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
def test_what_each_child_publishes_by_a_client_made_before_the_fork_is_delivered(kind: str, tmp_path: Path) -> None:
    with real_broker(tmp_path) as address:
        client, blocking = connect(address), connect_sync(address)

        def work(number: int) -> int:
            if kind == "asyncio":
                return asyncio.run(published(client, number))
            return published_by_thread(blocking, number)

        children = [Child(lambda number=number: work(number)) for number in range(CHILDREN)]  # type: ignore[misc]
        assert [each.result() for each in children] == [EACH] * CHILDREN
        with connect_sync(address) as reader:
            subscription = reader.subscribe("TRUE", start="earliest")
            taken = [subscription.get(LIMIT_S).attributes for _ in range(CHILDREN * EACH)]
        expected = {(child, n) for child in range(CHILDREN) for n in range(EACH)}
        assert {(each["child"], each["n"]) for each in taken} == expected


def test_a_client_that_is_not_open_is_another_one_in_each_child() -> None:
    anonymous, named = connect("penstock://127.0.0.1:1"), connect("penstock://127.0.0.1:1", name="me")
    chosen = connect("penstock://127.0.0.1:1", settings=ClientSettings(publisher=b"chosen"))

    def identity() -> list[object]:
        chances = anonymous._session._connecting._reconnect._chance.random()
        return [
            anonymous.name,
            chances,
            *(each._session._resident._hello.publisher for each in (anonymous, named, chosen)),
        ]

    seen = [identity(), in_child(identity), in_child(identity)]
    for which in range(4):
        assert len({each[which] for each in seen}) == 3, which  # type: ignore[index]
    assert {each[4] for each in seen} == {b"chosen"}  # type: ignore[index]
    assert in_child(lambda: named.name) == "me"


@pytest.mark.parametrize("make", [connect, connect_sync])
def test_a_chosen_publisher_belongs_to_the_process_that_made_the_client(
    make: Callable[..., Client | SyncClient],
) -> None:
    client = make("penstock://127.0.0.1:1", settings=ClientSettings(publisher=b"chosen", connect_timeout_ms=0))

    def opened() -> object:
        return client.open() if isinstance(client, SyncClient) else asyncio.run(client.open())

    assert "a chosen publisher identity belongs to one process" in str(in_child(lambda: raised(opened)))
    with pytest.raises(ConnectionFailedError):
        opened()


def test_a_child_forked_while_another_thread_opens_a_blocking_client_does_not_wait_for_it() -> None:
    broker = ScriptedBroker({Hello: lambda _: []})
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address)

        def opens() -> None:
            with suppress(ClientError):
                client.open()

        opening = threading.Thread(target=opens)
        opening.start()
        while client._thread is None:
            opening.join(0.001)
        assert "opened in process" in str(in_child(lambda: raised(client.flush)))
        assert "opened in process" in str(in_child(lambda: raised(client.open)))
        client.close()
        opening.join()


def raised(use: Callable[[], object]) -> str:
    try:
        use()
    except ForkedError as error:
        return str(error)
    return "nothing"


def test_every_call_on_an_open_client_is_an_error_in_the_child_and_the_parent_goes_on() -> None:
    async def test() -> None:
        async with delivering(10) as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE").ready()
            await until(lambda: subscription.queued == 10)
            parent, frames = os.getpid(), len(broker.peer.frames)

            def child() -> list[str]:
                said = [
                    raised(lambda: client.publish_nowait({"n": 1})),
                    raised(lambda: client.subscribe("TRUE")),
                ]
                for use in (
                    lambda: client.publish({"n": 1}),
                    lambda: client.publish_many([]),
                    client.flush,
                    client.open,
                    client.status,
                    client.survey,
                    lambda: client.forget("x"),
                    lambda: client.trace(MessageId(1, 1, 1, 1)),
                    lambda: client.held_back_other_than("x"),
                    lambda: anext(client.read("p", 0, 1)),
                    subscription.ready,
                    subscription.get,
                    subscription.batch,
                    subscription.__anext__,
                ):
                    said.append(raised(lambda use=use: asyncio.run(awaited(use))))  # type: ignore[misc]
                asyncio.run(subscription.close())
                asyncio.run(client.close())
                assert not client.is_connected
                return said

            said = in_child(child)
            assert isinstance(said, list)
            assert all(f"opened in process {parent}, and this is process" in each for each in said), said
            assert len(broker.peer.frames) == frames
            assert [(await subscription.get()).tick for _ in range(10)] == list(range(10))
            await client.publish({"n": 1})
            await client.flush()
            assert sum(len(frame.bodies) for frame in broker.peer.of(Publish)) == 1
            assert len(broker.peers) == 1

    run(test())


async def awaited(use: Callable[[], object]) -> None:
    # By the child's loop; a loop in which the parent waits is none of its business.
    result = use()
    async with asyncio.timeout(LIMIT_S):
        await result  # type: ignore[misc]


def test_every_call_on_an_open_blocking_client_is_an_error_in_the_child_and_the_parent_goes_on() -> None:
    broker = delivering(10)
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        subscription = client.subscribe("TRUE").ready()
        # One is taken, and the rest was fetched with it.
        assert subscription.get().tick == 0
        reading = client.read("p", 0, 1)
        frames = len(broker.peer.frames)

        def child() -> list[str]:
            said = [
                raised(use)
                for use in (
                    client.open,
                    lambda: client.publish({"n": 1}),
                    lambda: client.publish_many([]),
                    client.flush,
                    lambda: client.subscribe("TRUE"),
                    client.status,
                    client.survey,
                    lambda: client.forget("x"),
                    lambda: client.trace(MessageId(1, 1, 1, 1)),
                    lambda: next(reading),
                    subscription.ready,
                    subscription.get,
                    lambda: next(subscription),
                    subscription.acknowledge,
                    lambda: subscription.positions,
                )
            ]
            subscription.close()
            client.close()
            return said

        said = in_child(child)
        assert isinstance(said, list)
        assert all("this client was opened in process" in each for each in said), said
        assert len(broker.peer.frames) == frames
        assert [subscription.get().tick for _ in range(9)] == list(range(1, 10))
        client.publish({"n": 1})
        client.flush()
        assert len(broker.peers) == 1


def test_a_lock_that_another_thread_holds_at_the_fork_does_not_hang_the_child() -> None:
    broker = ScriptedBroker()
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        with client._lock:
            running = Child(lambda: raised(client.flush))
        assert "opened in process" in str(running.result())


def test_the_end_of_the_parents_connection_is_seen_although_a_child_has_a_copy() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            release, hold = os.pipe()
            child = Child(lambda: os.read(release, 1))
            connection = client._shell.connection
            assert connection is not None
            connection.abort()
            await until(lambda: broker.peers[0].is_gone)
            os.write(hold, b"x")
            child.result()
            await client.close()
            for each in (release, hold):
                os.close(each)

    run(test())


def test_a_client_that_was_closed_before_stays_closed() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            client = await connect(broker.address).open()
            await client.close()
            assert in_child(lambda: str(client.end)) == "this client is closed"

    run(test())


def test_children_have_names_and_identities_of_their_own_on_the_wire() -> None:
    broker = ScriptedBroker()
    with broker_in_a_thread(broker):
        client = connect(broker.address)

        async def come() -> None:
            async with client:
                pass

        for _ in range(CHILDREN):
            in_child(lambda: asyncio.run(come()))
        hellos = [peer.of(Hello)[0] for peer in broker.peers]
        assert len({each.publisher for each in hellos}) == len({each.name for each in hellos}) == CHILDREN


def test_groups_with_a_token_draw_their_chances_when_they_are_opened() -> None:
    group = TokenGroup("g", every="1 s", about="0.1 s")

    def chances() -> float:
        async def opened() -> float:
            async with group:
                assert group._member is not None
                return float(group._member.view._rng.random())

        return asyncio.run(opened())

    assert len({in_child(chances) for _ in range(CHILDREN)}) == CHILDREN


def test_the_copy_of_a_member_of_a_group_is_none() -> None:
    async def test() -> None:
        async with TokenGroup("g", every="1 s", about="0.1 s") as group:

            def child() -> str:
                with pytest.raises((ClientError, MisuseError)) as caught:
                    _ = group.counters
                asyncio.run(group.close())
                return str(caught.value)

            assert "not a member" in str(in_child(child))
            assert group.is_open

    run(test())


def test_events_end_in_a_child_and_go_on_in_the_parent() -> None:
    broker = ScriptedBroker()
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address)
        events = client.events()
        with client:
            events.get(timeout_s=LIMIT_S)
            assert in_child(lambda: [str(event) for event in events]) == []
            assert "open one after each fork" in str(in_child(lambda: raised(client.events)))
            with pytest.raises(TimeoutError):
                events.get(timeout_s=0)
