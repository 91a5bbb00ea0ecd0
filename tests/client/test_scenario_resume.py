"""Connections are cut in the middle of everything, and a client goes on with each broker as if nothing had been."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from client.scripted import PUBEND, QUICK, ScriptedBroker, acknowledgement, deliver, run, until
from penstock.client.client import connect
from penstock.model.body import decode_attributes
from penstock.model.errors import MisuseError
from penstock.protocol.frames import (
    Acknowledge,
    Frame,
    HeldBack,
    Hello,
    Horizons,
    Lost,
    Publish,
    PublishAck,
    Refused,
    Subscribe,
    Subscribed,
)
from penstock.session.errors import ConnectionFailedError, RefusedError, WouldBlockError
from penstock.session.positions import LostTicks
from penstock.session.settings import ClientSettings


class DurableBroker(ScriptedBroker):
    """Recognises what it has by publisher and sequence number, and cuts connections by chance: before or after it
    has taken a frame over, with or without an acknowledgement."""

    def __init__(self, seed: int) -> None:
        super().__init__({Hello: self._on_hello, Publish: self._on_publish})
        self.best_effort = ()
        self.credit_bytes = 2_000
        self.taken: list[object] = []
        self.publisher = b""
        self.cuts = 0
        self._last: dict[bytes, int] = {}
        self._rng = Random(seed)

    def _on_hello(self, hello: Hello) -> list[Frame]:
        self.publisher = hello.publisher
        return [self.welcome()]

    def _on_publish(self, frame: Publish) -> list[Frame]:
        if self._cuts():
            return []
        for sequence, body in enumerate(frame.bodies, start=frame.first):
            if sequence > self._last.get(self.publisher, 0):
                self._last[self.publisher] = sequence
                self.taken.append(decode_attributes(body)["n"])
        if self._cuts():
            return []
        return [acknowledgement(frame)]

    def _cuts(self) -> bool:
        is_cut = self.peer.is_gone or (self.cuts < 20 and self._rng.random() < 0.3)
        if is_cut and not self.peer.is_gone:
            self.cuts += 1
            self.peer.is_gone = True
            self.peer.cut()
        return is_cut


@pytest.mark.parametrize("seed", range(3))
def test_every_message_is_taken_once_and_in_order_over_many_connections(seed: int) -> None:
    async def test() -> None:
        settings = ClientSettings(backoff_first_ms=1, backoff_max_ms=2, batch_bytes=300)
        broker = DurableBroker(seed)
        async with broker, connect(broker.address, settings=settings) as client:
            for number in range(500):
                await client.publish({"n": number}, bytes(50))
            await client.flush()
            assert broker.taken == list(range(500))
            assert broker.cuts == 20
            assert (client.counters.acknowledged, client.counters.lost) == (500, 0)

    run(test())


def test_a_flush_waits_over_a_reconnect_to_the_same_broker() -> None:
    async def test() -> None:
        broker = ScriptedBroker({Publish: lambda _: []})
        broker.best_effort = ()
        async with broker, connect(broker.address, settings=QUICK) as client:
            await client.publish({"n": 0})
            flush = asyncio.create_task(client.flush())
            await until(lambda: broker.peer.of(Publish))
            del broker.answers[Publish]
            broker.peer.cut()
            await flush
            assert [frame.first for frame in broker.peer.of(Publish) if frame.bodies] == [1]
            assert len({peer.of(Hello)[0].publisher for peer in broker.peers}) == 1
            assert client.counters.lost == 0

    run(test())


def test_another_broker_gets_again_what_was_on_its_way_to_a_guaranteed_pubend() -> None:
    async def test() -> None:
        broker = ScriptedBroker({Publish: lambda _: []})
        broker.best_effort = ()
        async with broker, connect(broker.address, settings=QUICK) as client:
            await client.publish({"n": 0})
            await until(lambda: broker.peer.of(Publish))
            del broker.answers[Publish]
            broker.name, broker.pubends, broker.others = "other", (), ((PUBEND, "scripted", True),)
            broker.peer.cut()
            await client.flush()
            await client.publish({"n": 1})
            await client.flush()
            frames = [frame for frame in broker.peer.of(Publish) if frame.bodies]
            assert [(frame.first, frame.pubend) for frame in frames] == [(1, PUBEND), (2, PUBEND)]
            assert (client.counters.acknowledged, client.counters.lost) == (2, 0)

    run(test())


def test_no_broker_gets_again_what_was_on_its_way_to_a_pubend_that_guarantees_nothing() -> None:
    async def test() -> None:
        broker = ScriptedBroker({Publish: lambda _: []})
        async with broker, connect(broker.address, settings=QUICK) as client:
            await client.publish({"n": 0})
            await until(lambda: broker.peer.of(Publish))
            del broker.answers[Publish]
            broker.name = "other"
            broker.peer.cut()
            with pytest.raises(ConnectionFailedError, match="lost with 1 messages on the wire"):
                await client.flush()
            await client.publish({"n": 1})
            await client.flush()
            assert [frame.first for frame in broker.peer.of(Publish) if frame.bodies] == [2]

    run(test())


def test_who_waits_is_told_why_the_broker_holds_publishers_back() -> None:
    async def test() -> None:
        broker = ScriptedBroker({Publish: lambda _: [HeldBack("disk full", 0, PUBEND)]})
        broker.credit_bytes = 100
        async with broker:
            client = await connect(broker.address, settings=ClientSettings(close_ms=20)).open()
            await client.publish({"n": 0}, bytes(90))
            assert await client.held_back_other_than("") == client.held_back == "disk full"
            with pytest.raises(WouldBlockError, match=r"1 messages are not acknowledged yet; .* disk full"):
                client.publish_nowait({"n": 1}, bytes(90))
            with pytest.raises(
                ConnectionFailedError, match="within 20 ms; the broker holds publishers back: disk full"
            ):
                await client.close()
            assert client.held_back == ""

    run(test())


def test_a_subscription_resumes_from_its_positions_and_drops_what_comes_twice() -> None:
    async def test() -> None:
        def start(frame: Subscribe) -> list[Frame]:
            return [Subscribed(frame.number, "TRUE", (), (("quotes", 3),)), deliver(4)]

        async with ScriptedBroker({Subscribe: start}) as broker, connect(broker.address, settings=QUICK) as client:
            subscription = await client.subscribe("TRUE").ready()
            assert (await subscription.get()).tick == 4
            assert subscription.starts == {"quotes": 3}
            assert subscription.positions == {"quotes": 5}
            broker.peer.send(Horizons(0, 3, (1).to_bytes(4), is_only=True), Horizons(0, 9))
            await until(lambda: Acknowledge(((0, 9),)) in broker.peer.of(Acknowledge))
            assert subscription.positions == {"quotes": 9}
            broker.peer.cut()
            await until(lambda: len(broker.peers) == 2 and broker.peer.of(Subscribe))
            assert broker.peer.of(Subscribe) == [Subscribe(1, "TRUE", (("quotes", 9),), resumes=True)]
            broker.peer.send(deliver(9), deliver(12))
            assert [(await subscription.get()).tick for _ in range(2)] == [9, 12]
            # The script has delivered 4 again.
            assert client.counters.repeated == 1
            assert subscription.positions == {"quotes": 13}

    run(test())


def test_what_an_application_stores_is_where_it_begins_next_time() -> None:
    async def test() -> None:
        log = [deliver(tick) for tick in range(100)]

        def serve(frame: Subscribe) -> list[Frame]:
            start = dict(frame.positions).get("quotes", 0)
            return [Subscribed(frame.number, frame.selector, (), (("quotes", start),)), *log[start:]]

        effects, stored = list[int](), dict[str, int]()
        async with ScriptedBroker({Subscribe: serve}) as broker:
            while stored.get("quotes", 0) < 100:
                async with connect(broker.address) as client:
                    subscription = client.subscribe("TRUE", start=stored)
                    for _ in range(4):
                        batch = await subscription.batch(7)
                        effects += [message.tick for message in batch]
                        stored = subscription.positions
                        if stored == {"quotes": 100}:
                            break
                    await subscription.close()
                    assert subscription.positions == stored
        assert effects == list(range(100))

    run(test())


def test_a_start_that_the_broker_refuses_is_named() -> None:
    async def test() -> None:
        refusing = {Subscribe: lambda frame: [Refused("subscribe", frame.number, "no pubend 'nowhere'")]}
        async with ScriptedBroker(refusing) as broker, connect(broker.address) as client:
            subscription = client.subscribe("TRUE", start={"nowhere": 7})
            with pytest.raises(RefusedError, match="no pubend 'nowhere'"):
                await subscription.ready()
            with pytest.raises(RefusedError, match="no pubend 'nowhere'"):
                await subscription.get()
            assert broker.peer.of(Subscribe)[0].positions == (("nowhere", 7),)
            with pytest.raises(MisuseError, match="start -1 of pubend quotes"):
                client.subscribe("TRUE", start={"quotes": -1})

    run(test())


def test_lost_ticks_are_told_and_the_iteration_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        started = {Subscribe: lambda frame: [Subscribed(frame.number, "TRUE", (), (("quotes", 0),))]}
        async with ScriptedBroker(started) as broker, connect(broker.address, name="me") as client:
            one, two = client.subscribe("a = 1"), client.subscribe("a = 2")
            await one.ready()
            await two.ready()
            three = await client.subscribe("a = 3").ready()
            broker.peer.send(deliver(1, 1, 2), Lost(0, 2, 5, (1, 2)), deliver(4, 3), deliver(6, 1, 2, 3))
            assert [(await one.get()).tick for _ in range(2)] == [1, 6]
            assert one.lost == two.lost == [LostTicks("quotes", 2, 5)]
            assert one.lost_count == 1
            assert [(await three.get()).tick for _ in range(2)] == [4, 6]
            assert three.lost == [], "the broker did not name it"

    with caplog.at_level(logging.WARNING, logger="penstock.client"):
        run(test())
    assert caplog.messages == ["me: ticks 2 to 5 of pubend quotes are lost"]


def test_positions_do_not_run_ahead_of_the_reader() -> None:
    async def test() -> None:
        def serve(frame: Subscribe) -> list[Frame]:
            return [Subscribed(frame.number, "TRUE", (), (("quotes", 0),)), *map(deliver, (2, 5, 9))]

        async with ScriptedBroker({Subscribe: serve}) as broker, connect(broker.address) as client:
            subscription = client.subscribe("TRUE")
            await until(lambda: subscription.queued == 3)
            seen = [subscription.positions]
            async for message in subscription:
                seen.append(subscription.positions)
                if message.tick == 9:
                    break
            assert [each["quotes"] for each in seen] == [2, 5, 9, 10]

    run(test())


def test_a_broker_that_cannot_acknowledge_yet_is_asked_once() -> None:
    async def test() -> None:
        broker = ScriptedBroker(
            {Publish: lambda frame: [PublishAck(0, 0, PUBEND)] if frame.bodies else [HeldBack("busy", 0, PUBEND)]}
        )
        async with broker, connect(broker.address) as client:
            await client.publish({"n": 0})
            flush = asyncio.create_task(client.flush())
            await client.held_back_other_than("")
            # An answer to another question has come back: there was time to ask again.
            await client.status()
            assert len(broker.peer.of(Publish)) == 2
            broker.peer.send(PublishAck(1, 100, PUBEND))
            await flush

    run(test())
