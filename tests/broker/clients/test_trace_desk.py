"""The desk of traces: whom it asks, whom it believes, and when it gives up."""

from __future__ import annotations

import json
from itertools import count

import msgspec
import pytest

from overlay import Overlay, TestClient, chain
from penstock.broker.clients import trace_desk
from penstock.broker.clients.trace_desk import _HOPS_MAX, _QUESTION_MS, TraceDesk
from penstock.client.tracing import read_trace
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f
from penstock.tracking.answers import BrokerAnswer, Evidence, Trace, trace_json

NUMBERS = count(1)


@pytest.fixture
def overlay() -> Overlay:
    overlay = chain("pb", "ib", "sb", guaranteed=True, silent_ms=10**9)
    overlay.wait(2_000)
    return overlay


def an_id(overlay: Overlay) -> bytes:
    return MessageId(1, 1, overlay.now_ms, 0).to_bytes()


def published(overlay: Overlay) -> bytes:
    """The identifier of a message that a subscriber of sb received."""
    alice = overlay.client("sb", "alice")
    alice.subscribe(1, "TRUE")
    overlay.wait(2_000)
    overlay.client("pb", "feed").publish({"number": 1})
    overlay.wait(2_000)
    return next(each.bodies[0][:16] for each in alice.heard if isinstance(each, f.Deliver))


def desk_of(overlay: Overlay, broker: str) -> TraceDesk:
    return overlay.brokers[broker]._trace_desk


def asked(overlay: Overlay, broker: str, message_id: bytes) -> TestClient:
    """A client that has asked, while pb is silent."""
    overlay.delay("pb", "ib")
    client = overlay.client(broker, f"ops-{next(NUMBERS)}")
    client.say(f.TraceRequest(1, message_id))
    return client


def from_neighbour(overlay: Overlay, broker: str, neighbour: str, *frames: f.Frame) -> None:
    """A neighbour says something of its own."""
    core = overlay.brokers[broker]
    connection = core._connections.links[neighbour].connection
    overlay._act(broker, core.receive(connection, list(frames), now_ms=overlay.now_ms))


def replies(client: TestClient) -> list[Trace]:
    return [read_trace(each.trace) for each in client.heard if isinstance(each, f.TraceReply)]


def test_silence_is_waited_for_and_then_named(overlay: Overlay) -> None:
    client = asked(overlay, "sb", an_id(overlay))
    assert desk_of(overlay, "sb").next_deadline() == overlay.now_ms + _QUESTION_MS
    overlay.wait(_QUESTION_MS - 1)
    assert replies(client) == []
    overlay.wait(1)
    (trace,) = replies(client)
    assert trace.unreachable == ("pb",)
    assert desk_of(overlay, "sb").next_deadline() is None
    assert desk_of(overlay, "sb")._questions == {}


@pytest.mark.parametrize(
    "answer",
    [b"", b"\xff", msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode({}), b"\x81\xa6broker\xa1\xff"],
)
def test_a_malformed_answer_costs_the_neighbour_that_passed_it_on_nothing(overlay: Overlay, answer: bytes) -> None:
    client = asked(overlay, "sb", an_id(overlay))
    (question,) = desk_of(overlay, "sb")._questions
    from_neighbour(overlay, "sb", "ib", f.TraceAnswer("sb", question, answer))
    assert overlay.brokers["sb"].status().links == ["ib"]
    assert desk_of(overlay, "sb").counts["trace_answers_ignored"] == 1
    overlay.wait(_QUESTION_MS)
    assert replies(client)[0].unreachable == ("pb",)


def test_an_answer_to_no_question_is_not_even_looked_into(overlay: Overlay) -> None:
    from_neighbour(overlay, "sb", "ib", f.TraceAnswer("sb", 5, b"\x81\xa6broker\xa1\xff"))
    assert overlay.brokers["sb"].status().links == ["ib"]
    assert desk_of(overlay, "sb").counts["trace_answers_ignored"] == 1


def test_nobody_answers_for_another_broker_or_to_another_question(overlay: Overlay) -> None:
    client = asked(overlay, "sb", an_id(overlay))
    (question,) = desk_of(overlay, "sb")._questions
    false = msgspec.msgpack.encode(BrokerAnswer("ib", Evidence.YES, Evidence.YES, receivers=("mallory",)))
    true = msgspec.msgpack.encode(BrokerAnswer("pb", Evidence.NO))
    from_neighbour(overlay, "sb", "ib", f.TraceAnswer("sb", question, false))
    from_neighbour(overlay, "sb", "ib", f.TraceAnswer("sb", question + 1, true))
    assert desk_of(overlay, "sb").counts["trace_answers_ignored"] == 2
    from_neighbour(overlay, "sb", "ib", f.TraceAnswer("sb", question, true))
    (trace,) = replies(client)
    assert (trace.receivers, trace.published) == ((), Evidence.NO)
    from_neighbour(overlay, "sb", "ib", f.TraceAnswer("sb", question, true))
    assert len(replies(client)) == 1


