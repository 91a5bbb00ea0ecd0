from __future__ import annotations

import asyncio
import gc

import pytest

from client.scripted import PUBEND, QUICK, ScriptedBroker, body_of, deliver, run, until
from penstock.client.client import connect
from penstock.client.subscription import Subscription
from penstock.model.errors import MisuseError
from penstock.protocol.frames import (
    Frame,
    Goodbye,
    Handed,
    Join,
    Outcomes,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Verdicts,
)
from penstock.protocol.work_frames import Outcome, Verdict
from penstock.session.errors import ClientClosedError, RefusedError, WorkLostError
from penstock.session.events import Unanswered
from penstock.session.received import Received
from penstock.session.settings import ClientSettings


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


def test_a_paused_subscription_waits_and_goes_on_when_it_is_resumed() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE").ready()
            other = await client.subscribe("TRUE").ready()
            broker.peer.send(deliver(1, 1))
            await until(lambda: subscription.queued == 1)
            subscription.pause()
            subscription.pause()
            assert subscription.is_paused
            assert not subscription.is_ready
            broker.peer.send(deliver(2, 1, 2))
            assert (await other.get()).tick == 2
            assert (await subscription.get()).tick == 1
            reading = asyncio.create_task(subscription.get())
            await until(lambda: broker.peer.of(Unsubscribe))
            assert not reading.done()
            subscription.resume()
            subscription.resume()
            await subscription.ready()
            broker.peer.send(deliver(3, 3))
            assert (await reading).tick == 3
            subscription.pause()
            await subscription.close()
            with pytest.raises(ClientClosedError):
                subscription.resume()

    run(test())


def sharing(outcome: Outcome = Outcome.KEPT) -> ScriptedBroker:
    """A broker that hands out three messages to every member, and answers all verdicts alike."""

    def on_join(frame: Join) -> list[Frame]:
        bodies = [body_of(number) for number in range(3)]
        handed = Handed(PUBEND, "", frame.number.to_bytes(8), (1, 1, frame.round, 1), [0, 1, 2], [1, 1, 2], bodies)
        return [Subscribed(frame.number, frame.selector, ()), handed]

    def on_verdicts(frame: Verdicts) -> list[Frame]:
        outcomes = tuple((tick, attempt, verdict, outcome) for tick, attempt, verdict, _, _ in frame.verdicts)
        return [Outcomes(frame.number, frame.pubend, outcomes)]

    return ScriptedBroker(
        {Join: on_join, Verdicts: on_verdicts, Unsubscribe: lambda frame: [Unsubscribed(frame.number)]}
    )


def said(broker: ScriptedBroker) -> list[tuple[int, int, int, int, str]]:
    return [each for frame in broker.peer.of(Verdicts) for each in frame.verdicts]


def test_a_member_acknowledges_refuses_and_extends_what_it_is_handed() -> None:
    async def test() -> None:
        async with sharing() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", shared="g", work_ms=500, prefetch=3).ready()
            (join,) = broker.peer.of(Join)
            assert (join.group, join.work_ms, join.prefetch, join.round) == ("g", 500, 3, 1)
            messages = [await subscription.get() for _ in range(3)]
            assert [message.attempt for message in messages] == [1, 1, 2]
            await subscription.acknowledge(messages[0])
            await subscription.extend(messages[1])
            await subscription.refuse(messages[1], delay=1.5, reason="busy" * 100)
            await subscription.acknowledge(messages[2])
            reason = ("busy" * 100)[:200]
            assert said(broker) == [
                (0, 1, Verdict.DONE, 0, ""),
                (1, 1, Verdict.EXTENDED, 0, ""),
                (1, 1, Verdict.REFUSED, 1_500, reason),
                (2, 2, Verdict.DONE, 0, ""),
            ]

    run(test())


@pytest.mark.parametrize(
    ("outcome", "complaint"), [(Outcome.LOST, "not this member's any more"), (Outcome.UNKNOWN, "nobody knows by whom")]
)
def test_a_member_whose_word_does_not_count_is_told(outcome: Outcome, complaint: str) -> None:
    async def test() -> None:
        async with sharing(outcome) as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", shared="g").ready()
            message = await subscription.get()
            with pytest.raises(WorkLostError, match=complaint) as caught:
                await subscription.acknowledge(message)
            assert caught.value.message == message.id
            # It does not have it any more, so this needs no broker.
            with pytest.raises(WorkLostError, match=complaint):
                await subscription.acknowledge(message)

    run(test())


