"""Traces over an overlay: they tell what happened, through all that may happen to messages and brokers."""

from __future__ import annotations

from typing import Any

import pytest

from overlay import Overlay, TestClient, chain, ring, star
from penstock.broker.access import Access, Rule
from penstock.broker.clients.trace_desk import _BURST, _TRACES_OF_ONE_MAX
from penstock.client.tracing import read_trace
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f
from penstock.tracking.answers import Evidence, Trace
from penstock.tracking.settings import TrackingSettings

SLOW: dict[str, Any] = {"guaranteed": True, "silent_ms": 10**9}
"""Settings of overlays in which nobody is given up while a test lets time pass."""


def ids_of(client: TestClient) -> list[bytes]:
    """The identifiers of all that a client was delivered, in order."""
    return [body[:16] for each in client.heard if isinstance(each, f.Deliver) for body in each.bodies]


def ask(overlay: Overlay, client: TestClient, message_id: bytes, number: int = 1) -> Trace:
    """What the client's broker answers."""
    client.heard.clear()
    client.say(f.TraceRequest(number, message_id))
    overlay.wait(10_000)
    replies = [each for each in client.heard if isinstance(each, f.TraceReply)]
    assert [each.number for each in replies] == [number], client.refusals()
    return read_trace(replies[0].trace)


def parents(trace: Trace) -> dict[str, str | None]:
    return {hop.broker: hop.parent for hop in trace.hops}


def stopped(overlay: Overlay, name: str) -> None:
    """Stops a broker in order: its last commit is done."""
    overlay._act(name, overlay.brokers[name].shutdown(now_ms=overlay.now_ms))
    del overlay.brokers[name]


def seen(overlay: Overlay, broker: str, name: str, selector: str = "TRUE") -> TestClient:
    client = overlay.client(broker, name)
    client.subscribe(1, selector)
    overlay.wait(2_000)
    return client


@pytest.fixture
def overlay() -> Overlay:
    """Four brokers in a row; the first one publishes."""
    overlay = chain("pb", "ib", "sb", "tb", **SLOW)
    overlay.wait(2_000)
    return overlay


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("strategy", ["bloom", "exact"])
def test_a_message_is_found_where_it_was_and_only_there(strategy: str, guaranteed: bool) -> None:
    tracking = TrackingSettings(strategy=strategy)
    overlay = chain("pb", "ib", "sb", "tb", guaranteed=guaranteed, silent_ms=10**9, tracking=tracking)
    overlay.wait(2_000)
    alice = seen(overlay, "sb", "alice", "number > 2")
    bob = seen(overlay, "ib", "bob", "number <= 2")
    publisher = overlay.client("pb", "feed")
    publisher.publish(*({"number": number} for number in range(5)))
    overlay.wait(1_000)
    assert (alice.numbers(), bob.numbers()) == ([3, 4], [0, 1, 2])
    for message_id, routed, receivers in [
        (ids_of(alice)[0], ("pb", "ib", "sb"), (("sb", "alice"),)),
        (ids_of(bob)[0], ("pb", "ib"), (("ib", "bob"),)),
    ]:
        for asker in ("pb", "tb"):
            trace = ask(overlay, overlay.client(asker, "ops"), message_id)
            assert trace.routed_by == routed
            assert trace.receivers == receivers
            assert (trace.origin, trace.published_at, trace.published) == ("pb", "pb", Evidence.YES)
            assert trace.is_complete
            assert parents(trace) == dict(zip(routed, (None, *routed), strict=False))
            assert trace.error_probability < 1e-4


def test_what_was_never_published_is_on_no_record(overlay: Overlay) -> None:
    alice = seen(overlay, "sb", "alice")
    overlay.client("pb", "feed").publish({"number": 1})
    overlay.wait(1_000)
    trace = ask(overlay, alice, MessageId(3, 1, overlay.now_ms - 1_000, 0).to_bytes())
    assert (trace.routed_by, trace.receivers, trace.published_at) == ((), (), None)
    assert (trace.published, trace.is_complete) == (Evidence.NO, True)


