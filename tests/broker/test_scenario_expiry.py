"""Messages that expire: nobody gets them afterwards, positions go on, and traces tell what became of them."""

from __future__ import annotations

from typing import Any

import pytest

from overlay import Overlay, TestClient, chain
from penstock.broker.pubend.dead_letters import dead_letter
from penstock.client.tracing import read_trace
from penstock.model.body import decode_attributes, decode_message, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f
from penstock.tracking.answers import Trace
from penstock.work.ledger import Task

PATIENT: dict[str, Any] = {"silent_ms": 10**9}


def line(*names: str, guaranteed: bool = True, **settings: object) -> Overlay:
    overlay = chain(*names, guaranteed=guaranteed, **PATIENT, **settings)
    overlay.wait(2_000)
    return overlay


def subscriber(overlay: Overlay, broker: str, name: str = "alice", selector: str = "TRUE") -> TestClient:
    client = overlay.client(broker, name)
    client.subscribe(1, selector)
    overlay.wait(2_000)
    return client


def trace_of(overlay: Overlay, message_id: bytes) -> Trace:
    client = overlay.client("pb", "ops")
    client.say(f.TraceRequest(1, message_id))
    overlay.wait(10_000)
    (reply,) = (each for each in client.heard if isinstance(each, f.TraceReply))
    return read_trace(reply.trace)


def counted(overlay: Overlay) -> dict[str, int]:
    return {name: broker.status().counts["expired"] for name, broker in overlay.brokers.items()}


@pytest.mark.parametrize("guaranteed", [True, False])
def test_a_message_comes_while_it_lives(guaranteed: bool) -> None:
    overlay = line("pb", "ib", "sb", guaranteed=guaranteed)
    alice = subscriber(overlay, "sb")
    overlay.client("pb", "feed").publish({"number": 1}, expires=0.001)
    overlay.wait(1_000)
    assert alice.numbers() == [1]
    assert counted(overlay) == {"pb": 0, "ib": 0, "sb": 0}


def test_a_guaranteed_message_that_comes_late_is_dropped_at_the_host_and_the_position_goes_on() -> None:
    overlay = line("pb", "ib", "sb")
    alice = subscriber(overlay, "sb")
    bob = subscriber(overlay, "sb", "bob", "number = 3")
    publisher = overlay.client("pb", "feed")
    overlay.delay("ib", "sb")
    publisher.publish({"number": 1}, {"number": 3}, expires=5.0)
    publisher.publish({"number": 2})
    overlay.wait(5_000)
    overlay.undelay("ib", "sb")
    overlay.wait(5_000)
    assert (alice.numbers(), bob.numbers()) == ([2], [])
    last = overlay.disks["pb"].ticks("pb.a")[-1]
    assert alice.horizon() > last
    assert not alice.all(f.Lost)
    assert counted(overlay) == {"pb": 0, "ib": 0, "sb": 2}


def test_a_catch_up_skips_what_has_expired() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb", "feed")
    publisher.publish({"number": 1}, expires=1.0)
    publisher.publish({"number": 2}, expires=100.0)
    publisher.publish({"number": 3})
    overlay.wait(3_000)
    first = overlay.disks["pb"].ticks("pb.a")[0]
    for broker in ("pb", "sb"):
        client = overlay.client(broker, f"at {broker}")
        client.subscribe(1, "", ("pb.a", first))
        overlay.wait(3_000)
        assert client.numbers() == [2, 3]
        assert client.start_of("pb.a") == first


def test_a_best_effort_message_that_comes_late_goes_no_further() -> None:
    overlay = line("pb", "ib", "sb", guaranteed=False)
    alice = subscriber(overlay, "sb")
    overlay.delay("pb", "ib")
    publisher = overlay.client("pb", "feed")
    publisher.publish({"number": 1}, expires=1.0)
    publisher.publish({"number": 2}, expires=9.0)
    overlay.wait(1_000)
    overlay.undelay("pb", "ib")
    overlay.wait(1_000)
    assert alice.numbers() == [2]
    assert counted(overlay) == {"pb": 0, "ib": 1, "sb": 0}


