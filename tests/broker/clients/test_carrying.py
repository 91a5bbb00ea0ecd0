"""The door: carries what its clients publish to pubends elsewhere, once and in order, whatever is lost on the way."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from overlay import Overlay, Publisher, TestClient, chain, ring, star
from penstock.ajil import Aup
from penstock.ajil.settings import LimitSettings
from penstock.broker import BrokerSettings
from penstock.broker.access import Access, Rule
from penstock.broker.clients import visitors as visitors_module
from penstock.broker.peers import guest_of
from penstock.broker.sources import Source
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.protocol import frames as f
from penstock.selectors.selector import Selector

PATIENT_MS = 10_000_000
"""Long enough for nobody to take a neighbour for dead that says nothing."""


def line(**settings: object) -> Overlay:
    """The pubend, a broker in between, and the door."""
    return chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS, **settings)


def subscriber(overlay: Overlay, broker: str = "ib") -> TestClient:
    client = overlay.client(broker, "reader")
    client.subscribe(1, "")
    overlay.wait(1_000)
    return client


def source_of(overlay: Overlay, publisher: Publisher, pubend: str = "pb.a") -> Source:
    """What the door keeps of a publisher."""
    peer = overlay.brokers[publisher.client.broker]._connections.peers[publisher.client.connection]
    return guest_of(peer).sources[pubend]


def counts(overlay: Overlay, broker: str) -> dict[str, int]:
    return overlay.brokers[broker]._intake.carrying.counts


def held(overlay: Overlay, first: str, second: str) -> list[f.DataFrame]:
    """Data that waits to be sent from one broker to another."""
    return list(overlay.brokers[first]._connections.links[second].outbox._data)


def check(overlay: Overlay, publisher: Publisher, count: int, pubend: str = "pb.a") -> None:
    """Everything is in the log once and in order, and acknowledged."""
    assert overlay.logged(pubend) == list(range(count))
    assert publisher.acknowledged == count
    source = source_of(overlay, publisher, pubend)
    assert (len(source.outstanding), source.settled) == (0, count)
    overlay.check_invariants()


# --- when all is well


def test_a_message_is_durable_at_the_home_before_its_publisher_hears_of_it() -> None:
    overlay = line()
    reader = subscriber(overlay)
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, 1, 2)
    publisher.ask()
    overlay.run(500, publisher)
    assert publisher.acknowledged == 0
    assert reader.numbers() == []
    overlay.sync()
    publisher.go_on()
    check(overlay, publisher, 3)
    assert reader.numbers() == [0, 1, 2]
    assert publisher.rewinds == []


def test_without_being_asked_the_home_acknowledges_after_a_while_and_all_credit_comes_back() -> None:
    overlay = line(credit_bytes=100_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(*range(10))
    assert publisher.credit_bytes < publisher.full_bytes == 50_000
    overlay.run(1_000, publisher)
    check(overlay, publisher, 10)
    assert publisher.credit_bytes == publisher.full_bytes
    assert source_of(overlay, publisher).unpaid_bytes == 0


def test_messages_to_a_best_effort_pubend_elsewhere_arrive_and_are_acknowledged_by_the_door() -> None:
    overlay = chain("pb", "ib", "sb", silent_ms=PATIENT_MS)
    reader = subscriber(overlay)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(*range(50))
    publisher.ask()
    assert publisher.acknowledged == 50
    assert reader.numbers() == list(range(50))


def test_what_a_best_effort_pubend_has_missed_does_not_keep_it_from_the_rest() -> None:
    overlay = chain("pb", "ib", "sb", silent_ms=PATIENT_MS)
    reader = subscriber(overlay)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay.loses = f.Carry
    publisher.publish(1)
    overlay.loses = None
    publisher.publish(2, 3)
    overlay.run(500, publisher)
    assert reader.numbers() == [0, 2, 3]
    assert (publisher.acknowledged, publisher.rewinds) == (4, [])


def test_large_batches_are_cut_so_that_others_need_not_wait_for_them() -> None:
    overlay = line()
    overlay.clog("sb", "ib")
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(*range(10), size=40_000)
    carried = [each for each in held(overlay, "sb", "ib") if isinstance(each, f.Carry)]
    assert [len(each.bodies) for each in carried] == [3, 3, 3, 1]
    assert [(each.first, each.is_first) for each in carried] == [(1, True), (4, False), (7, False), (10, False)]
    overlay.unclog("sb", "ib")
    overlay.run(1_000, publisher)
    check(overlay, publisher, 10)


def test_each_pubend_has_numbers_and_credit_of_its_own() -> None:
    overlay = star("a", "b", "c", pubends=("a", "b"), silent_ms=PATIENT_MS)
    client = overlay.client("c", publisher=b"me")
    for pubend in ("a.a", "b.a", "a.a"):
        client.publish({"number": client.published[pubend]}, pubend=pubend)
    overlay.wait(1_000)
    assert (overlay.logged("a.a"), overlay.logged("b.a")) == ([0, 1], [0])
    acks = [(each.sequence, each.pubend) for each in client.heard if isinstance(each, f.PublishAck)]
    assert {(2, "a.a"), (1, "b.a")} <= set(acks)


def test_who_has_no_identity_is_not_recognised_and_its_connections_are_not_confused() -> None:
    overlay = line()
    for number in range(2):
        client = overlay.client("sb")
        client.publish({"number": number}, pubend="pb.a")
        overlay.wait(1_000)
        assert [each.sequence for each in client.heard if isinstance(each, f.PublishAck)][-1] == 1
        overlay.leave(client)
    assert overlay.logged("pb.a") == [0, 1]


# --- what is refused


def test_the_door_refuses_what_its_client_may_not_publish_and_the_rest_takes_over_the_numbers() -> None:
    access = Access(rules=(Rule("%", publish=Selector.parse("number >= 0")),))
    overlay = line(access=access)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, -1, 1, -2, -3, 2)
    overlay.run(1_000, publisher)
    check(overlay, publisher, 3)
    assert len(publisher.refusals) == 3


def test_what_came_before_a_refused_message_and_found_no_room_is_not_taken_for_refused() -> None:
    access = Access(rules=(Rule("%", publish=Selector.parse("number >= 0")),))
    overlay = line(access=access, link_outbox_bytes=2_000)
    first = Publisher(overlay, "sb", "pb.a", name="first", identity=b"first")
    overlay.clog("sb", "ib")
    first.publish(*range(3), size=800)
    client = overlay.client("sb", publisher=b"me")
    source = client.source()
    bodies = [encode_body(source.next(overlay.now_ms), Message({"number": number})) for number in (10, -1, 11)]
    client.say(f.Publish(1, bodies, "pb.a"))
    overlay.unclog("sb", "ib")
    heard = 0
    for _ in range(5):
        rewinds = [each for each in client.heard if isinstance(each, f.Rewind)]
        for rewind in rewinds[heard:]:
            client.say(f.Rewound(rewind.round, "pb.a"))
            if rewind.number == 1:
                client.say(f.Publish(1, bodies[:1], "pb.a"))
            client.say(f.Skipped(3, "pb.a"), f.Publish(3, bodies[2:], "pb.a"))
        heard = len(rewinds)
        overlay.run(100, first)
    assert overlay.logged("pb.a") == [0, 1, 2, 10, 11]
    overlay.check_invariants()


def test_an_unknown_pubend_is_refused_where_the_broker_knows_all_and_waited_for_otherwise() -> None:
    overlay = line(members=("pb", "ib", "sb"))
    overlay.wait(1_000)
    publisher = Publisher(overlay, "sb", "pb.z")
    publisher.publish(0)
    assert publisher.refusals == ["no pubend 'pb.z' in this overlay; there are: pb.a"]
    overlay = line()
    overlay.wait(1_000)
    publisher = Publisher(overlay, "sb", "pb.z")
    publisher.publish(0)
    overlay.run(100, publisher)
    assert (publisher.refusals, publisher.acknowledged) == ([], 0)
    assert publisher.reasons[0] == "pubend pb.z is out of reach of broker sb"


def test_while_members_are_missing_an_unknown_pubend_is_waited_for_and_messages_go_on_by_themselves() -> None:
    overlay = line(members=("pb", "ib", "sb"))
    overlay.crash("pb")
    overlay.wait(1_000)
    for name in ("ib", "sb"):
        overlay.crash(name)
    overlay.wait(1)
    for name in ("ib", "sb"):
        overlay.start(name)
    overlay.link("ib", "sb")
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay.run(500, publisher)
    assert (publisher.refusals, publisher.acknowledged) == ([], 0)
    assert publisher.reasons[0] == "pubend pb.a is out of reach of broker sb"
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.run(4_000, publisher)
    check(overlay, publisher, 1)
    assert publisher.reasons[-1] == ""


# --- what is lost on the way


def test_after_a_lost_frame_the_door_begins_anew_and_everything_arrives_once() -> None:
    overlay = line()
    reader = subscriber(overlay)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, 1)
    overlay.loses = f.Carry
    publisher.publish(2, 3)
    overlay.loses = None
    publisher.publish(4)
    overlay.run(3_000, publisher)
    check(overlay, publisher, 5)
    assert reader.numbers() == [0, 1, 2, 3, 4]
    assert len(publisher.rewinds) == 1
    assert publisher.rewinds[0].number <= 3


def test_when_nothing_is_heard_the_door_asks_and_learns_that_the_last_frame_was_lost() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay.run(1_000, publisher)
    overlay.loses = f.Carry
    publisher.publish(1)
    overlay.loses = None
    overlay.run(900, publisher)
    assert overlay.logged("pb.a") == [0]
    overlay.run(1_000, publisher)
    check(overlay, publisher, 2)


def test_when_the_beginning_of_a_round_was_lost_the_next_question_brings_it_back() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    overlay.loses = f.Carry
    publisher.publish(0, 1)
    overlay.loses = None
    overlay.run(3_000, publisher)
    check(overlay, publisher, 2)


def test_when_answers_are_lost_the_door_asks_until_it_has_one() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    overlay.loses = f.Carried
    publisher.publish(0, 1)
    overlay.run(5_000, publisher)
    assert overlay.logged("pb.a") == [0, 1]
    assert publisher.acknowledged == 0
    overlay.loses = None
    overlay.run(9_000, publisher)
    check(overlay, publisher, 2)
    assert publisher.rewinds == []


def test_what_was_lost_leaves_less_on_its_way_and_what_arrives_leaves_more() -> None:
    overlay = line(credit_bytes=128_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay.loses = f.Carry
    publisher.publish(1)
    overlay.loses = None
    publisher.publish(2)
    overlay.run(100, publisher)
    assert publisher.reasons[-1] == "the path to pubend pb.a is congested"
    assert publisher.window_bytes == 32_000
    for number in range(3, 203):
        publisher.publish(number, size=1_000)
        overlay.run(20, publisher)
    overlay.run(2_000, publisher)
    check(overlay, publisher, 203)
    assert (publisher.reasons[-1], publisher.window_bytes) == ("", 0)
    assert publisher.credit_bytes == 64_000


def test_a_home_without_room_is_named_as_the_reason_and_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors_module, "_BYTES_MAX", 20_000)
    overlay = line(credit_bytes=128_000)
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(60):
        publisher.publish(number, size=1_000)
    overlay.run(90, publisher)
    assert publisher.reasons[-1] == "broker pb has no room for more that waits for pubend pb.a"
    assert publisher.rewinds == []
    assert counts(overlay, "sb")["carried_anew"] == 0
    overlay.syncs = True
    overlay.sync()
    overlay.run(10_000, publisher)
    check(overlay, publisher, 60)
    assert not any("congested" in reason for reason in publisher.reasons)


# --- the path


def test_while_the_pubend_is_out_of_reach_publishers_wait_and_go_on_by_themselves() -> None:
    overlay = line()
    overlay.wait(1_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay.run(500, publisher)
    overlay.cut("pb", "ib")
    publisher.publish(1, 2)
    overlay.run(5_000, publisher)
    assert publisher.acknowledged == 1
    assert publisher.reasons[-1] == "pubend pb.a is out of reach of broker sb"
    overlay.link("pb", "ib")
    overlay.run(4_000, publisher)
    check(overlay, publisher, 3)
    assert publisher.reasons[-1] == ""
    assert publisher.credit_bytes == publisher.full_bytes


def test_when_the_path_changes_a_new_round_begins_and_what_has_arrived_is_recognised() -> None:
    overlay = ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS)
    reader = subscriber(overlay, "pb")
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay.run(500, publisher)
    passage = source_of(overlay, publisher).passage
    assert passage is not None
    parent, first_round = passage.parent, passage.round
    overlay.delay("pb", parent)
    publisher.publish(1, 2)
    assert overlay.logged("pb.a") == [0, 1, 2]
    pair = next(pair for pair in overlay.links() if set(pair) == {"pb", parent})
    overlay.cut(*pair)
    overlay.run(2_000, publisher)
    assert passage.parent not in ("", parent)
    assert passage.round > first_round
    check(overlay, publisher, 3)
    assert publisher.rewinds[0].number == 2
    assert overlay.brokers["pb"].status().counts["publishes_repeated"] == 2
    assert reader.numbers() == [0, 1, 2]


def test_a_link_that_comes_back_makes_the_door_begin_anew() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    overlay.clog("sb", "ib")
    publisher.publish(*range(5))
    overlay.cut("ib", "sb")
    overlay.clogged.clear()
    publisher.go_on()
    publisher.publish(5)
    overlay.link("ib", "sb")
    overlay.run(4_000, publisher)
    check(overlay, publisher, 6)


def test_a_link_that_is_full_neither_loses_anything_nor_stops_for_ever() -> None:
    overlay = line(link_outbox_bytes=2_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    overlay.clog("sb", "ib")
    for number in range(100):
        publisher.publish(number)
    overlay.run(1_000, publisher)
    assert publisher.reasons[-1] == "the link to broker ib is full"
    assert publisher.client.closed is None
    overlay.unclog("sb", "ib")
    overlay.run(5_000, publisher)
    check(overlay, publisher, 100)
    assert publisher.reasons[-1] == ""
    assert publisher.credit_bytes == publisher.full_bytes


def test_what_a_full_link_does_not_take_costs_no_credit() -> None:
    overlay = line(link_outbox_bytes=2_000, credit_bytes=20_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    for burst in range(10):
        overlay.clog("sb", "ib")
        for number in range(20):
            publisher.publish(20 * burst + number, size=300)
        overlay.run(100, publisher)
        source = source_of(overlay, publisher)
        on_way_bytes = sum(batch.size for batch in source.outstanding)
        assert source.unpaid_bytes == source.withheld_bytes + on_way_bytes < 4_000
        overlay.check_invariants()
        overlay.unclog("sb", "ib")
        overlay.run(5_000, publisher)
    assert publisher.client.closed is None
    check(overlay, publisher, 200)
    assert publisher.credit_bytes == publisher.full_bytes


def test_those_that_wait_for_a_full_link_have_their_turns_in_order_and_soon() -> None:
    overlay = line(link_outbox_bytes=2_000)
    first = Publisher(overlay, "sb", "pb.a", name="first", identity=b"first")
    overlay.clog("sb", "ib")
    first.publish(*range(4), size=600)
    others = [Publisher(overlay, "sb", "pb.a", name=each, identity=each.encode()) for each in ("a", "b", "c")]
    for publisher in others:
        publisher.publish(*range(6), size=600)
        # Those that wait longer have paused longer.
        overlay.run(2_000, first, *others)
    turns: list[list[str]] = []
    for _ in others:
        overlay.unclog("sb", "ib")
        overlay.clog("sb", "ib")
        overlay.run(30, first, *others)
        turns.append([each.client for each in held(overlay, "sb", "ib") if isinstance(each, f.Carry) and each.bodies])
    assert turns == [["a"], ["b"], ["c"]]
    overlay.check_invariants()


def test_who_finds_the_link_full_again_when_its_turn_comes_keeps_its_place() -> None:
    overlay = line(link_outbox_bytes=2_000)
    first = Publisher(overlay, "sb", "pb.a", name="first", identity=b"first")
    overlay.clog("sb", "ib")
    first.publish(*range(4), size=600)
    names = ("a", "b", "c")
    a, b, c = others = [Publisher(overlay, "sb", "pb.a", name=each, identity=each.encode()) for each in names]
    for publisher, size in ((a, 400), (b, 700), (c, 1_200)):
        publisher.publish(0, size=size)
    # There seems to be room for two, but then the first of them has much more.
    a.publish(*range(1, 6), size=600)
    senders: list[list[str]] = []
    for _ in range(2):
        overlay.unclog("sb", "ib")
        overlay.clog("sb", "ib")
        overlay.run(30, first, *others)
        senders.append([each.client for each in held(overlay, "sb", "ib") if isinstance(each, f.Carry) and each.bodies])
    assert senders == [["a"], ["b", "c"]]


def test_a_publisher_that_has_its_turn_and_nothing_to_send_does_not_keep_others_waiting() -> None:
    overlay = line(link_outbox_bytes=2_000)
    first = Publisher(overlay, "sb", "pb.a", name="first", identity=b"first")
    overlay.clog("sb", "ib")
    first.publish(*range(4), size=600)
    silent, other = (Publisher(overlay, "sb", "pb.a", name=each, identity=each.encode()) for each in ("a", "b"))
    for publisher in (silent, other):
        publisher.publish(*range(6), size=600)
    overlay.unclog("sb", "ib")
    overlay.run(150, first, other)
    other.ask()
    assert other.acknowledged == 0
    overlay.run(100, first, other)
    other.ask()
    overlay.run(10, first, other)
    assert other.acknowledged == 6
    overlay.run(3_000, first, silent)
    assert silent.acknowledged == 6


def test_a_link_further_up_that_is_full_makes_the_round_break_and_everything_arrives() -> None:
    overlay = line(link_outbox_bytes=2_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    overlay.clog("ib", "pb")
    for number in range(100):
        publisher.publish(number)
    overlay.run(3_000, publisher)
    assert overlay.brokers["ib"]._visitors.counts["carry_dropped"] > 0
    overlay.unclog("ib", "pb")
    for _ in range(60):
        overlay.run(500, publisher)
    check(overlay, publisher, 100)


# --- restarts


def test_when_the_home_restarts_what_was_not_durable_is_sent_again() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, 1)
    overlay.run(1_000, publisher)
    overlay.syncs = False
    publisher.publish(2, 3)
    overlay.crash("pb")
    overlay.syncs = True
    overlay.run(1_000, publisher)
    overlay.start("pb")
    overlay.link("pb", "ib")
    overlay.run(4_000, publisher)
    check(overlay, publisher, 4)


def test_when_the_door_restarts_its_publisher_goes_on_at_another_door() -> None:
    overlay = star("a", "b", "c", pubends=("a",), silent_ms=PATIENT_MS)
    publisher = Publisher(overlay, "b", "a.a")
    publisher.publish(0, 1)
    overlay.run(1_000, publisher)
    overlay.delay("a", "hub")
    publisher.publish(2, 3)
    assert overlay.logged("a.a") == [0, 1, 2, 3]
    overlay.crash("b")
    overlay.undelay("a", "hub")
    publisher.connect("c")
    publisher.publish(4)
    overlay.run(2_000, publisher)
    check(overlay, publisher, 5, "a.a")


def test_a_door_that_restarts_begins_above_its_former_rounds() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(3):
        publisher.publish(number)
        overlay.run(1_000, publisher)
        overlay.crash("sb")
        overlay.wait(1)
        overlay.start("sb")
        overlay.link("ib", "sb")
        overlay.wait(500)
        publisher.connect("sb")
    publisher.publish(3)
    overlay.run(1_000, publisher)
    check(overlay, publisher, 4)


def test_a_publisher_may_go_to_and_fro_between_doors_and_to_the_home_itself() -> None:
    overlay = star("a", "b", "c", pubends=("a",), silent_ms=PATIENT_MS)
    publisher = Publisher(overlay, "b", "a.a")
    for number, broker in enumerate(("c", "a", "b", "hub", "a", "c", "b")):
        publisher.publish(number)
        overlay.leave(publisher.client)
        publisher.connect(broker)
    overlay.run(1_000, publisher)
    check(overlay, publisher, 7, "a.a")


def test_a_publisher_through_two_doors_at_once_is_stored_once() -> None:
    overlay = star("a", "b", "c", pubends=("a",), silent_ms=PATIENT_MS)
    one, other = Publisher(overlay, "b", "a.a"), Publisher(overlay, "c", "a.a")
    for number in range(10):
        one.publish(number)
        other.publish(number)
    overlay.run(1_000, one, other)
    assert overlay.logged("a.a") == list(range(10))
    assert (one.acknowledged, other.acknowledged) == (10, 10)
    assert (one.rewinds, other.rewinds) == ([], [])


# --- who has to wait


def test_a_home_whose_log_is_full_holds_back_only_those_that_publish_to_it() -> None:
    overlay = star("a", "b", "c", pubends=("a", "b"), silent_ms=PATIENT_MS)
    full, free = Publisher(overlay, "c", "a.a", identity=b"x"), Publisher(overlay, "c", "b.a", identity=b"y")
    overlay.syncs = False
    full.publish(0)
    overlay._act("a", overlay.brokers["a"].log_full("the disk is full", now_ms=overlay.now_ms))
    overlay.run(50, full, free)
    assert full.reasons == ["the disk is full"]
    overlay.syncs = True
    free.publish(0)
    overlay._waiting = [each for each in overlay._waiting if each[0] == "a"]
    overlay.run(1_000, full, free)
    assert (full.acknowledged, free.acknowledged) == (0, 1)
    assert free.reasons == []
    overlay.sync()
    overlay.run(1_000, full, free)
    assert full.acknowledged == 1
    assert full.reasons[-1] == ""


def test_a_pubend_at_its_rate_tells_publishers_elsewhere_how_much_they_may_have_on_their_way() -> None:
    overlay = line()
    subscriber(overlay)
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(200):
        publisher.publish(number)
        overlay.run(10, publisher)
    asked = overlay.brokers["pb"].status().guaranteed.pubends["pb.a"].promised
    overlay.lie("pb", "ib", f.CongestionAlert("pb.a", asked, 0.1, inf, 0, "ib"))
    publisher.publish(*range(200, 300))
    overlay.run(100, publisher)
    assert "pb.a" in publisher.reasons[-1]
    assert publisher.window_bytes > 0
    for _ in range(120):
        overlay.run(500, publisher)
    check(overlay, publisher, 300)
    assert publisher.reasons[-1] == ""


@pytest.mark.parametrize("guaranteed", [True, False])
def test_a_limit_at_the_home_slows_a_publisher_elsewhere_and_tells_it_why(guaranteed: bool) -> None:
    limit = LimitSettings(Aup(limit_bytes_s=5_000, mode="hard", version=1))
    overlay = chain("pb", "ib", "sb", guaranteed=guaranteed, silent_ms=PATIENT_MS)
    overlay.settings["pb"] = replace(overlay.settings["pb"], limit=limit)
    broker = overlay.brokers["pb"]
    overlay._act("pb", broker.apply(overlay.settings["pb"], now_ms=overlay.now_ms))
    reader = subscriber(overlay)
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(100):
        publisher.publish(number, size=200)
    overlay.run(500, publisher)
    assert any("the limit of" in each for each in publisher.reasons)
    assert len(reader.numbers()) < 100
    for _ in range(120):
        overlay.run(500, publisher)
    assert reader.numbers() == list(range(100))
    assert publisher.acknowledged == 100
    assert publisher.reasons[-1] == ""


def test_a_reason_that_is_too_long_for_a_frame_is_shortened_on_its_way_down() -> None:
    overlay = line()
    before = overlay.links()
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    overlay._act("pb", overlay.brokers["pb"].log_full("x" * 10_000, now_ms=overlay.now_ms))
    overlay.run(100, publisher)
    assert overlay.links() == before
    assert [each[:3] for each in publisher.reasons] == ["xxx"]


def test_the_credit_of_a_door_that_has_too_much_to_send_is_withheld_and_given_back() -> None:
    overlay = line(held_back_bytes=3_000, credit_bytes=4_000)
    slow = overlay.client("sb", "slow")
    slow.subscribe(1, "")
    overlay.wait(1_000)
    slow.reads = False
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(30):
        publisher.publish(number, size=200)
        overlay.run(300, publisher)
    assert "bytes waiting to be sent" in publisher.reasons[-1]
    slow.reads = True
    overlay._carry("sb", slow.connection)
    overlay.run(5_000, publisher)
    check(overlay, publisher, 30)
    assert publisher.reasons[-1] == ""
    assert publisher.credit_bytes == 4_000


def test_the_door_withholds_the_credit_while_the_home_does_and_gives_it_back_afterwards() -> None:
    overlay = line(retain_bytes_max=5_000, grace_ms=1_000, credit_bytes=10_000)
    reader = subscriber(overlay)
    overlay.wait(5_000)
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(30):
        publisher.publish(number, size=200)
    overlay.run(1_000, publisher)
    assert "has reached its maximum" in publisher.reasons[-1]
    assert publisher.credit_bytes < 10_000
    for _ in range(20):
        reader.acknowledge("pb.a", reader.horizon())
        overlay.run(500, publisher)
    check_tail = overlay.logged("pb.a")
    assert check_tail == list(range(30))[30 - len(check_tail) :]
    assert publisher.acknowledged == 30
    assert (publisher.reasons[-1], publisher.credit_bytes) == ("", 10_000)


# --- what clients are told


def test_clients_are_told_which_pubends_come_and_go() -> None:
    overlay = Overlay(
        BrokerSettings("pb", number=1, pubends=("pb.a", "pb.b"), best_effort=("pb.b",), neighbours=("sb",)),
        BrokerSettings("sb", number=2, pubends=("sb.a",), neighbours=("pb",), members=("pb", "sb")),
    )
    client = overlay.client("sb")
    (welcome,) = client.all(f.Welcome)
    assert isinstance(welcome, f.Welcome)
    assert (welcome.pubends, welcome.others, welcome.is_complete) == (("sb.a",), (), False)
    overlay.link("pb", "sb")
    overlay.wait(500)
    assert client.all(f.PubendPlaces)[-1] == f.PubendPlaces((("pb.a", "pb", True), ("pb.b", "pb", False)))
    (late,) = overlay.client("sb").all(f.Welcome)
    assert isinstance(late, f.Welcome)
    assert (set(late.others), late.is_complete) == ({("pb.a", "pb", True), ("pb.b", "pb", False)}, True)
    overlay.crash("pb")
    overlay.settings["pb"] = replace(overlay.settings["pb"], pubends=("pb.a",), best_effort=("pb.a",))
    overlay.wait(1)
    overlay.start("pb")
    overlay.link("pb", "sb")
    overlay.wait(500)
    told: dict[str, bool] = {}
    for each in client.all(f.PubendPlaces):
        assert isinstance(each, f.PubendPlaces)
        told |= {name: is_guaranteed for name, _, is_guaranteed in each.added}
        for name in each.gone:
            del told[name]
    assert told == {"pb.a": False}


# --- what is not believed


def test_answers_of_somebody_who_is_not_on_the_way_to_the_pubend_are_ignored() -> None:
    overlay = ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS)
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    source = source_of(overlay, publisher)
    assert source.passage is not None
    other = "cb" if source.passage.parent == "ab" else "ab"
    before = overlay.brokers["sb"].status().counts["off_path"]
    forged = f.Carried("pb.a", "sb", source.publisher, source.passage.round, 1)
    overlay.lie("sb", other, forged)
    publisher.go_on()
    assert publisher.acknowledged == 0
    assert overlay.brokers["sb"].status().counts["off_path"] == before + 1
    overlay.lie("sb", source.passage.parent, forged)
    publisher.go_on()
    assert publisher.acknowledged == 1, "the parent is believed"


def test_answers_to_another_round_or_for_an_unknown_publisher_are_ignored() -> None:
    overlay = line()
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    source = source_of(overlay, publisher)
    assert source.passage is not None
    now = source.passage.round
    for carried in (
        f.Carried("pb.a", "sb", source.publisher, now - 1, 1),
        f.Carried("pb.a", "sb", source.publisher, now + 1, 1),
        f.Carried("pb.a", "sb", source.publisher, now - 1, 0, is_broken=True),
        f.Carried("pb.a", "sb", b"somebody else", now, 1),
    ):
        overlay.lie("sb", "ib", carried)
        publisher.go_on()
    assert (publisher.acknowledged, publisher.rewinds) == (0, [])


def test_a_home_that_claims_to_have_more_than_was_sent_settles_no_more_than_that() -> None:
    overlay = line()
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, 1)
    source = source_of(overlay, publisher)
    assert source.passage is not None
    overlay.lie("sb", "ib", f.Carried("pb.a", "sb", source.publisher, source.passage.round, 2**40))
    publisher.go_on()
    assert publisher.acknowledged == 2


def test_what_the_home_has_is_settled_even_if_something_after_it_is_missing() -> None:
    overlay = line()
    overlay.syncs = False
    publisher = Publisher(overlay, "sb", "pb.a")
    for number in range(4):
        publisher.publish(number)
    source = source_of(overlay, publisher)
    assert source.passage is not None
    former = source.passage.round
    overlay.lie("sb", "ib", f.Carried("pb.a", "sb", source.publisher, former, 2, is_broken=True))
    assert (source.settled, source.passage.round > former) == (2, True)
    publisher.go_on()
    assert publisher.acknowledged == 2
    assert publisher.rewinds[-1].number == 3, "only the others are wanted again"


def test_who_leaves_is_forgotten_by_the_door() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0)
    carrying = overlay.brokers["sb"]._intake.carrying
    assert len(carrying._sources) == 1
    overlay.cut("ib", "sb")
    overlay.leave(publisher.client)
    assert (carrying._sources, carrying._clients, carrying._slowed) == ({}, {}, {})
    assert carrying.next_deadline() is None


def test_a_client_that_counts_beyond_the_largest_number_loses_its_own_connection_and_no_link() -> None:
    overlay = line()
    overlay.wait(1_000)
    before = overlay.links()
    client = overlay.client("sb", publisher=b"me")
    client.published["pb.a"] = 2**62 - 3
    client.publish(*[{"number": number} for number in range(3)], pubend="pb.a")
    overlay.wait(3_000)
    assert overlay.links() == before
    assert client.closed is not None
    assert client.closed.code == "protocol"


def test_a_door_whose_clock_was_set_back_by_a_restart_learns_that_its_rounds_are_too_low() -> None:
    overlay = line()
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, 1)
    overlay.run(2_000, publisher)
    passage = source_of(overlay, publisher).passage
    assert passage is not None
    # As if all rounds of this life had begun an hour earlier than those of the former one.
    overlay.brokers["pb"]._visitors._visitors[next(iter(overlay.brokers["pb"]._visitors._visitors))].round += 3_600_000
    publisher.publish(2, 3)
    overlay.run(3_000, publisher)
    check(overlay, publisher, 4)
    assert passage.round > overlay.now_ms
