"""Durable subscriptions: with a broker that says what a test wants, and with a real one that keeps their positions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from client.scripted import QUICK, ScriptedBroker, broker_in_a_thread, deliver, run, until
from live.support import FAST, guaranteed
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.client.sync import connect_sync
from penstock.live.node import BrokerNode
from penstock.model.errors import MisuseError
from penstock.model.tick import tick_at
from penstock.protocol.frames import (
    LATEST,
    Acknowledge,
    Forget,
    Forgotten,
    Frame,
    Horizons,
    Refused,
    Settle,
    Settled,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from penstock.session.errors import ClientClosedError, ConnectionFailedError, RefusedError, TakenOverError
from penstock.session.inbox import Lag
from penstock.session.received import BestEffortReceived, Received
from penstock.session.settings import ClientSettings

AT_ONCE = ClientSettings(backoff_first_ms=1, backoff_max_ms=20, acknowledge_ms=0)
TAKEN_OVER = "durable subscription 'app' was taken over or forgotten"


def serving(count: int = 10) -> ScriptedBroker:
    """A broker with so many messages, from tick 1 on, that begins where its clients want."""

    def serve(frame: Subscribe) -> list[Frame]:
        start = dict(frame.positions).get("quotes", 1)
        begins = Horizons(0, start, frame.number.to_bytes(4), is_only=True)
        messages = [deliver(tick, frame.number) for tick in range(start, count + 1)]
        return [Subscribed(frame.number, "TRUE", (), (("quotes", start),)), begins, *messages]

    return ScriptedBroker({Subscribe: serve})


def acknowledged(broker: ScriptedBroker) -> int:
    """The last position of the first subscription that the client has told."""
    frames = [frame for frame in broker.peer.of(Acknowledge) if frame.number == 1]
    return dict(frames[-1].positions)[0] if frames else 0


# Against a script.


def test_what_was_read_is_acknowledged_when_the_application_asks_for_more() -> None:
    async def test() -> None:
        async with serving(3) as broker, connect(broker.address, settings=AT_ONCE) as client:
            subscription = await client.subscribe("TRUE", durable="app").ready()
            assert (await subscription.get()).tick == 1
            assert (await subscription.get()).tick == 2
            await until(lambda: acknowledged(broker) == 2)
            assert (await subscription.batch())[0].tick == 3
            await until(lambda: acknowledged(broker) == 3)
            waiting = asyncio.create_task(subscription.get())
            await until(lambda: acknowledged(broker) == 4)
            broker.peer.send(Horizons(0, 9))
            await until(lambda: acknowledged(broker) == 9)
            assert subscription.acknowledged == {"quotes": 9}
            waiting.cancel()
            await asyncio.wait([waiting])

    run(test())


def test_very_much_is_acknowledged_before_its_time() -> None:
    async def test() -> None:
        settings = ClientSettings(acknowledge_ms=10**6)
        async with serving(5_000) as broker, connect(broker.address, settings=settings) as client:
            subscription = client.subscribe("TRUE", durable="app")
            for _ in range(4_500):
                await subscription.get()
            # Others get their turn now and then only, so the last ones may wait.
            await until(lambda: acknowledged(broker) > 3_000)
            assert len(broker.peer.of(Acknowledge)) <= 5

    run(test())


@pytest.mark.parametrize("end", ["close", "with", "client"])
def test_an_orderly_end_acknowledges_what_was_read(end: str) -> None:
    async def test() -> None:
        settings = ClientSettings(acknowledge_ms=10**6)
        async with serving() as broker:
            async with connect(broker.address, settings=settings) as client:
                async with client.subscribe("TRUE", durable="app") as subscription:
                    assert [(await subscription.get()).tick for _ in range(4)] == [1, 2, 3, 4]
                    if end == "close":
                        await subscription.close()
                    if end == "client":
                        await client.close()
                if end == "with":
                    assert [type(frame) for frame in broker.peer.frames[-2:]] == [Acknowledge, Unsubscribe]
            await until(lambda: broker.peer.is_gone)
            assert acknowledged(broker) == 5
            assert subscription.acknowledged == {"quotes": 5}

    run(test())


@pytest.mark.parametrize("of_client", [True, False])
def test_what_an_application_fails_with_is_not_acknowledged(of_client: bool) -> None:
    async def fail(subscription: Subscription) -> None:
        async for message in subscription:
            if message.tick == 3:
                raise ZeroDivisionError

    async def program(address: str) -> None:
        async with connect(address, settings=AT_ONCE) as client:
            if of_client:
                await fail(client.subscribe("TRUE", durable="app"))
            async with client.subscribe("TRUE", durable="app") as subscription:
                await fail(subscription)

    async def test() -> None:
        async with serving() as broker:
            with pytest.raises(ZeroDivisionError):
                await program(broker.address)
            await until(lambda: broker.peer.is_gone)
            assert acknowledged(broker) == 3

    run(test())


def test_manually_nothing_counts_but_what_the_application_says() -> None:
    async def test() -> None:
        async with serving() as broker:
            async with connect(broker.address, settings=AT_ONCE) as client:
                subscription = await client.subscribe("TRUE", durable="app", acknowledge="manual").ready()
                messages = [await subscription.get() for _ in range(6)]
                await until(lambda: acknowledged(broker) == 1)
                subscription.acknowledge_through(messages[2])
                await until(lambda: acknowledged(broker) == 4)
                with pytest.raises(MisuseError, match="tick 7 of pubend quotes was not read"):
                    subscription.acknowledge_through(Received("quotes", 7, b""))
            await until(lambda: broker.peer.is_gone)
            assert acknowledged(broker) == 4
            with pytest.raises(ClientClosedError):
                subscription.acknowledge_through()

    run(test())


def test_manually_all_that_was_read_can_be_acknowledged_at_once() -> None:
    async def test() -> None:
        async with serving() as broker, connect(broker.address, settings=AT_ONCE) as client:
            async with client.subscribe("TRUE", durable="app", acknowledge="manual") as subscription:
                await subscription.batch(4)
                subscription.acknowledge_through()
            assert acknowledged(broker) == 5
            for durable in ("", "app"):
                with pytest.raises(MisuseError):
                    client.subscribe("TRUE", durable=durable).acknowledge_through()

    run(test())


def test_it_resumes_from_what_has_arrived_and_says_again_what_was_read() -> None:
    async def test() -> None:
        async with serving() as broker, connect(broker.address, settings=AT_ONCE) as client:
            subscription = await client.subscribe("TRUE", start="earliest", missing="latest", durable="app").ready()
            assert broker.peer.of(Subscribe) == [
                Subscribe(1, "TRUE", otherwise=0, missing="latest", durable="app"),
            ]
            await until(lambda: subscription.queued == 10)
            await subscription.batch(5)
            broker.peer.cut()
            await until(lambda: len(broker.peers) == 2 and broker.peer.of(Acknowledge))
            assert broker.peer.of(Subscribe) == [
                Subscribe(1, "TRUE", (("quotes", 11),), resumes=True, otherwise=0, missing="latest", durable="app")
            ]
            assert acknowledged(broker) == 1, "the application is at work on the batch"
            assert len(await subscription.batch()) == 5
            await until(lambda: acknowledged(broker) == 6)

    run(test())


def test_one_that_is_taken_over_ends_with_the_reason() -> None:
    async def test() -> None:
        async with serving() as broker, connect(broker.address, settings=AT_ONCE) as client:
            subscription = await client.subscribe("TRUE", durable="app").ready()
            await until(lambda: subscription.queued == 10)
            await subscription.batch(5)
            broker.peer.send(Refused("subscribe", 1, TAKEN_OVER))
            await until(lambda: subscription.queued == 0)
            for use in (subscription.get, subscription.batch, subscription.ready):
                with pytest.raises(TakenOverError, match="was taken over"):
                    await use()
            await subscription.close()
            assert broker.peer.of(Unsubscribe) == []
            assert subscription.positions == {"quotes": 6}

    run(test())


def test_forgetting_is_answered_refused_or_interrupted() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            broker.answers[Forget] = lambda frame: [Forgotten(frame.number, ("far",))]
            assert await client.forget("app") == ("far",)
            broker.answers[Forget] = lambda frame: [Refused("forget", frame.number, "there is none")]
            with pytest.raises(RefusedError, match="refused to forget a durable subscription: there is none"):
                await client.forget("app")
            with pytest.raises(MisuseError, match="durable name 'my app'"):
                await client.forget("my app")
            broker.answers[Forget] = lambda _: []
            forgetting = asyncio.create_task(client.forget("app"))
            await until(lambda: len(broker.peer.of(Forget)) == 3)
            broker.peer.cut()
            with pytest.raises(ConnectionFailedError, match="before the broker answered"):
                await forgetting

    run(test())


def test_lag_goes_with_what_is_read_and_with_silence() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            start = tick_at(1_000)
            broker.answers[Subscribe] = lambda frame: [Subscribed(frame.number, "TRUE", (), (("quotes", start),))]
            subscription = await client.subscribe("TRUE").ready()
            number = (1).to_bytes(4)
            broker.peer.send(Horizons(0, start, number, is_only=True, present=tick_at(5_000)), deliver(tick_at(3_000)))
            await until(lambda: subscription.queued == 1)
            assert subscription.lag == {"quotes": Lag(2_000, 1)}
            await subscription.get()
            broker.peer.send(Horizons(0, tick_at(4_500)))
            await until(lambda: subscription.lag == {"quotes": Lag(500, 0)})

    run(test())


def test_where_to_begin_is_said_to_the_broker() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            await client.subscribe("TRUE", start="earliest").ready()
            await client.subscribe("TRUE", start={"quotes": 5}, missing="earliest").ready()
            with pytest.raises(MisuseError, match="start 'oldest'"):
                client.subscribe("TRUE", start="oldest")  # type: ignore[arg-type]
            asked = [(frame.positions, frame.otherwise, frame.missing) for frame in broker.peer.of(Subscribe)]
            assert asked == [((), 0, "fail"), ((("quotes", 5),), LATEST, "earliest")]

    run(test())


# Without asyncio.


def test_what_was_fetched_for_a_blocking_reader_is_not_acknowledged_before_it_is_read() -> None:
    broker = serving(100)
    with broker_in_a_thread(broker), connect_sync(broker.address, settings=AT_ONCE) as client:
        with client.subscribe("TRUE", durable="app") as subscription:
            assert [subscription.get().tick for _ in range(7)] == list(range(1, 8))
            assert subscription.lag["quotes"].pending == 93
            assert subscription.positions == {"quotes": 8}
        assert acknowledged(broker) == 8
        assert subscription.acknowledged == {"quotes": 8}
        assert subscription.positions == {"quotes": 8}


@pytest.mark.parametrize(("fails", "expected"), [(False, 4), (True, 3)])
def test_a_blocking_client_acknowledges_at_its_end_what_was_done(fails: bool, expected: int) -> None:
    def program() -> None:
        with connect_sync(broker.address, settings=AT_ONCE) as client:
            # Kept: one that is forgotten is withdrawn before.
            subscription = client.subscribe("TRUE", durable="app")
            for message in subscription:
                if message.tick == 3:
                    if fails:
                        raise ZeroDivisionError
                    return

    broker = serving(100)
    with broker_in_a_thread(broker):
        with suppress(ZeroDivisionError):
            program()
        pause = threading.Event()
        while not broker.peer.is_gone:
            assert not pause.wait(0.001)
        assert acknowledged(broker) == expected


def test_a_blocking_reader_acknowledges_manually_what_it_has_read() -> None:
    broker = serving(100)
    with broker_in_a_thread(broker), connect_sync(broker.address, settings=AT_ONCE) as client:
        with client.subscribe("TRUE", durable="app", acknowledge="manual") as subscription:
            messages = [subscription.get() for _ in range(7)]
            subscription.acknowledge_through(messages[2])
        assert acknowledged(broker) == 4
        with client.subscribe("TRUE", durable="app", acknowledge="manual") as subscription:
            messages = [subscription.get() for _ in range(7)]
            subscription.acknowledge_through()
        assert broker.peer.of(Acknowledge)[-1] == Acknowledge(((0, 8),), 2)
        broker.answers[Forget] = lambda frame: [Forgotten(frame.number)]
        assert client.forget("app") == ()


# Against a real broker.


@asynccontextmanager
async def broker_with_clients(folder: Path) -> AsyncIterator[tuple[BrokerNode, str, Client]]:
    """A broker that keeps its data, its address, and a client that publishes."""
    node = BrokerNode(guaranteed(folder, tunables=FAST), "b1")
    await node.start()
    url = "penstock://{}:{}".format(*node.address)
    async with connect(url, settings=QUICK) as publisher:
        yield node, url, publisher
    await node.stop()


def kept(node: BrokerNode) -> int:
    """The position that the pubend keeps."""
    durables = node.broker.status().guaranteed.pubends["b1.a"].durables
    return int(durables["app"].tick) if "app" in durables else 0


async def numbers(subscription: Subscription, count: int) -> list[object]:
    return [(await subscription.get()).attributes["n"] for _ in range(count)]


async def drop(client: Client) -> None:
    """What becomes of a program that is killed: no farewell."""
    client._shell.abort()
    await until(lambda: client._shell.is_idle)


async def publish(publisher: Client, first: int, end: int) -> None:
    for number in range(first, end):
        await publisher.publish({"n": number})
    await publisher.flush()


def test_who_died_gets_again_what_was_not_acknowledged_and_nothing_else(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (node, url, publisher):
            victim = await connect(url, settings=AT_ONCE).open()
            subscription = await victim.subscribe("n >= 0", durable="app", acknowledge="manual").ready()
            await publish(publisher, 0, 10)
            messages = [await subscription.get() for _ in range(8)]
            subscription.acknowledge_through(messages[4])
            await until(lambda: kept(node) == messages[5].tick)
            await drop(victim)
            await publish(publisher, 10, 15)
            async with connect(url, settings=AT_ONCE) as client:
                again = await client.subscribe("n >= 0", durable="app").ready()
                assert await numbers(again, 10) == list(range(5, 15))
                await publish(publisher, 15, 20)
                assert await numbers(again, 5) == list(range(15, 20))

    run(test())


def test_positions_that_were_stored_with_the_effects_count_more_than_what_was_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (_, url, publisher):
            await publish(publisher, 0, 1)
            effects, stored = list[object](), dict[str, int]()
            for life in range(3):
                client = await connect(url, settings=AT_ONCE).open()
                subscription = await client.subscribe(
                    "n >= 0", durable="app", acknowledge="manual", start=stored or "earliest"
                ).ready()
                await publish(publisher, 10 * life + 1, 10 * life + 11)
                effects += await numbers(subscription, 7)
                stored = subscription.positions
                # Killed between the transaction and the acknowledgement.
                await drop(client)
            assert effects == list(range(21))

    run(test())


def test_lag_is_nothing_when_everything_was_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (_, url, publisher), connect(url, settings=AT_ONCE) as client:
            subscription = await client.subscribe("n >= 5", durable="app").ready()
            await publish(publisher, 0, 10)
            await until(lambda: subscription.queued == 5)
            assert subscription.lag["b1.a"].pending == 5
            last = (await subscription.batch())[-1]
            assert subscription.lag["b1.a"].pending == 0
            await until(lambda: subscription.positions["b1.a"] > last.tick + 1)
            await until(lambda: subscription.lag == {"b1.a": Lag(0, 0)})

    run(test())


def test_who_comes_later_with_the_same_name_takes_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker_with_clients(tmp_path) as (node, url, publisher),
            connect(url, settings=AT_ONCE) as one,
            connect(url, settings=AT_ONCE) as two,
        ):
            first = await one.subscribe("n >= 0", durable="app", acknowledge="manual").ready()
            await publish(publisher, 0, 10)
            messages = [await first.get() for _ in range(4)]
            first.acknowledge_through(messages[2])
            await until(lambda: kept(node) == messages[3].tick)
            second = await two.subscribe("n >= 0", durable="app").ready()
            with pytest.raises(TakenOverError, match="'app' was taken over"):
                await numbers(first, 10)
            assert await numbers(second, 7) == list(range(3, 10))

    run(test())


def test_a_forgotten_name_begins_anew(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (_, url, publisher), connect(url, settings=AT_ONCE) as client:
            with pytest.raises(RefusedError, match="no durable subscription 'app'"):
                await client.forget("app")
            subscription = await client.subscribe("n >= 0", durable="app").ready()
            await publish(publisher, 0, 10)
            assert await numbers(subscription, 10) == list(range(10))
            assert await publisher.forget("app") == ()
            with pytest.raises(TakenOverError):
                await subscription.get()
            again = await client.subscribe("n >= 0", durable="app", start="earliest").ready()
            assert await numbers(again, 10) == list(range(10))

    run(test())


def test_an_orderly_end_is_the_beginning_of_the_next_life(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (_, url, publisher):
            seen: list[object] = []
            for life in range(3):
                async with connect(url, settings=QUICK) as client:
                    subscription = await client.subscribe("n >= 0", durable="app").ready()
                    await publish(publisher, 10 * life, 10 * life + 10)
                    seen += await numbers(subscription, 7)
            assert seen == list(range(21))

    run(test())


def settled(node: BrokerNode) -> int:
    """How many messages after the position the pubend keeps."""
    return node.broker.status().guaranteed.pubends["b1.a"].durables["app"].settled


def test_a_single_message_is_kept_when_its_acknowledgement_returns(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (node, url, publisher):
            victim = await connect(url, settings=QUICK).open()
            subscription = await victim.subscribe("n >= 0", durable="app", acknowledge="manual").ready()
            await publish(publisher, 0, 10)
            messages = [await subscription.get() for _ in range(8)]
            await subscription.acknowledge(messages[5])
            await subscription.acknowledge(messages[2])
            assert settled(node) == 2
            await subscription.acknowledge(messages[2])
            await subscription.acknowledge(messages[0])
            assert kept(node) == messages[1].tick
            await subscription.acknowledge(messages[0])
            await subscription.acknowledge_through(messages[3])
            assert (kept(node), settled(node)) == (messages[4].tick, 1)
            await drop(victim)
            async with connect(url, settings=AT_ONCE) as client:
                again = await client.subscribe("n >= 0", durable="app").ready()
                assert await numbers(again, 5) == [4, 6, 7, 8, 9]
                await again.close()
                assert kept(node) > messages[7].tick, "it passes by what others have done"
                assert settled(node) == 0

    run(test())


def test_who_waits_has_the_broker_told_at_once_and_in_order_only_of_the_position() -> None:
    async def test() -> None:
        broker = serving()
        broker.answers[Settle] = lambda frame: [Settled(frame.number, frame.pubend, frame.below, frame.ticks)]
        never = ClientSettings(acknowledge_ms=10**6)
        async with broker, connect(broker.address, settings=never) as client:
            subscription = await client.subscribe("TRUE", durable="app", acknowledge="manual").ready()
            messages = [await subscription.get() for _ in range(6)]
            async with asyncio.timeout(5):
                await subscription.acknowledge(messages[0])
                await subscription.acknowledge(messages[1])
                await subscription.acknowledge(messages[3])
                await subscription.acknowledge_through()
            assert broker.peer.of(Settle) == [
                Settle(1, 0, 2, ()),
                Settle(1, 0, 3, ()),
                Settle(1, 0, 3, (4,)),
                Settle(1, 0, 7, ()),
            ]

    run(test())


def test_many_that_wait_at_once_share_frames(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker_with_clients(tmp_path) as (node, url, publisher), connect(url, settings=QUICK) as client:
            subscription = await client.subscribe("n >= 0", durable="app", acknowledge="manual").ready()
            await publish(publisher, 0, 300)
            messages = [await subscription.get() for _ in range(300)]
            await asyncio.gather(*(acknowledged_soon(subscription, each) for each in reversed(messages)))
            assert kept(node) > messages[-1].tick
            assert node.broker.status().counts["settled"] <= 3, "one for all, or one more for those that came late"

    run(test())


async def acknowledged_soon(subscription: Subscription, message: Received) -> None:
    await subscription.acknowledge(message)


def test_who_waits_for_what_is_kept_hears_that_the_subscription_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving() as broker, connect(broker.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE", durable="app", acknowledge="manual").ready()
            messages = [await subscription.get() for _ in range(6)]
            waiting = asyncio.ensure_future(subscription.acknowledge(messages[2]))
            await until(lambda: broker.peer.of(Settle))
            assert broker.peer.of(Settle) == [Settle(1, 0, 1, (3,))]
            broker.peer.send(Refused("subscribe", 1, TAKEN_OVER))
            with pytest.raises(TakenOverError):
                await waiting
            other = await client.subscribe("TRUE", durable="other", acknowledge="manual").ready()
            waiting = asyncio.ensure_future(other.acknowledge(await other.get()))
            await asyncio.sleep(0)
            await other.close()
            with pytest.raises(ClientClosedError):
                await waiting

    run(test())


def test_a_single_message_counts_without_being_awaited_and_before_the_end() -> None:
    async def test() -> None:
        async with serving() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", durable="app", acknowledge="manual").ready()
            messages = [await subscription.get() for _ in range(6)]
            subscription.acknowledge(messages[3])
            subscription.acknowledge(messages[5])
            subscription.acknowledge(messages[0])
            await subscription.close()
            assert broker.peer.of(Settle)[-1] == Settle(1, 0, 2, (4, 6))

    run(test())


def test_only_what_was_read_and_is_known_is_acknowledged() -> None:
    async def test() -> None:
        async with serving() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", durable="app", acknowledge="manual").ready()
            await subscription.get()
            with pytest.raises(MisuseError, match="tick 2 of pubend quotes was not read"):
                subscription.acknowledge(Received("quotes", 2, b""))
            with pytest.raises(MisuseError, match=r"needs the message; acknowledge_through\(\)"):
                subscription.acknowledge()
            for durable in ("", "auto"):
                other = await client.subscribe("TRUE", durable=durable).ready()
                with pytest.raises(MisuseError):
                    other.acknowledge(await other.get())
            # Nobody keeps anything for it, so there is nothing to wait for.
            await subscription.acknowledge(BestEffortReceived("quotes", 7, b""))

    run(test())


def test_a_blocking_program_waits_until_a_message_is_kept() -> None:
    broker = serving(100)
    broker.answers[Settle] = lambda frame: [Settled(frame.number, frame.pubend, frame.below, frame.ticks)]
    with (
        broker_in_a_thread(broker),
        connect_sync(broker.address, settings=QUICK) as client,
        client.subscribe("TRUE", durable="app", acknowledge="manual") as subscription,
    ):
        messages = [subscription.get() for _ in range(7)]
        subscription.acknowledge(messages[2])
        assert broker.peer.of(Settle) == [Settle(1, 0, 1, (3,))]
        subscription.acknowledge(messages[0])
        assert broker.peer.of(Settle)[1:] == [Settle(1, 0, 2, ())]
        with pytest.raises(MisuseError, match="needs the message"):
            subscription.acknowledge()
