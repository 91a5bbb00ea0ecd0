"""A host's part in reading logs: who may, what is refused, what is bounded, and what is left behind by whom."""

from __future__ import annotations

from typing import Any

import pytest

from overlay import Overlay, TestClient, chain, star
from penstock.broker import Access, BrokerSettings, Rule
from penstock.broker.clients.log_desk import LogDesk
from penstock.model.body import decode_attributes
from penstock.model.values import AttributeValue
from penstock.protocol import frames as f
from penstock.selectors import Selector

PUBEND = "pb.a"
PATIENT = {"guaranteed": True, "silent_ms": 10**9}
PENDING_MAX = 16
CLIENT_PENDING_MAX = 256
ANSWER_MS = 15_000
SURVEY_MS = 2_000
GUARDED = Access(
    tokens={"writer": "w", "reader": "r", "nobody": "n"},
    rules=(
        Rule("writer"),
        Rule("reader", publish=None, subscribe=Selector.parse("class = 'STOCK'")),
        Rule("nobody", subscribe=None),
    ),
)


def pair() -> Overlay:
    return chain("pb", "sb", **PATIENT)


def present(overlay: Overlay) -> int:
    """The last tick that the pubend knows for good."""
    return overlay.brokers["pb"]._guaranteed.logs[PUBEND].promised


def ask(
    client: TestClient, first: int, last: int, *, number: int = 1, selector: str = "TRUE", pubend: str = PUBEND
) -> None:
    client.say(f.ReadRequest(number, pubend, first, last, selector, 100_000))


def answers(client: TestClient) -> list[f.LogAnswer]:
    return [each for each in client.heard if isinstance(each, f.LogAnswer)]


def surveys(client: TestClient) -> list[f.SurveyReply]:
    return [each for each in client.heard if isinstance(each, f.SurveyReply)]


def desk(overlay: Overlay, broker: str) -> LogDesk:
    return overlay.brokers[broker]._log_desk


def check_that_nothing_is_left(overlay: Overlay) -> None:
    for broker in overlay.brokers.values():
        found = broker._log_desk
        assert (found._readings, found._surveys) == ({}, {})
        serving = found._serving
        assert not any((serving._waiting, serving._under_way, serving._keys, serving._effects))


@pytest.mark.parametrize("host", ["pb", "sb"])
def test_a_client_anywhere_reads_what_there_is(host: str) -> None:
    overlay = pair()
    overlay.client("pb").publish({"number": 1}, {"number": 2}, {"number": 3})
    reader = overlay.client(host)
    ask(reader, 0, present(overlay), number=9, selector="number <> 2")
    (answer,) = answers(reader)
    assert (answer.pubend, answer.host, answer.number) == (PUBEND, "", 9)
    assert (answer.first, answer.last) == (0, present(overlay))
    assert [decode_attributes(each)["number"] for each in answer.bodies] == [1, 3]
    assert answer.ticks == [each for each in overlay.disks["pb"].ticks(PUBEND) if each != answer.ticks[0] + 1]
    check_that_nothing_is_left(overlay)


def test_a_size_of_nothing_is_still_a_read() -> None:
    overlay = pair()
    overlay.client("pb").publish({"number": 1}, {"number": 2})
    reader = overlay.client("sb")
    reader.say(f.ReadRequest(1, PUBEND, 0, present(overlay), "TRUE", 0))
    assert len(answers(reader)[0].ticks) == 1


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (f.ReadRequest(5, PUBEND, 9, 8, "TRUE", 1), "ticks 9 to 8 are not a valid range"),
        (f.ReadRequest(5, "pb.b", 1, 2, "TRUE", 1), "no guaranteed pubend 'pb.b' in this overlay; there are: pb.a"),
        (f.ReadRequest(5, "", 1, 2, "TRUE", 1), "no guaranteed pubend '' in this overlay; there are: pb.a"),
    ],
)
def test_what_cannot_be_is_refused(asked: f.ReadRequest, reason: str) -> None:
    overlay = pair()
    reader = overlay.client("sb")
    reader.say(asked)
    assert reader.refusals() == [("read", 5, reason)]
    check_that_nothing_is_left(overlay)