def test_lost_knowledge_that_came_in_answer_to_a_nack_is_on_record(overlay: Overlay) -> None:
    alice = seen(overlay, "tb", "alice")
    feed = overlay.client("pb", "feed")
    overlay.loses = f.KnowledgeMessage
    feed.publish({"number": 1})
    overlay.wait(50)
    assert alice.numbers() == []
    overlay.loses = None
    overlay.wait(20_000)
    assert alice.numbers() == [1]
    trace = ask(overlay, feed, ids_of(alice)[0])
    assert trace.routed_by == ("pb", "ib", "sb", "tb")
    assert trace.receivers == (("tb", "alice"),)
    assert trace.is_complete


def test_a_way_around_a_cut_link_is_the_way_that_is_told() -> None:
    overlay = ring("pb", "left", "sb", "right", **SLOW)
    overlay.wait(2_000)
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    overlay.wait(1_000)
    before = ask(overlay, feed, ids_of(alice)[0])
    first = before.routed_by[1]
    other = {"left": "right", "right": "left"}[first]
    assert before.routed_by == ("pb", first, "sb")
    overlay.cut(*next(pair for pair in overlay.links() if set(pair) == {"pb", first}))
    overlay.wait(2_000)
    feed.publish({"number": 2})
    overlay.wait(5_000)
    after = ask(overlay, feed, ids_of(alice)[1])
    assert after.routed_by == ("pb", other, "sb")
    assert parents(after)["sb"] == other
    again = ask(overlay, feed, ids_of(alice)[0])
    assert (again.routed_by, again.receivers) == (before.routed_by, before.receivers)


def test_who_comes_later_and_replays_is_a_receiver(overlay: Overlay) -> None:
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    overlay.wait(60_000)
    bob = overlay.client("tb", "bob")
    bob.say(f.Subscribe(1, "TRUE", otherwise=0, missing="earliest"))
    overlay.wait(5_000)
    assert bob.numbers() == [1]
    trace = ask(overlay, feed, ids_of(alice)[0])
    assert trace.receivers == (("sb", "alice"), ("tb", "bob"))
    assert trace.routed_by == ("pb", "ib", "sb", "tb")
    assert trace.is_complete


def test_a_durable_subscriber_that_moves_received_each_message_where_it_was(overlay: Overlay) -> None:
    first = overlay.client("sb", "app-1")
    first.durable(1, "orders")
    overlay.wait(2_000)
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    overlay.wait(2_000)
    ids = ids_of(first)
    first.acknowledge("pb.a", first.horizon(), 1)
    overlay.wait(2_000)
    overlay.leave(first)
    overlay.wait(2_000)
    feed.publish({"number": 2})
    overlay.wait(30_000)
    second = overlay.client("tb", "app-2")
    second.durable(1, "orders")
    overlay.wait(10_000)
    assert second.numbers()[-1] == 2
    ids.append(ids_of(second)[-1])
    assert ask(overlay, feed, ids[0]).receivers == (("sb", "orders"),)
    assert ask(overlay, feed, ids[1]).receivers == (("tb", "orders"),)


def test_a_publish_that_is_tried_again_at_another_broker_is_found_by_its_alias() -> None:
    overlay = star("pa", "pb", "sb", pubends=("pa", "pb"), silent_ms=10**9)
    overlay.wait(2_000)
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    # The broker of this number, pa, never saw it.
    feed.source(broker=2)
    feed.publish({"number": 1})
    overlay.wait(2_000)
    for asker in ("sb", "pa", "hub"):
        trace = ask(overlay, overlay.client(asker, "ops"), ids_of(alice)[0])
        assert (trace.origin, trace.published_at) == ("pa", "pb"), asker
        assert trace.receivers == (("sb", "alice"),)
        assert set(trace.routed_by) == {"pb", "hub", "sb"}