@pytest.mark.parametrize("guaranteed", [True, False])
def test_a_trace_tells_where_a_message_has_expired(guaranteed: bool) -> None:
    overlay = line("pb", "ib", "sb", guaranteed=guaranteed)
    subscriber(overlay, "sb")
    bob = subscriber(overlay, "pb", "bob")
    overlay.delay("ib", "sb")
    overlay.client("pb", "feed").publish({"number": 1}, expires=5.0)
    overlay.wait(5_000)
    overlay.undelay("ib", "sb")
    overlay.wait(5_000)
    assert bob.numbers() == [1]
    (message_id,) = (body[:16] for each in bob.heard if isinstance(each, f.Deliver) for body in each.bodies)
    trace = trace_of(overlay, message_id)
    assert trace.expired_at == ("sb",)
    assert trace.receivers == (("pb", "bob"),)
    assert trace.is_complete


def test_nobody_at_a_host_who_wanted_it_means_that_it_has_not_expired_there() -> None:
    overlay = line("pb", "sb")
    subscriber(overlay, "sb", selector="number = 2")
    bob = subscriber(overlay, "pb", "bob", "number = 1")
    overlay.delay("pb", "sb")
    overlay.client("pb", "feed").publish({"number": 1}, expires=1.0)
    overlay.wait(5_000)
    overlay.undelay("pb", "sb")
    overlay.wait(5_000)
    (message_id,) = (body[:16] for each in bob.heard if isinstance(each, f.Deliver) for body in each.bodies)
    assert trace_of(overlay, message_id).expired_at == ()


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [({"$expires": 0}, "integer from 1"), ({"$expires": "x"}, "integer from 1"), ({"$else": 1}, "reserved")],
)
def test_no_other_reserved_attribute_and_no_other_value_is_let_in(attributes: dict[str, Any], problem: str) -> None:
    overlay = line("pb")
    client = overlay.client("pb", "feed")
    client.publish({"number": 1}, {"number": 2, **attributes}, system=True)
    ((_, number, reason),) = client.refusals()
    assert number == 2
    assert problem in reason


def test_messages_that_were_judged_alike_before_are_still_judged() -> None:
    overlay = line("pb")
    client = overlay.client("pb", "feed")
    client.publish({"number": 1}, expires=1.0)
    client.publish({"number": 1}, expires=2.0)
    assert not client.refusals()
    client.publish({"number": 1, "$expires": -1}, system=True)
    assert len(client.refusals()) == 1


def test_a_group_does_not_hand_out_what_has_expired() -> None:
    overlay = line("pb", "sb")
    publisher = overlay.client("pb", "feed")
    before = subscriber(overlay, "pb", "before")
    early = overlay.client("sb", "early")
    early.say(f.Join(1, "TRUE", "workers", b"m1", work_ms=30_000, prefetch=1))
    overlay.wait(2_000)
    for number in (1, 2, 3):
        publisher.publish({"number": number}, expires=1.0 if number == 2 else None)
    overlay.wait(3_000)
    (handed,) = early.all(f.Handed)
    assert isinstance(handed, f.Handed)
    early.say(f.Verdicts(1, "pb.a", ((handed.ticks[0], 1, 0, 0, ""),)))
    overlay.wait(3_000)
    frames = [each for each in early.heard if isinstance(each, f.Handed)]
    got = [decode_attributes(body)["number"] for each in frames for body in each.bodies]
    assert got == [1, 3]
    assert counted(overlay)["pb"] == 1
    ids = [body[:16] for each in before.heard if isinstance(each, f.Deliver) for body in each.bodies]
    assert trace_of(overlay, ids[1]).expired_at == ("pb",)


def test_dead_letters_do_not_expire() -> None:
    body = encode_body(MessageId(1, 2, 3, 4), Message({"a": 1}, b"content", expires=1.0))
    _, letter = decode_message(dead_letter("p", "g", Task(5, body=body)))
    assert letter.expires is None
    assert letter.payload == b"content"
    assert letter.attributes["a"] == 1