def test_what_a_member_has_said_before_it_may_say_again() -> None:
    async def test() -> None:
        async with sharing() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", shared="g").ready()
            message = await subscription.get()
            await asyncio.gather(*[asyncio.ensure_future(judged(subscription, message)) for _ in range(2)])
            await subscription.acknowledge(message)
            assert said(broker) == [(0, 1, Verdict.DONE, 0, "")]

    async def judged(subscription: Subscription, message: Received) -> None:
        await subscription.acknowledge(message)

    run(test())


def test_unread_messages_that_others_were_handed_are_not_read() -> None:
    async def test() -> None:
        async with sharing(Outcome.LOST) as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", shared="g").ready()
            # The client asks for more time for what waits.
            await until(lambda: client.counters.taken_away == 3)
            assert subscription.queued == 0
            broker.peer.send(Handed("quotes", "", (1).to_bytes(8), (1, 1, 1, 2), [1], [2], [body_of(1)]))
            message = await subscription.get()
            assert (message.tick, message.attempt) == (1, 2)

    run(test())


def test_a_subscription_that_closes_returns_what_was_not_read() -> None:
    async def test() -> None:
        async with sharing() as broker, connect(broker.address) as client:
            subscription = await client.subscribe("TRUE", shared="g").ready()
            await subscription.get()
            await subscription.close()
            await until(lambda: broker.peer.of(Unsubscribe))
            assert [(tick, verdict) for tick, _, verdict, _, _ in said(broker)] == [
                (1, Verdict.RETURNED),
                (2, Verdict.RETURNED),
            ]

    run(test())


@pytest.mark.parametrize("what", ["subscription", "client"])
def test_to_close_a_member_waits_until_what_it_has_said_is_answered(what: str) -> None:
    async def test() -> None:
        async with sharing() as broker:
            answer = broker.answers.pop(Verdicts)
            client = await connect(broker.address).open()
            events = client.events()
            subscription = await client.subscribe("TRUE", shared="g").ready()
            subscription.acknowledge(await subscription.get())
            subscription.refuse(await subscription.get())
            closing = asyncio.create_task(subscription.close() if what == "subscription" else client.close())
            await until(lambda: {Verdict.DONE, Verdict.REFUSED} <= {each[2] for each in said(broker)})
            assert not broker.peer.of(Unsubscribe)
            assert not closing.done()
            broker.peer.send(*(each for frame in broker.peer.of(Verdicts) for each in answer(frame)))
            await closing
            await until(lambda: broker.peer.of(Unsubscribe))
            await client.close()
            assert not [event async for event in events if isinstance(event, Unanswered)]

    run(test())


@pytest.mark.parametrize("what", ["subscription", "client", "client in a hurry", "dropped"])
def test_what_a_member_has_said_and_no_pubend_answers_is_told(what: str) -> None:
    async def test() -> None:
        async with sharing() as broker:
            del broker.answers[Verdicts]
            client = await connect(broker.address, settings=ClientSettings(close_ms=10)).open()
            events = client.events()
            subscription = await client.subscribe("TRUE", shared="g").ready()
            subscription.acknowledge(await subscription.get())
            if what == "subscription":
                await subscription.close()
            elif what == "dropped":
                del subscription
                gc.collect()
                await until(lambda: broker.peer.of(Unsubscribe))
            await client.close(flush=what != "client in a hurry")
            assert [event async for event in events if isinstance(event, Unanswered)] == [Unanswered("g", 1)]

    run(test())


def test_only_messages_of_groups_can_be_judged() -> None:
    async def test() -> None:
        async with sharing() as broker, connect(broker.address) as client:
            plain = await client.subscribe("TRUE").ready()
            broker.peer.send(deliver(1, 1))
            message = await plain.get()
            with pytest.raises(MisuseError, match="only messages of groups"):
                plain.refuse(message)
            with pytest.raises(MisuseError, match="only messages of groups"):
                plain.extend(message)
            member = await client.subscribe("TRUE", shared="g").ready()
            with pytest.raises(MisuseError, match="was not handed out to this member"):
                member.acknowledge(message)
            with pytest.raises(MisuseError, match="needs the message; acknowledge_through"):
                member.acknowledge()
            with pytest.raises(MisuseError, match="acknowledged one by one"):
                member.acknowledge_through()
            handed = await member.get()
            for wrong, complaint in (
                ({"delay": -1}, "delay is -1"),
                ({"delay": "2"}, "delay is '2'"),
                ({"delay": None}, "delay is None"),
                ({"reason": 5}, "reason 5 is not a text"),
            ):
                with pytest.raises(MisuseError, match=complaint):
                    member.refuse(handed, **wrong)

    run(test())