def test_a_selector_that_is_none_is_refused() -> None:
    overlay = pair()
    reader = overlay.client("sb")
    ask(reader, 0, 1, selector="number >")
    ((request, number, reason),) = reader.refusals()
    assert (request, number) == ("read", 1)
    assert "number >" in reason or "expected" in reason
    assert reader.closed is None


def test_a_pubend_that_guarantees_nothing_has_no_log() -> None:
    overlay = chain("pb", "sb")
    reader = overlay.client("sb")
    ask(reader, 0, 1)
    assert reader.refusals() == [("read", 1, "no guaranteed pubend 'pb.a' in this overlay; there are: none")]


def test_a_pubend_that_may_be_behind_a_missing_neighbour_is_waited_for() -> None:
    overlay = chain("pb", "ib", "sb", **PATIENT)
    overlay.client("pb").publish({"number": 1})
    overlay.cut("ib", "sb")
    overlay.crash("sb")
    overlay.now_ms += 1
    overlay.start("sb")
    reader = overlay.client("sb")
    ask(reader, 0, present(overlay))
    assert (reader.refusals(), answers(reader)) == ([], [])
    overlay.link("ib", "sb")
    ask(reader, 0, present(overlay))
    assert len(answers(reader)[0].ticks) == 1
    check_that_nothing_is_left(overlay)


def test_who_may_see_nothing_reads_nothing_and_who_may_see_some_reads_that() -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=(PUBEND,), access=GUARDED, silent_ms=10**9))
    writer = overlay.client("pb", "writer", "w")
    writer.publish({"class": "STOCK", "number": 1}, {"class": "BOND", "number": 2}, {"class": "STOCK", "number": 3})
    nobody, reader = overlay.client("pb", "nobody", "n"), overlay.client("pb", "reader", "r")
    ask(nobody, 0, present(overlay))
    nobody.say(f.SurveyRequest(2))
    assert nobody.refusals() == [("read", each, "client nobody may not subscribe") for each in (1, 2)]
    assert (answers(nobody), surveys(nobody)) == ([], [])
    for number, selector in enumerate(["TRUE", "number > 1", "class = 'BOND'", "class = 'BOND' OR number = 3"]):
        ask(reader, 0, present(overlay), number=number, selector=selector)
    seen = [[decode_attributes(body)["number"] for body in each.bodies] for each in answers(reader)]
    assert seen == [[1, 3], [3], [], [3]]


def test_a_selector_that_cannot_be_narrowed_is_refused() -> None:
    overlay = Overlay(BrokerSettings("pb", pubends=(PUBEND,), access=GUARDED))
    reader = overlay.client("pb", "reader", "r")
    ask(reader, 0, 1, selector="(" * 5_000 + "TRUE" + ")" * 5_000)
    assert len(reader.refusals()) == 1
    assert reader.closed is None


def test_one_connection_has_so_many_requests_under_way_and_no_more() -> None:
    overlay = pair()
    overlay.loses = f.LogRequest
    reader, other = overlay.client("sb"), overlay.client("sb")
    for number in range(PENDING_MAX - 1):
        ask(reader, 0, 9, number=number)
    reader.say(f.SurveyRequest(77))
    assert reader.refusals() == []
    ask(reader, 0, 9, number=99)
    reader.say(f.SurveyRequest(98))
    limit = f"{PENDING_MAX} requests are under way, which is the limit of one connection"
    assert reader.refusals() == [("read", 99, limit), ("read", 98, limit)]
    ask(other, 0, 9)
    assert other.refusals() == []
    overlay.wait(ANSWER_MS)
    check_that_nothing_is_left(overlay)
    overlay.loses = None
    ask(reader, 0, 9, number=99)
    assert [each.number for each in answers(reader)] == [99]