def test_after_a_crash_a_broker_never_says_no(overlay: Overlay) -> None:
    alice = seen(overlay, "tb", "alice")
    feed = overlay.client("pb", "feed")
    overlay.wait(5_000)
    # Nothing of this is stored yet.
    overlay.syncs = False
    feed.publish({"number": 1})
    overlay.sync()
    overlay.sync()
    overlay.syncs = True
    message_id = ids_of(alice)[0]
    overlay.crash("sb")
    overlay.start("sb")
    overlay.link("ib", "sb")
    overlay.link("sb", "tb")
    overlay.wait(5_000)
    trace = ask(overlay, feed, message_id)
    claims = {hop.broker: hop.claim for hop in trace.hops}
    assert claims["sb"] is not Evidence.NO
    assert [gap.reason for gap in trace.gaps if gap.broker == "sb"]
    # The search went on behind the gap.
    assert trace.receivers == (("tb", "alice"),)
    assert "tb" in trace.routed_by
    assert not trace.is_complete


def test_an_orderly_restart_loses_nothing_and_leaves_no_gap(overlay: Overlay) -> None:
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    message_id = ids_of(alice)[0]
    for name in ("ib", "sb"):
        stopped(overlay, name)
    overlay.wait(3_600_000)
    for name in ("ib", "sb"):
        overlay.start(name)
    for pair in (("pb", "ib"), ("ib", "sb"), ("sb", "tb")):
        overlay.link(*pair)
    overlay.wait(5_000)
    trace = ask(overlay, feed, message_id)
    assert (trace.routed_by, trace.receivers) == (("pb", "ib", "sb"), (("sb", "alice"),))
    assert trace.is_complete
    # What came while it was down it certainly had not.
    other = ask(overlay, feed, MessageId(1, 1, overlay.now_ms - 60_000, 0).to_bytes())
    assert (other.routed_by, other.is_complete) == ((), True)


def test_a_time_without_tracking_is_unknown_and_not_a_no(overlay: Overlay) -> None:
    usual = overlay.settings["ib"]
    stopped(overlay, "ib")
    overlay.settings["ib"] = type(usual)(
        **{each: getattr(usual, each) for each in usual.__slots__ if each != "tracking"},
        tracking=TrackingSettings(strategy="null"),
    )
    overlay.start("ib")
    for pair in (("pb", "ib"), ("ib", "sb")):
        overlay.link(*pair)
    overlay.wait(5_000)
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    overlay.wait(2_000)
    unrecorded = ask(overlay, feed, ids_of(alice)[0])
    assert unrecorded.unknown == ("ib",)
    assert unrecorded.receivers == (("sb", "alice"),)
    stopped(overlay, "ib")
    overlay.settings["ib"] = usual
    overlay.start("ib")
    for pair in (("pb", "ib"), ("ib", "sb")):
        overlay.link(*pair)
    overlay.wait(5_000)
    later = ask(overlay, feed, ids_of(alice)[0])
    assert later.unknown == ("ib",)
    assert later.receivers == (("sb", "alice"),)


