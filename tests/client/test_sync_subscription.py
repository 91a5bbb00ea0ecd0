"""Subscriptions of the blocking client."""

from __future__ import annotations

import threading
import time

import pytest

from client.scripted import LIMIT_S, PUBEND, ScriptedBroker, body_of, broker_in_a_thread, deliver, delivering
from penstock.client.sync import connect_sync
from penstock.model.errors import MisuseError
from penstock.protocol.frames import Frame, Handed, Join, Lost, Outcomes, Subscribe, Subscribed, Verdicts
from penstock.protocol.work_frames import Outcome, Verdict
from penstock.session.errors import ClientClosedError
from penstock.session.positions import LostTicks


def test_waiting_for_a_message_can_have_a_limit() -> None:
    broker = delivering(0)
    with broker_in_a_thread(broker) as soon, connect_sync(broker.address) as client:
        subscription = client.subscribe("TRUE").ready()
        with pytest.raises(TimeoutError):
            subscription.get(timeout_s=0.001)
        soon(lambda: broker.peer.send(deliver(7)))
        assert subscription.get(timeout_s=LIMIT_S).tick == 7


def test_a_reader_in_another_thread_ends_with_its_client() -> None:
    broker = delivering(1)
    with broker_in_a_thread(broker):
        client = connect_sync(broker.address).open()
        subscription = client.subscribe("TRUE").ready()
        ticks: list[int] = []
        got_one = threading.Event()

        def read() -> None:
            for message in subscription:
                ticks.append(message.tick)
                got_one.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert got_one.wait(LIMIT_S)
        client.close()
        reader.join(LIMIT_S)
        assert not reader.is_alive()
        assert ticks == [0]


def test_positions_are_those_of_the_thread_that_reads() -> None:
    broker = ScriptedBroker()
    broker.answers[Subscribe] = lambda frame: [
        Subscribed(frame.number, frame.selector, (), tuple(frame.positions)),
        *(deliver(tick, frame.number) for tick in range(dict(frame.positions)["quotes"], 3_000)),
        Lost(0, 3_000, 3_004, (frame.number,)),
    ]
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        assert client.held_back == ""
        with client.subscribe("TRUE", start={"quotes": 5}) as subscription:
            assert [subscription.get().tick for _ in range(10)] == list(range(5, 15))
            assert subscription.positions == {"quotes": 15}, "more than that was fetched"
            assert subscription.starts == {"quotes": 5}
        assert subscription.positions == {"quotes": 15}
        other = client.subscribe("TRUE", start={"quotes": 2_999})
        assert other.get().tick == 2_999
        with pytest.raises(TimeoutError):
            other.get(timeout_s=0.001)
        assert (other.lost, other.lost_count) == ([LostTicks("quotes", 3_000, 3_004)], 1)
        with pytest.raises(MisuseError):
            client.subscribe("TRUE", start={"quotes": -1})
    assert other.positions == {"quotes": 3_005}


def test_a_blocking_subscription_can_be_paused() -> None:
    broker = delivering(2)
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        subscription = client.subscribe("TRUE").ready()
        assert subscription.get(timeout_s=60).tick == 0
        subscription.pause()
        paused = [subscription.is_paused]
        assert subscription.get(timeout_s=60).tick == 1
        with pytest.raises(TimeoutError):
            subscription.get(timeout_s=0.001)
        subscription.resume()
        subscription.ready()
        paused.append(subscription.is_paused)
        assert paused == [True, False]
        assert [frame.number for frame in broker.peer.of(Subscribe)] == [1, 2]
        subscription.close()
        with pytest.raises(ClientClosedError):
            subscription.pause()


def test_messages_that_were_fetched_and_that_others_were_handed_meanwhile_are_not_read() -> None:
    lost: list[int] = []

    def on_join(frame: Join) -> list[Frame]:
        bodies = [body_of(number) for number in range(3)]
        handed = Handed(PUBEND, "", frame.number.to_bytes(8), (1, 1, frame.round, 1), [0, 1, 2], [1, 1, 1], bodies)
        return [Subscribed(frame.number, frame.selector, ()), handed]

    def on_verdicts(frame: Verdicts) -> list[Frame]:
        ticks = [(tick, verdict) for tick, _, verdict, _, _ in frame.verdicts]
        outcome = Outcome.LOST if (1, Verdict.EXTENDED) in ticks and lost else Outcome.KEPT
        return [Outcomes(frame.number, frame.pubend, tuple((tick, 1, kind, outcome) for tick, kind in ticks))]

    broker = ScriptedBroker({Join: on_join, Verdicts: on_verdicts})
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        subscription = client.subscribe("TRUE", shared="g", work_ms=100).ready()
        first = subscription.get(timeout_s=LIMIT_S)
        lost.append(1)
        until_s = time.monotonic() + LIMIT_S
        while client.counters.taken_away < 2 and time.monotonic() < until_s:
            time.sleep(0.001)
        with pytest.raises(TimeoutError):
            subscription.get(timeout_s=0.001)
        subscription.acknowledge(first)