def test_frames_that_go_round_in_circles_are_dropped(overlay: Overlay) -> None:
    for hops, passed in ((_HOPS_MAX - 1, 1), (_HOPS_MAX, 1)):
        question = f.TraceQuestion("pb", "sb", 9, an_id(overlay), (1,), hops=hops)
        from_neighbour(overlay, "ib", "sb", question)
        assert desk_of(overlay, "pb").counts["trace_questions"] == passed


def test_frames_for_brokers_that_nobody_knows_are_dropped(overlay: Overlay) -> None:
    from_neighbour(overlay, "ib", "sb", f.TraceQuestion("nobody", "sb", 9, an_id(overlay), (1,)))
    from_neighbour(overlay, "ib", "sb", f.TraceAnswer("nobody", 9, b""))
    from_neighbour(overlay, "ib", "sb", f.TraceQuestion("ib", "nobody", 9, an_id(overlay), (1,)))
    assert overlay.brokers["ib"].status().links == ["pb", "sb"]


@pytest.mark.parametrize("kind", ["question", "answer"])
def test_clients_may_not_speak_as_brokers(overlay: Overlay, kind: str) -> None:
    client = overlay.client("sb", "mallory")
    question = f.TraceQuestion("pb", "sb", 9, an_id(overlay), (1,))
    client.say(question if kind == "question" else f.TraceAnswer("sb", 1, b""))
    assert client.closed is not None
    assert client.closed.code == "protocol"


def test_in_a_large_overlay_only_those_on_the_way_are_asked(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = published(overlay)
    monkeypatch.setattr(trace_desk, "_AT_ONCE_MAX", 2)
    ops = overlay.client("ib", "ops")
    before = {name: desk_of(overlay, name).counts["trace_questions"] for name in overlay.brokers}
    ops.say(f.TraceRequest(1, message_id))
    overlay.wait(1_000)
    (trace,) = replies(ops)
    assert (trace.routed_by, trace.is_complete) == (("pb", "ib", "sb"), True)
    assert {name: desk_of(overlay, name).counts["trace_questions"] - before[name] for name in overlay.brokers} == {
        "pb": 1,
        "ib": 1,
        "sb": 1,
    }


def test_more_questions_than_can_be_looked_up_are_dropped(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = published(overlay)
    # All that is known of it is on disk.
    for name in ("pb", "ib", "sb"):
        overlay._act(name, overlay.brokers[name].shutdown(now_ms=overlay.now_ms))
        overlay.start(name)
    for pair in (("pb", "ib"), ("ib", "sb")):
        overlay.link(*pair)
    overlay.wait(2_000)
    monkeypatch.setattr(trace_desk, "_INQUIRIES_MAX", 0)
    ops = overlay.client("ib", "ops")
    ops.say(f.TraceRequest(1, message_id))
    overlay.wait(2 * _QUESTION_MS)
    assert set(replies(ops)[0].unreachable) == {"pb", "ib", "sb"}
    assert desk_of(overlay, "pb").counts["trace_questions_dropped"] == 1


def test_a_trace_becomes_json(overlay: Overlay) -> None:
    ops = overlay.client("sb", "ops")
    message_id = published(overlay)
    ops.say(f.TraceRequest(1, message_id))
    overlay.wait(1_000)
    (trace,) = replies(ops)
    told = json.loads(trace_json(trace))
    assert told["message_id"] == str(MessageId.from_bytes(message_id))
    assert (told["receivers"], told["is_complete"]) == ([["sb", "alice"]], True)
    assert told["published_ms"] == MessageId.from_bytes(message_id).timestamp_ms
    assert [hop["broker"] for hop in told["hops"]] == ["pb", "ib", "sb"]


def test_more_receivers_than_can_be_named_are_a_gap(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bob", "carol"):
        overlay.client("sb", name).subscribe(1, "TRUE")
    message_id = published(overlay)
    monkeypatch.setattr(trace_desk, "_RECEIVERS_MAX", 2)
    ops = overlay.client("ib", "ops")
    ops.say(f.TraceRequest(1, message_id))
    overlay.wait(1_000)
    (trace,) = replies(ops)
    assert trace.receivers == (("sb", "alice"), ("sb", "bob"))
    assert [(gap.broker, gap.history) for gap in trace.gaps] == [("sb", "receivers")]