def test_a_store_that_cannot_follow_makes_a_gap_and_delivery_goes_on() -> None:
    tracking = TrackingSettings(waiting_bytes_max=20_000)
    overlay = chain("pb", "sb", silent_ms=10**9, tracking=tracking)
    overlay.wait(2_000)
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    overlay.syncs = False
    for number in range(400):
        feed.publish(*({"number": 100 * number + each} for each in range(100)))
        overlay.wait(100)
    assert len(alice.numbers()) == 40_000
    for name in ("pb", "sb"):
        status = overlay.brokers[name].status().tracking
        assert isinstance(status.filters_dropped, int)
        assert isinstance(status.waiting_bytes, int)
        assert status.filters_dropped > 0, name
        assert status.waiting_bytes < 200_000
    overlay.syncs = True
    overlay.sync()
    overlay.wait(5_000)
    doubted = 0
    ids = ids_of(alice)
    for message_id in ids[:: len(ids) // 50]:
        trace = ask(overlay, feed, message_id)
        assert {hop.broker for hop in trace.hops} == {"pb", "sb"}
        assert trace.receivers == (("sb", "alice"),) or trace.gaps
        doubted += any(gap.reason == "overload" for gap in trace.gaps)
    assert doubted


def test_a_broker_that_is_down_is_named_and_the_search_goes_on() -> None:
    overlay = ring("pb", "left", "sb", "right", **SLOW)
    overlay.wait(2_000)
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    overlay.wait(2_000)
    message_id = ids_of(alice)[0]
    between = ask(overlay, feed, message_id).routed_by[1]
    overlay.crash(between)
    overlay.wait(2_000)
    trace = ask(overlay, feed, message_id)
    assert trace.unreachable == (between,)
    assert trace.receivers == (("sb", "alice"),)
    assert trace.routed_by == ("pb", "sb")
    assert parents(trace)["sb"] == between
    assert not trace.is_complete


def test_a_broker_that_does_not_answer_is_given_up_in_time(overlay: Overlay) -> None:
    alice = seen(overlay, "tb", "alice")
    overlay.client("pb", "feed").publish({"number": 1})
    overlay.wait(1_000)
    message_id = ids_of(alice)[0]
    overlay.delay("pb", "ib")
    trace = ask(overlay, alice, message_id)
    assert trace.unreachable == ("pb",)
    assert trace.published is Evidence.UNKNOWN
    assert trace.receivers == (("tb", "alice"),)


def test_who_may_not_trace_learns_nothing_and_costs_nothing() -> None:
    rules = (Rule("ops-%"), Rule("%", trace=False))
    overlay = chain("pb", "sb", silent_ms=10**9, access=Access({}, rules))
    overlay.wait(2_000)
    somebody, ops = overlay.client("sb", "somebody"), overlay.client("sb", "ops-1")
    message_id = MessageId(1, 1, overlay.now_ms, 0).to_bytes()
    somebody.say(f.TraceRequest(9, message_id))
    assert somebody.refusals() == [("trace", 9, "client somebody may not trace messages")]
    assert overlay.brokers["sb"].status().counts["traces"] == 0
    assert ask(overlay, ops, message_id).asked


@pytest.mark.parametrize(
    ("message_id", "reason"),
    [
        (MessageId(1, 1, 10**9, 0), "ms in the future"),
        (MessageId(1, 77, 10**6, 0), "names broker number 77, which is unknown here"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(overlay: Overlay, message_id: MessageId, reason: str) -> None:
    client = overlay.client("sb", "ops")
    client.say(f.TraceRequest(4, message_id.to_bytes()))
    ((request, number, said),) = client.refusals()
    assert (request, number) == ("trace", 4)
    assert str(message_id) in said
    assert reason in said


def test_messages_older_than_what_is_kept_are_unknown_and_not_a_no(overlay: Overlay) -> None:
    old = MessageId(1, 1, 5, 0).to_bytes()
    trace = ask(overlay, overlay.client("sb", "ops"), old)
    assert trace.unknown == ("pb", "ib", "sb", "tb")
    assert (trace.published, trace.is_complete) == (Evidence.UNKNOWN, False)


def test_too_many_traces_at_once_and_in_a_second_are_refused(overlay: Overlay) -> None:
    client, other = overlay.client("sb", "ops"), overlay.client("sb", "other")
    message_id = MessageId(1, 1, overlay.now_ms, 0).to_bytes()
    overlay.delay("pb", "ib")
    client.say(*(f.TraceRequest(number, message_id) for number in range(_TRACES_OF_ONE_MAX + 2)))
    assert [number for _, number, _ in client.refusals()] == [_TRACES_OF_ONE_MAX, _TRACES_OF_ONE_MAX + 1]
    assert "too many traces are under way" in client.refusals()[0][2]
    again = overlay.client("sb", "ops")
    again.say(f.TraceRequest(1, message_id))
    assert "(4 of this client)" in again.refusals()[0][2], "its name counts, not the connection"
    other.say(f.TraceRequest(1, message_id))
    assert other.refusals() == []
    overlay.undelay("pb", "ib")
    assert len(client.all(f.TraceReply)) == _TRACES_OF_ONE_MAX
    for number in range(2 * _BURST):
        other.say(f.TraceRequest(number, message_id))
    refused = other.refusals()
    assert len(refused) == _BURST + _TRACES_OF_ONE_MAX + 1
    assert "traces in a second" in refused[0][2]
    overlay.wait(1_000)
    assert ask(overlay, other, message_id).published is Evidence.NO


def test_traces_of_two_clients_do_not_get_into_each_others_way(overlay: Overlay) -> None:
    alice, bob = seen(overlay, "tb", "alice"), seen(overlay, "tb", "bob", "number = 2")
    overlay.client("pb", "feed").publish({"number": 1}, {"number": 2})
    overlay.wait(1_000)
    first, second = ids_of(alice)
    overlay.delay("pb", "ib")
    alice.say(f.TraceRequest(1, first))
    bob.say(f.TraceRequest(1, second))
    alice.say(f.TraceRequest(2, second))
    overlay.undelay("pb", "ib")
    overlay.wait(1_000)
    both = (("tb", "alice"), ("tb", "bob"))
    heard = [each for each in (*alice.heard, *bob.heard) if isinstance(each, f.TraceReply)]
    traces = [read_trace(each.trace) for each in heard]
    assert [each.receivers for each in traces] == [both[:1], both, both]
    assert all(each.is_complete for each in traces)


def test_a_client_that_leaves_leaves_nothing_behind(overlay: Overlay) -> None:
    client = overlay.client("tb", "ops")
    overlay.delay("pb", "ib")
    client.say(f.TraceRequest(1, MessageId(1, 1, overlay.now_ms, 0).to_bytes()))
    overlay.leave(client)
    desk = overlay.brokers["tb"]._trace_desk
    assert (desk._tracings, desk._questions, desk.next_deadline()) == ({}, {}, None)
    overlay.undelay("pb", "ib")
    overlay.wait(5_000)
    assert overlay.brokers["tb"].malformed == 0
    assert overlay.brokers["tb"].status().counts["trace_answers_ignored"] == 1


def test_a_damaged_filter_is_a_gap_and_no_wrong_answer(overlay: Overlay) -> None:
    alice = seen(overlay, "sb", "alice")
    feed = overlay.client("pb", "feed")
    feed.publish({"number": 1})
    overlay.wait(5_000)
    message_id = ids_of(alice)[0]
    stopped(overlay, "ib")
    disk = overlay.disks["ib"]
    for name in disk.kept_names():
        if name.startswith("filter/"):
            disk.damage_kept(name)
    overlay.start("ib")
    for pair in (("pb", "ib"), ("ib", "sb")):
        overlay.link(*pair)
    overlay.wait(5_000)
    trace = ask(overlay, feed, message_id)
    assert {gap.broker: gap.reason for gap in trace.gaps} == {"ib": "damaged"}
    assert trace.receivers == (("sb", "alice"),)
    assert overlay.brokers["ib"].status().tracking.damaged > 0


@pytest.mark.parametrize("host", ["pb", "ib", "tb"])
def test_a_message_of_a_group_is_found_at_the_member_that_was_handed_it(host: str) -> None:
    overlay = chain("pb", "ib", "sb", "tb", **SLOW)
    overlay.wait(2_000)
    worker = overlay.client(host, "worker")
    worker.say(f.Join(1, "", "g", b"w", 1, "", 30_000, prefetch=2))
    overlay.wait(2_000)
    overlay.client("pb", "feed").publish({"number": 1})
    overlay.wait(2_000)
    (body,) = [body for each in worker.heard if isinstance(each, f.Handed) for body in each.bodies]
    trace = ask(overlay, overlay.client("sb", "ops"), body[:16])
    way = ("pb", "ib", "sb", "tb")
    assert trace.routed_by == way[: way.index(host) + 1]
    assert trace.receivers == ((host, "worker"),)
