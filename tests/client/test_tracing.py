"""The way of a message as a client is told it."""

from __future__ import annotations

import pytest

from client.scripted import ScriptedBroker, broker_in_a_thread, run
from penstock.client.client import connect
from penstock.client.sync import connect_sync
from penstock.client.tracing import hop_trees, read_trace
from penstock.model.message_id import InvalidMessageIdError, MessageId
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Refused, TraceReply, TraceRequest
from penstock.session.errors import RefusedError
from penstock.tracking.answers import BrokerAnswer, Evidence, GapSeen, Hop, Trace, trace_json

ID = MessageId(7, 1, 1_700_000_000_000, 3)


def hop(broker: str, parent: str | None, receivers: tuple[str, ...] = ()) -> Hop:
    answer = BrokerAnswer(broker, Evidence.YES, receivers=receivers, evidence=(f"route/1#{broker}",))
    return Hop(broker, parent, Evidence.YES, is_counted=True, answer=answer)


TRACE = Trace(
    message_id=ID,
    origin="pb",
    published_at="pb",
    published=Evidence.YES,
    hops=(hop("pb", None), hop("ib", "pb"), hop("sb", "ib", ("alice",)), hop("tb", "ib")),
    routed_by=("pb", "ib", "sb", "tb"),
    delivered_by=("sb",),
    receivers=(("sb", "alice"),),
    probable_false_positives=("zb",),
    unreachable=("xb",),
    unknown=(),
    gaps=(GapSeen("ib", "route/1", "crash", (1, 2)),),
    asked=4,
    error_probability=0.001,
    is_truncated=False,
)


def test_a_trace_is_read_as_it_was_written() -> None:
    assert read_trace(trace_json(TRACE)) == TRACE
    assert not read_trace(trace_json(TRACE)).is_complete


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"message_id": "x"}', f'{{"message_id": "{ID}"}}'])
def test_what_is_no_trace_is_the_brokers_fault(text: str) -> None:
    with pytest.raises(ProtocolError, match="the broker's answer is no trace"):
        read_trace(text.encode())


def test_hops_stand_below_those_they_came_from() -> None:
    (root,) = hop_trees(TRACE)
    assert [node.hop.broker for node in root] == ["pb", "ib", "sb", "tb"]
    assert [node.hop.broker for node in root.children[0].children] == ["sb", "tb"]


def test_what_hangs_in_the_air_or_goes_round_in_circles_is_shown_once() -> None:
    hops = (hop("pb", None), hop("a", "b"), hop("b", "c"), hop("c", "a"), hop("d", "nobody"), hop("e", "a"))
    trees = hop_trees(Trace(**{**{each: getattr(TRACE, each) for each in Trace.__slots__}, "hops": hops}))
    assert [node.hop.broker for root in trees for node in root] == ["pb", "a", "c", "b", "e", "d"]


def test_a_client_asks_by_text_or_by_value() -> None:
    async def test() -> None:
        broker = ScriptedBroker({TraceRequest: lambda frame: [TraceReply(frame.number, trace_json(TRACE))]})
        async with broker, connect(broker.address) as client:
            assert await client.trace(ID) == TRACE
            assert await client.trace(str(ID).lower()) == TRACE
            assert [frame.message_id for frame in broker.peer.of(TraceRequest)] == [ID.to_bytes()] * 2
            with pytest.raises(InvalidMessageIdError):
                await client.trace("YHOO")
            with pytest.raises(ProtocolError, match=f"the broker traced {ID}, not"):
                await client.trace(MessageId(7, 1, 5, 3))
            broker.answers[TraceRequest] = lambda frame: [Refused("trace", frame.number, "may not trace")]
            with pytest.raises(RefusedError, match="refused to trace a message: may not trace"):
                await client.trace(ID)

    run(test())


def test_a_blocking_client_asks_too() -> None:
    broker = ScriptedBroker({TraceRequest: lambda frame: [TraceReply(frame.number, trace_json(TRACE))]})
    with broker_in_a_thread(broker), connect_sync(broker.address) as client:
        assert client.trace(ID) == TRACE