def test_all_connections_of_a_client_have_so_many_requests_under_way_together() -> None:
    overlay = pair()
    overlay.loses = f.LogRequest
    readers = [overlay.client("sb", "job") for _ in range(CLIENT_PENDING_MAX // PENDING_MAX + 1)]
    for reader in readers:
        for number in range(PENDING_MAX):
            ask(reader, 0, 9, number=number)
    refused = [len(each.refusals()) for each in readers]
    assert refused == [0] * (len(readers) - 1) + [PENDING_MAX]
    limit = f"{CLIENT_PENDING_MAX} requests are under way, which is the limit of one client"
    assert readers[-1].refusals()[0] == ("read", 0, limit)
    other = overlay.client("sb", "other")
    ask(other, 0, 9)
    assert other.refusals() == []
    overlay.leave(readers[0])
    ask(readers[-1], 0, 9, number=99)
    assert len(readers[-1].refusals()) == PENDING_MAX


def test_a_request_that_is_repeated_counts_once_and_is_answered_once() -> None:
    overlay = pair()
    overlay.loses = f.LogRequest
    reader = overlay.client("sb")
    for _ in range(3 * PENDING_MAX):
        ask(reader, 0, 9)
        overlay.wait(ANSWER_MS // 3)
    assert reader.refusals() == []
    assert len(desk(overlay, "sb")._readings) == 1
    overlay.loses = None
    overlay.syncs = False
    ask(reader, 0, present(overlay), number=2)
    ask(reader, 0, present(overlay), number=2)
    overlay.sync()
    assert [each.number for each in answers(reader)] == [2]


def test_the_late_answer_to_a_request_that_was_repeated_will_do() -> None:
    overlay = pair()
    overlay.client("pb").publish({"number": 1})
    overlay.delay("pb", "sb")
    reader, last = overlay.client("sb"), present(overlay)
    for _ in range(4):
        ask(reader, 0, last)
        overlay.wait(5_000)
    overlay.undelay("pb", "sb")
    assert len(answers(reader)) == 1
    assert len(answers(reader)[0].ticks) == 1


def test_the_same_number_for_something_else_is_another_request() -> None:
    overlay = pair()
    overlay.delay("pb", "sb")
    reader = overlay.client("sb")
    ask(reader, 0, 9)
    ask(reader, 5, 9)
    overlay.undelay("pb", "sb")
    assert [(each.number, each.first) for each in answers(reader)] == [(1, 0), (1, 5)]


def test_an_answer_that_never_comes_is_forgotten_in_time() -> None:
    overlay = pair()
    overlay.loses = f.LogAnswer
    reader = overlay.client("sb")
    ask(reader, 0, 9)
    assert overlay.brokers["sb"].next_deadline() is not None
    overlay.wait(ANSWER_MS - 1)
    assert len(desk(overlay, "sb")._readings) == 1
    overlay.wait(1)
    check_that_nothing_is_left(overlay)


def test_answers_nobody_waits_for_are_dropped() -> None:
    overlay = pair()
    overlay.delay("pb", "sb")
    reader = overlay.client("sb")
    ask(reader, 0, 9)
    (number,) = desk(overlay, "sb")._readings
    sb = desk(overlay, "sb")
    wrong = [
        f.LogAnswer(PUBEND, "sb", number + 1, (0, 9), [], []),
        f.LogAnswer("pb.b", "sb", number, (0, 9), [], []),
        f.LogAnswer(PUBEND, "sb", number, (1, 9), [], []),
        f.LogAnswer(PUBEND, "sb", number, (0, 10), [], []),
        f.LogAnswer(PUBEND, "nobody", number, (0, 9), [], []),
    ]
    for each in wrong:
        sb.on_answer(each)
    overlay.brokers["sb"].on_deadline(now_ms=overlay.now_ms)
    assert answers(reader) == []
    overlay.undelay("pb", "sb")
    assert len(answers(reader)) == 1


def test_a_host_that_starts_again_does_not_take_answers_to_its_former_life() -> None:
    overlay = pair()
    overlay.delay("pb", "sb")
    ask(overlay.client("sb"), 0, 9)
    (former,) = desk(overlay, "sb")._readings
    overlay.crash("sb")
    overlay.now_ms += 1
    overlay.start("sb")
    reader = overlay.client("sb")
    ask(reader, 0, 9)
    (present_number,) = desk(overlay, "sb")._readings
    assert present_number > former + 10**5
    desk(overlay, "sb").on_answer(f.LogAnswer(PUBEND, "sb", former, (0, 9), [], []))
    assert len(desk(overlay, "sb")._readings) == 1


def test_a_client_that_goes_leaves_nothing_behind() -> None:
    overlay = pair()
    overlay.client("pb").publish({"number": 1})
    overlay.syncs = False
    gone, stays = overlay.client("sb"), overlay.client("sb")
    gone_too = overlay.client("pb")
    overlay.loses = f.LogSpan
    gone.say(f.SurveyRequest(5))
    for each in (gone, stays, gone_too):
        ask(each, 0, present(overlay))
    overlay.leave(gone)
    overlay.leave(gone_too)
    assert len(desk(overlay, "sb")._readings) == 1
    overlay.sync()
    assert len(answers(stays)) == 1
    assert (answers(gone), surveys(gone)) == ([], [])
    check_that_nothing_is_left(overlay)
    overlay.check_invariants()


# Surveys.


def test_a_survey_names_all_guaranteed_pubends_with_their_spans() -> None:
    overlay = star("a", "b", "c", pubends=("a", "b"), silent_ms=10**9)
    overlay.client("a").publish({"number": 1})
    for host in ("a", "c", "hub"):
        reader = overlay.client(host)
        reader.say(f.SurveyRequest(4))
        logs = [overlay.brokers[each]._guaranteed.logs[f"{each}.a"] for each in ("a", "b")]
        spans = tuple((each.name, each.trimmed_below, each.promised) for each in logs)
        assert surveys(reader) == [f.SurveyReply(4, spans, ())]
    check_that_nothing_is_left(overlay)


def test_an_overlay_without_guaranteed_pubends_has_no_logs() -> None:
    overlay = chain("pb", "sb")
    reader = overlay.client("sb")
    reader.say(f.SurveyRequest(1))
    assert surveys(reader) == [f.SurveyReply(1)]


def test_a_pubend_that_no_way_leads_to_is_named_at_once() -> None:
    overlay = star("a", "b", "c", pubends=("a", "b"), silent_ms=10**9)
    overlay.crash("b")
    reader = overlay.client("c")
    reader.say(f.SurveyRequest(1))
    (reply,) = surveys(reader)
    assert [each[0] for each in reply.spans] == ["a.a"]
    assert reply.unreachable == ("b.a",)
    check_that_nothing_is_left(overlay)
    overlay.start("b")
    overlay.link("hub", "b")
    reader.say(f.SurveyRequest(2))
    assert [each[0] for each in surveys(reader)[1].spans] == ["a.a", "b.a"]


def test_a_pubend_that_does_not_answer_is_named_when_it_has_been_waited_for() -> None:
    overlay = star("a", "b", pubends=("a", "b"), silent_ms=10**9)
    overlay.loses = f.LogRequest
    reader = overlay.client("a")
    reader.say(f.SurveyRequest(1))
    overlay.wait(SURVEY_MS - 1)
    assert surveys(reader) == []
    overlay.wait(1)
    (reply,) = surveys(reader)
    assert [each[0] for each in reply.spans] == ["a.a"]
    assert reply.unreachable == ("b.a",)
    check_that_nothing_is_left(overlay)


def test_an_answer_that_comes_twice_or_late_or_of_no_pubend_changes_nothing() -> None:
    overlay = star("a", "b", pubends=("a", "b"), silent_ms=10**9)
    overlay.loses = f.LogRequest
    reader = overlay.client("a")
    reader.say(f.SurveyRequest(1))
    (number,) = desk(overlay, "a")._surveys
    for pubend in ("a.a", "x", "a.a"):
        desk(overlay, "a").on_span(f.LogSpan(pubend, "a", number, 7, 8))
    overlay.wait(SURVEY_MS)
    (reply,) = surveys(reader)
    assert [each[0] for each in reply.spans] == ["a.a"]
    assert reply.spans[0][1:] != (7, 8)
    desk(overlay, "a").on_span(f.LogSpan("b.a", "a", number, 7, 8))
    assert len(surveys(reader)) == 1


def test_surveys_that_nobody_answers_are_bounded() -> None:
    overlay = pair()
    overlay.loses = f.LogRequest
    reader = overlay.client("sb")
    for number in range(100):
        reader.say(f.SurveyRequest(number))
    assert len(desk(overlay, "sb")._surveys) == PENDING_MAX
    assert len(reader.refusals()) == 100 - PENDING_MAX
    overlay.wait(SURVEY_MS)
    assert len(surveys(reader)) == PENDING_MAX
    check_that_nothing_is_left(overlay)


# Who does not keep to the rules.


@pytest.mark.parametrize("frame", [f.LogRequest(PUBEND, "x", 1, 0, 9, 9), f.LogSpan(PUBEND, "x", 1, 0, 9)])
def test_what_brokers_say_to_each_other_is_not_for_clients(frame: f.Frame) -> None:
    overlay = pair()
    client = overlay.client("sb")
    client.say(frame)
    assert client.closed is not None
    assert client.closed.code == "protocol"


def test_an_answer_from_a_client_is_a_breach() -> None:
    overlay = pair()
    client = overlay.client("sb")
    client.say(f.LogAnswer(PUBEND, "sb", 1, (0, 9), [3], [b"x"]))
    assert client.closed is not None
    assert client.closed.code == "protocol"


def hostile_neighbour(overlay: Overlay) -> TestClient:
    """A neighbour of ``pb`` called ``sb`` that says what it wants."""
    overlay.cut("pb", "sb")
    del overlay.brokers["sb"]
    link = overlay.stranger("pb")
    link.say(f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "penstock", 2_000_000))
    assert link.closed is None
    link.say(f.LinkState("sb", 2_000_000, 1, ("pb",)))
    return link


def test_a_neighbour_that_asks_for_no_range_loses_its_link() -> None:
    overlay = pair()
    link = hostile_neighbour(overlay)
    link.say(f.LogRequest(PUBEND, "sb", 1, 9, 8, 100))
    assert link.closed is not None
    assert link.closed.code == "protocol"


def test_odd_requests_of_a_neighbour_harm_nobody() -> None:
    overlay = pair()
    overlay.client("pb").publish({"number": 1})
    link = hostile_neighbour(overlay)
    for host in ("pb", "sb", "nobody", "x" * 100):
        for pubend in (PUBEND, "x", "y" * 100):
            for number, last, size in ((0, 0, 0), (2**62, 2**62, 2**62), (3, 2**61, 1)):
                link.say(f.LogRequest(pubend, host, number, 0, last, size, "number >"))
            link.say(f.LogSpan(pubend, host, 0, 5, 1))
            link.say(f.LogAnswer(pubend, host, 0, (5, 4), [], []))
    assert link.closed is None
    assert {(each.pubend, each.host) for each in answers(link)} == {(PUBEND, "sb")}
    reader = overlay.client("pb")
    ask(reader, 0, present(overlay))
    assert len(answers(reader)[0].ticks) == 1
    check_that_nothing_is_left(overlay)
    overlay.check_invariants()


def test_a_client_that_asks_much_and_reads_nothing_is_sent_away_before_it_costs_much() -> None:
    overlay = chain("pb", "sb", client_outbox_bytes=1_000_000, **PATIENT)
    overlay.client("pb").publish(*({"text": "x" * 1_000} for _ in range(200)))
    client, other = overlay.client("sb"), overlay.client("sb")
    client.reads = False
    kept = []
    for number in range(10_000):
        if client.closed is not None:
            break
        ask(client, 0, present(overlay), number=number)
        kept.append(overlay.brokers["sb"]._connections.waiting_bytes())
    assert client.closed is not None
    assert client.closed.code == "slow"
    assert max(kept) <= 1_000_000 + 300_000
    check_that_nothing_is_left(overlay)
    ask(other, 0, present(overlay))
    assert answers(other)[0].ticks


def test_many_answers_of_nothing_count_for_what_they_take_to_keep() -> None:
    overlay = chain("pb", "sb", client_outbox_bytes=1_000_000, **PATIENT)
    client = overlay.client("sb")
    client.reads = False
    asked = 0
    while client.closed is None:
        ask(client, 2**61, 2**61, number=asked)
        asked += 1
    assert asked <= 1_000_000 // 512 + 1


# --- last values

VIEW = (("pb.a", "symbol"),)


def forgetful(**settings: object) -> Overlay:
    """Brokers ``pb`` and ``sb`` in a row; the first one trims its log at once, and keeps last values by ``symbol``."""
    limits: dict[str, Any] = {**PATIENT, "retain_ms": 0, "grace_ms": 2_000, **settings}
    guaranteed = limits.pop("guaranteed")
    assert guaranteed
    pubends: dict[str, Any] = {"pubends": (PUBEND,), "last_values": VIEW}
    made = Overlay(
        BrokerSettings("pb", number=1, neighbours=("sb",), all_last_values=VIEW, **pubends, **limits),
        BrokerSettings("sb", number=2, neighbours=("pb",), all_last_values=VIEW, **limits),
    )
    made.link("pb", "sb")
    return made


def test_last_values_are_read_anywhere_though_the_log_was_trimmed_and_the_broker_crashed() -> None:
    overlay = forgetful()
    messages: list[dict[str, AttributeValue]] = [{"symbol": "AB"[each % 2], "number": each} for each in range(6)]
    overlay.client("pb").publish(*messages)
    overlay.wait(10_000)
    assert overlay.disks["pb"].ticks(PUBEND) == []
    overlay.crash("pb")
    overlay.now_ms += 1
    overlay.start("pb")
    overlay.link("pb", "sb")
    reader = overlay.client("sb")
    reader.say(f.SurveyRequest(1, "symbol"), f.SurveyRequest(2, "number"), f.SurveyRequest(3))
    assert [each.keeping for each in surveys(reader)] == [(PUBEND,), (), ()]
    last = present(overlay)
    reader.say(f.ReadRequest(4, PUBEND, 0, last, "TRUE", 10_000, "symbol"))
    (answer,) = answers(reader)
    assert (answer.host, answer.first, answer.lost, answer.is_compacted) == ("", 0, (), True)
    assert [decode_attributes(each)["number"] for each in answer.bodies] == [4, 5]
    assert answer.last < last
    reader.say(f.ReadRequest(5, PUBEND, answer.last + 1, last, "TRUE", 10_000, "symbol"))
    rest = answers(reader)[1]
    assert (rest.last, rest.ticks, rest.lost, rest.is_compacted) == (last, [], (), False)
    check_that_nothing_is_left(overlay)


def test_rights_and_selectors_hold_for_last_values_of_what_was_trimmed() -> None:
    overlay = forgetful(access=GUARDED)
    messages: list[dict[str, AttributeValue]] = [
        {"class": each, "symbol": each, "number": number} for number, each in enumerate(["STOCK", "BOND"])
    ]
    overlay.client("pb", "writer", "w").publish(*messages)
    overlay.wait(10_000)
    assert overlay.disks["pb"].ticks(PUBEND) == []
    reader = overlay.client("sb", "reader", "r")
    reader.say(f.ReadRequest(4, PUBEND, 0, present(overlay), "TRUE", 10_000, "symbol"))
    assert [decode_attributes(each)["number"] for each in answers(reader)[0].bodies] == [0]


def test_a_pubend_that_keeps_last_values_and_was_not_heard_of_yet_is_out_of_reach() -> None:
    overlay = forgetful()
    overlay.cut("pb", "sb")
    overlay.crash("sb")
    overlay.now_ms += 1
    overlay.start("sb")
    reader = overlay.client("sb")
    reader.say(f.SurveyRequest(1, "symbol"), f.SurveyRequest(2, "price"), f.SurveyRequest(3))
    assert [each.unreachable for each in surveys(reader)] == [(PUBEND,), (), ()]
