from __future__ import annotations

import asyncio
import gc

import pytest

from client.scripted import QUICK, ScriptedBroker, deliver, run, until
from penstock.client.client import connect
from penstock.protocol.frames import Goodbye, Refused, Subscribe, Subscribed, Unsubscribe
from penstock.session.errors import ClientClosedError, RefusedError


def test_messages_are_read_in_order_one_by_one_and_in_batches() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE").ready()
            assert subscription.is_ready
            broker.peer.send(*(deliver(number) for number in range(1_000)))
            ticks = [(await subscription.get()).tick]
            async for message in subscription:
                ticks.append(message.tick)
                if len(ticks) == 600:
                    break
            async for batch in subscription.batches():
                ticks += [message.tick for message in batch]
                if len(ticks) == 1_000:
                    break
            assert ticks == list(range(1_000))
            assert subscription.queued == 0

    run(test())


def test_ready_tells_what_was_granted_and_what_is_pending() -> None:
    async def test() -> None:
        narrowed = {Subscribe: lambda frame: [Subscribed(frame.number, "a = 1 AND b = 2", ("far", "away"))]}
        async with ScriptedBroker(narrowed) as broker, connect(broker.address) as client:
            subscription = client.subscribe("a = 1")
            assert subscription.selector == "a = 1"
            await subscription.ready()
            assert subscription.selector == "a = 1 AND b = 2"
            assert subscription.pending == ("far", "away")
            assert repr(subscription) == "<Subscription 1 ready: a = 1 AND b = 2>"

    run(test())


def test_a_refused_subscription_raises_wherever_it_is_used() -> None:
    async def test() -> None:
        refusing = {Subscribe: lambda frame: [Refused("subscribe", frame.number, "not for you")]}
        async with ScriptedBroker(refusing) as broker, connect(broker.address) as client:
            subscription = client.subscribe("a = 1")
            for use in (subscription.ready, subscription.get, subscription.batch, subscription.__anext__):
                with pytest.raises(RefusedError, match="not for you"):
                    await use()
            await subscription.close()

    run(test())


def test_leaving_a_subscription_withdraws_it_and_ends_its_readers() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            async with client.subscribe("TRUE") as subscription:
                reader = asyncio.create_task(read_all(subscription.__aiter__()))
                await subscription.ready()
            assert await reader == []
            assert [frame.number for frame in broker.peer.of(Unsubscribe)] == [1]
            assert await subscription.batch() == []
            for use in (subscription.ready, subscription.get):
                with pytest.raises(ClientClosedError):
                    await use()

    async def read_all(subscription: object) -> list[int]:
        return [message.tick async for message in subscription]  # type: ignore[attr-defined]

    run(test())


def test_a_forgotten_subscription_is_withdrawn() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            broker.answers[Subscribe] = lambda frame: [Subscribed(frame.number, frame.selector), deliver(1)]
            async for message in client.subscribe("TRUE"):
                assert message.tick == 1
                break
            gc.collect()
            await until(lambda: broker.peer.of(Unsubscribe))

    run(test())


def test_when_the_client_closes_what_has_arrived_can_still_be_read() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            async with connect(broker.address) as client:
                subscription = await client.subscribe("TRUE").ready()
                broker.peer.send(deliver(1), deliver(2))
                await until(lambda: subscription.queued == 2)
            assert [message.tick async for message in subscription] == [1, 2]

    run(test())


def test_a_client_that_is_refused_later_fails_its_readers() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            broker.peer.send(deliver(1), Goodbye("refused", "no more"))
            assert (await subscription.get()).tick == 1
            with pytest.raises(RefusedError, match="no more"):
                await subscription.get()
            await subscription.close()

    run(test())


def test_a_cancelled_reader_loses_nothing() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE").ready()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await subscription.get()
            broker.peer.send(deliver(1))
            assert (await subscription.get()).tick == 1

    run(test())


def test_several_readers_share_the_messages() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE").ready()
            readers = [asyncio.create_task(subscription.get()) for _ in range(3)]
            await asyncio.sleep(0)
            broker.peer.send(deliver(1), deliver(2), deliver(3))
            assert sorted(message.tick for message in await asyncio.gather(*readers)) == [1, 2, 3]

    run(test())


def test_a_reader_that_never_waits_lets_others_run() -> None:
    async def test() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with ScriptedBroker() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE").ready()
            broker.peer.send(*(deliver(number) for number in range(2_000)))
            await until(lambda: subscription.queued == 2_000)
            task = asyncio.create_task(other())
            for _ in range(2_000):
                await subscription.get()
            assert turns >= 5
            task.cancel()
            await asyncio.wait([task])

    run(test())
