from __future__ import annotations

import asyncio
import socket

import pytest

from client.scripted import QUICK, ScriptedBroker, deliver, run, until
from penstock.client.client import Client, connect
from penstock.protocol.frames import Goodbye, Hello, Migrate, Moved, MoveFailed, Publish, Subscribe, Subscribed
from penstock.session.settings import ClientSettings


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.migrating._OVERLAP_S", 0.02)
    monkeypatch.setattr("penstock.client.migrating._TRAIL_S", 0.02)


class New(ScriptedBroker):
    """The broker to go to."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "new"


def order_of(new: ScriptedBroker, session: int = 7) -> Migrate:
    return Migrate(session, 1, "new", new.address)


def left(broker: ScriptedBroker) -> None:
    """Ends the old connection, as a broker does when its last data is sent."""
    broker.answers[Moved] = lambda _: [Goodbye("moved", "goes on at new")]


async def refusal(old: ScriptedBroker, order: Migrate) -> str:
    count = len(old.peer.of(MoveFailed))
    old.peer.send(order)
    await until(lambda: len(old.peer.of(MoveFailed)) > count)
    failed: MoveFailed = old.peer.of(MoveFailed)[-1]
    assert failed.session == order.session
    return failed.reason


def test_a_client_goes_where_it_is_told_and_is_looked_for_there_from_then_on() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            left(old)
            subscription = await client.subscribe("TRUE").ready()
            old.peer.send(deliver(1), order_of(new))
            await until(lambda: client.broker == "new")
            await until(lambda: new.peer.of(Moved) == [Moved(7)])
            assert old.peer.of(Moved) == [Moved(7)]
            await until(lambda: old.peer.is_gone)
            new.peer.send(deliver(2))
            assert [(await subscription.get()).tick for _ in range(2)] == [1, 2]
            new.peer.cut()
            await until(lambda: len(new.peers) == 2 and new.peer.of(Subscribe))
            assert (client.broker, client.counters.moves, client.counters.reconnects) == ("new", 1, 1)
            assert len(old.peers) == 1

    run(test())


def test_what_the_old_broker_still_has_is_taken_before_the_connection_ends() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.of(Moved) and old.peer.of(Moved))
            assert client.broker == "new"
            new.peer.send(deliver(2))
            old.peer.send(deliver(1))
            assert (await subscription.get()).tick == 1, "what came over the new connection waits for that"
            assert not old.peer.is_gone
            old.peer.send(Goodbye("moved", "goes on at new"))
            assert (await subscription.get()).tick == 2
            await until(lambda: old.peer.is_gone)

    run(test())


def test_an_old_broker_that_does_not_end_the_connection_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.client.migrating._LEAVE_S_MAX", 0.05)

    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            _kept = await client.subscribe("TRUE").ready()
            old.peer.send(order_of(new))
            await until(lambda: old.peer.is_gone)
            assert client.broker == "new"

    run(test())


def test_a_client_stays_where_it_is_if_nobody_answers_there_or_says_no() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            with socket.socket() as reserved:
                reserved.bind(("127.0.0.1", 0))
                port = reserved.getsockname()[1]
            unreachable = Migrate(7, 1, "new", f"penstock://127.0.0.1:{port}")
            assert str(port) in await refusal(old, unreachable)
            new.answers[Hello] = lambda _: [Goodbye("full", "no room here")]
            assert "no room here" in await refusal(old, order_of(new, 8))
            new.answers[Hello] = lambda _: [Goodbye("refused", "not you")]
            assert "not you" in await refusal(old, order_of(new, 9))
            old.peer.send(deliver(1))
            assert (await subscription.get()).tick == 1
            assert (client.broker, client.counters.reconnects, len(old.peers)) == ("scripted", 0, 1)

    run(test())


def test_a_client_that_has_moved_and_then_stays_soon_has_nothing_left_of_the_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with (
            ScriptedBroker() as old,
            New() as new,
            New() as third,
            connect(old.address, settings=QUICK) as client,
        ):
            left(old)
            _kept = await client.subscribe("TRUE").ready()
            moves = client._session.moves
            third.answers[Hello] = lambda _: [Goodbye("full", "no room here")]
            monkeypatch.setattr("penstock.client.migrating._TRAIL_S", 60.0)
            old.peer.send(order_of(new))
            await until(lambda: moves.overlap is not None and moves.overlap._is_released)
            monkeypatch.setattr("penstock.client.migrating._TRAIL_S", 0.02)
            assert "no room here" in await refusal(new, order_of(third, 8))
            await until(lambda: moves.overlap is None)
            assert (client.broker, moves.count) == ("new", 1)

    run(test())


def test_a_new_broker_that_dies_in_the_middle_changes_nothing() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            new.answers[Subscribe] = lambda _: []
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.of(Subscribe))
            new.peer.cut()
            await until(lambda: old.peer.of(MoveFailed))
            new.answers.clear()
            left(old)
            old.peer.send(order_of(new, 8), deliver(1))
            await until(lambda: client.broker == "new")
            assert (await subscription.get()).tick == 1

    run(test())


def test_a_new_broker_that_is_not_ready_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.migrating._ARRIVE_S_MAX", 0.05)

    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            _kept = await client.subscribe("TRUE").ready()
            new.answers[Subscribe] = lambda _: []
            assert "not ready within" in await refusal(old, order_of(new))
            await until(lambda: new.peer.is_gone)

    run(test())


@pytest.mark.parametrize("is_ready", [True, False])
def test_if_the_old_broker_dies_in_the_middle_the_new_one_has_the_client(is_ready: bool) -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            if not is_ready:
                new.answers[Subscribe] = lambda _: []
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.of(Subscribe))
            old.peer.cut()
            await until(lambda: client.broker == "new")
            if not is_ready:
                assert not subscription.is_ready
                new.peer.send(Subscribed(1, "TRUE"))
            await subscription.ready()
            new.peer.send(deliver(1))
            assert (await subscription.get()).tick == 1
            assert (len(old.peers), client.counters.moves) == (1, 1)

    run(test())


def test_if_the_old_broker_dies_before_the_new_one_has_answered_the_client_reconnects() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            _kept = await client.subscribe("TRUE").ready()
            new.answers[Hello] = lambda _: []
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.frames)
            old.peer.cut()
            await until(lambda: len(old.peers) == 2 and client.is_connected)
            await until(lambda: new.peer.is_gone)
            assert (client.broker, client.counters.moves) == ("scripted", 0)

    run(test())


def test_if_the_old_broker_dies_when_the_new_one_does_not_know_all_positions_the_client_reconnects() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            new.answers[Subscribe] = lambda _: []
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.of(Subscribe))
            old.peer.send(Subscribed(1, "TRUE", (), (("quotes", 5),)))
            await until(lambda: subscription.positions == {"quotes": 5})
            old.peer.cut()
            await until(lambda: len(old.peers) == 2 and old.peer.of(Subscribe))
            assert old.peer.of(Subscribe) == [Subscribe(1, "TRUE", (("quotes", 5),), resumes=True)]
            await until(lambda: new.peer.is_gone)
            assert client.counters.moves == 0

    run(test())


def test_who_is_pinned_publishes_or_moves_already_stays() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new:
            async with connect(old.address, settings=ClientSettings(pinned=True)):
                assert old.peer.of(Hello)[0].pinned
                assert await refusal(old, order_of(new)) == "the client is pinned"
            async with connect(old.address, settings=QUICK) as publisher:
                await publisher.publish({"n": 1})
                assert await refusal(old, order_of(new)) == "the client publishes"
            async with connect(old.address, settings=QUICK) as mover:
                _kept = await mover.subscribe("TRUE").ready()
                new.answers[Subscribe] = lambda _: []
                old.peer.send(order_of(new))
                await until(lambda: new.peers and new.peer.of(Subscribe))
                assert await refusal(old, order_of(new, 8)) == "the client is moving already"
                assert "not-an-address" in await refusal_while_free(mover, old, new)

    async def refusal_while_free(mover: Client, old: ScriptedBroker, new: ScriptedBroker) -> str:
        new.peer.cut()
        await until(lambda: len(old.peer.of(MoveFailed)) == 2)
        assert mover.broker == "scripted"
        return await refusal(old, Migrate(9, 1, "new", "not-an-address"))

    run(test())


def test_who_begins_to_publish_in_the_middle_stays() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new, connect(old.address, settings=QUICK) as client:
            _kept = await client.subscribe("TRUE").ready()
            new.answers[Subscribe] = lambda _: []
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.of(Subscribe))
            await client.publish({"n": 1})
            new.peer.send(Subscribed(1, "TRUE"))
            await until(lambda: old.peer.of(MoveFailed))
            await client.flush()
            assert old.peer.of(Publish)
            assert not new.peer.of(Publish)

    run(test())


def test_a_client_that_is_closed_in_the_middle_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with ScriptedBroker() as old, New() as new:
            client = await connect(old.address, settings=QUICK).open()
            _kept = await client.subscribe("TRUE").ready()
            new.answers[Subscribe] = lambda _: []
            old.peer.send(order_of(new))
            await until(lambda: new.peers and new.peer.of(Subscribe))
            await client.close()
            await until(lambda: new.peer.is_gone and old.peer.is_gone)
            await asyncio.sleep(0)

    run(test())
