"""Waiting for what was published to be settled."""

from __future__ import annotations

import asyncio

import pytest

from client.scripted import PUBEND, QUICK, RefusingBroker, ScriptedBroker, acknowledgement, run, until
from penstock.client.client import connect
from penstock.protocol.frames import Frame, HeldBack, Publish, PublishAck, Refused, Rewind, Rewound
from penstock.session.errors import ConnectionFailedError, PublishTimeoutError, RefusedError
from penstock.session.settings import ClientSettings


def test_a_broker_is_asked_once_on_each_connection() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker, connect(broker.address) as client:
            await client.publish({"n": 1})
            flushing = [asyncio.create_task(client.flush()) for _ in range(2)]
            await until(lambda: [len(frame.bodies) for frame in broker.peer.of(Publish)] == [1, 0, 0])
            del broker.answers[Publish]
            await client.publish({"n": 2})
            await asyncio.gather(*flushing)
            assert client.counters.settled >= 1

    run(test())


def test_a_client_that_stops_at_a_refusal_publishes_nothing_behind_it_on_any_connection() -> None:
    async def test() -> None:
        def refuse(frame: Publish) -> list[Frame]:
            if not frame.bodies:
                return []
            refused = Refused("publish", 2, "not this", 1, PUBEND)
            return [PublishAck(1, 1, PUBEND), refused, Rewind(2, 1, PUBEND)]

        settings = ClientSettings(stop_at_refusal=True, backoff_first_ms=1, linger_ms=50)
        async with ScriptedBroker({Publish: refuse}) as broker:
            broker.best_effort = ()
            client = await connect(broker.address, settings=settings).open()
            for number in range(1, 4):
                await client.publish({"n": number})
            with pytest.raises(RefusedError, match="not this"):
                await client.flush()
            broker.peer.cut()
            await until(lambda: len(broker.peers) == 2 and client.is_connected)
            await client.status()
            assert broker.peers[0].of(Rewound) == broker.peer.of(Publish) == []
            with pytest.raises(RefusedError, match="messages after it are not published"):
                await client.close()
            assert client.counters.acknowledged == 1

    run(test())


def test_a_flush_waits_for_what_is_sent_again_after_a_refusal() -> None:
    async def test() -> None:
        broker = RefusingBroker(lambda number: number in {2, 5, 6})
        async with broker, connect(broker.address, settings=ClientSettings(linger_ms=50)) as client:
            for number in range(1, 9):
                await client.publish({"n": number})
            with pytest.raises(RefusedError, match=r"not 6 \(messages refused: 3\)"):
                await client.flush()
            assert broker.taken == [1, 3, 4, 7, 8]
            assert len(broker.peer.of(Rewound)) == 1
            assert (client.counters.acknowledged, client.counters.refused) == (5, 3)

    run(test())


def test_a_flush_waits_for_all_pubends() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            broker.pubends = ("a", "b", "c")
            async with connect(broker.address, settings=ClientSettings(linger_ms=60_000)) as client:
                for pubend in broker.pubends:
                    await client.publish({"n": 1}, pubend=pubend)
                flushing = asyncio.create_task(client.flush())
                await until(lambda: len(broker.peer.of(Publish)) == 6)
                sent = {frame.pubend: frame for frame in broker.peer.of(Publish) if frame.bodies}
                assert [*sent] == ["a", "b", "c"], "nobody waits for the linger of any of them"
                for pubend in ("b", "a"):
                    broker.peer.send(acknowledgement(sent[pubend]))
                await client.status()
                assert (flushing.done(), client.counters.acknowledged) == (False, 2)
                await client.publish({"n": 2}, pubend="a")
                broker.peer.send(acknowledgement(sent["c"]))
                await flushing
                assert client.counters.settled == 3, "it does not wait for what is published after it began"
                del broker.answers[Publish]

    run(test())


def test_a_flush_of_a_pubend_that_goes_on_reports_the_one_that_is_stopped() -> None:
    async def test() -> None:
        def refuse(frame: Publish) -> list[Frame]:
            if frame.pubend == "b" or not frame.bodies:
                return [acknowledgement(frame)]
            return [Refused("publish", 1, "not this", 1, "a"), Rewind(1, 1, "a")]

        async with ScriptedBroker({Publish: refuse}) as broker:
            broker.pubends = ("a", "b")
            settings = ClientSettings(stop_at_refusal=True, linger_ms=50)
            client = await connect(broker.address, settings=settings).open()
            for number in (1, 2):
                await client.publish({"n": number}, pubend="a")
            await client.publish({"n": 1}, pubend="b")
            with pytest.raises(RefusedError, match="not this"):
                await client.flush()
            await until(lambda: client.counters.acknowledged == 1)
            with pytest.raises(RefusedError, match="messages after it are not published"):
                await client.close()

    run(test())


def test_a_guaranteed_pubend_that_holds_back_is_flushed_through_another_broker() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: [HeldBack("disk full", 0, "far")]}) as broker:
            broker.pubends, broker.others = (), (("far", "home", True),)
            async with connect(broker.address, settings=QUICK) as client:
                await client.publish({"n": 1}, pubend="far")
                flushing = asyncio.create_task(client.flush())
                assert await client.held_back_other_than("") == "disk full"
                broker.name = "other"
                del broker.answers[Publish]
                broker.peer.cut()
                await flushing
                assert (client.broker, client.held_back, client.counters.lost) == ("other", "", 0)

    run(test())


def test_a_client_that_gives_up_names_what_was_not_acknowledged() -> None:
    async def test() -> None:
        settings = ClientSettings(give_up_ms=30, backoff_first_ms=1)
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=settings).open()
            sent = [await client.publish({"n": number}) for number in range(3)]
            await until(lambda: broker.peer.of(Publish))
        with pytest.raises(
            ConnectionFailedError, match=r"no connection for 30 ms.*; 3 messages were not ack"
        ) as failed:
            await client.flush()
        assert (failed.value.messages, failed.value.count, client.counters.lost) == (tuple(sent), 3, 3)
        await client.close()

    run(test())


def test_a_close_that_takes_too_long_names_what_was_not_acknowledged() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker:
            client = await connect(broker.address, settings=ClientSettings(close_ms=30)).open()
            sent = await client.publish({"n": 1})
            with pytest.raises(ConnectionFailedError, match="1 messages were not acknowledged within 30 ms") as failed:
                await client.close()
            assert (failed.value.messages, failed.value.count, client.counters.lost) == ((sent,), 1, 1)

    run(test())


def test_a_flush_that_takes_too_long_says_what_is_missing_and_the_messages_are_still_sent() -> None:
    async def test() -> None:
        async with ScriptedBroker({Publish: lambda _: []}) as broker, connect(broker.address) as client:
            await client.publish({"n": 1})
            with pytest.raises(PublishTimeoutError, match=r"1 messages were not acknowledged within 0\.02 s"):
                await client.flush(timeout_s=0.02)
            await until(lambda: broker.peer.of(Publish))
            broker.peer.send(acknowledgement(broker.peer.of(Publish)[0]))
            await client.flush(timeout_s=60)
            assert client.counters.acknowledged == 1

    run(test())
