from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from client.scripted import body_of, deliver
from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Acknowledge,
    Frame,
    Goodbye,
    Heartbeat,
    HeldBack,
    Hello,
    Horizons,
    LinkState,
    LogAnswer,
    LogRequest,
    LogSpan,
    Lost,
    PubendNames,
    PubendPlaces,
    Publish,
    PublishAck,
    ReadRequest,
    Refused,
    Rewind,
    Rewound,
    Skipped,
    StatusReply,
    StatusRequest,
    Subscribe,
    Subscribed,
    SurveyReply,
    SurveyRequest,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.session.changes import Changes
from penstock.session.inbox import Wanted
from penstock.session.positions import LostTicks
from penstock.session.resident import Asked, Resident
from penstock.session.settings import ClientSettings
from session.moving import connected, message, told

WELCOME = Welcome(PROTOCOL_VERSION, "b1", "test", 11, 2, 50_000, 1_000, 1_000, ("a",))
CREDENTIAL = "open sesame"
PUBLISHER = bytes(range(16))
NAMES = PubendNames(((0, "quotes"),))


def feed(resident: Resident, *frames: Frame, now_ms: int = 0) -> Changes:
    changes = resident.on_frames(frames, now_ms=now_ms, wall_ms=40_000)
    resident.check_invariants()
    return changes


def publish(resident: Resident, body: bytes, pubend: str, *, now_ms: int = 0) -> bool:
    queue = resident.publishing.queue_for(pubend)
    assert queue is not None, "the broker has told the pubend"
    return queue.put(body, now_ms=now_ms)


def naming(pubend: int, tick: int, number: int = 1) -> Horizons:
    """Where a subscription begins, in order with the deliveries."""
    return Horizons(pubend, tick, number.to_bytes(4), is_only=True)


def resident_up(**changes: Any) -> Resident:
    resident = Resident(ClientSettings(**changes), name="me", token=CREDENTIAL, overlay="test", publisher=PUBLISHER)
    resident.on_connected(now_ms=0)
    assert resident.take_frames(now_ms=0) == [
        Hello(PROTOCOL_VERSION, "client", "me", "test", credential=CREDENTIAL, publisher=PUBLISHER)
    ]
    feed(resident, WELCOME, NAMES)
    assert resident.take_frames(now_ms=0) == []
    return resident


def test_a_welcome_opens_the_session() -> None:
    resident = resident_up()
    assert resident.is_up
    assert resident.welcome == WELCOME


def test_a_goodbye_instead_of_a_welcome_is_passed_on() -> None:
    resident = Resident(ClientSettings(), name="me")
    resident.on_connected(now_ms=0)
    assert feed(resident, Goodbye("refused", "who are you")).goodbye == Goodbye("refused", "who are you")
    assert not resident.is_up


@pytest.mark.parametrize(
    "frame",
    [
        Heartbeat(),
        Welcome(PROTOCOL_VERSION + 1, "b", "o", 1, 1, 1, 1, 1),
        Welcome(PROTOCOL_VERSION, "b", "o", 1, 1, 1, 0, 1),
    ],
)
def test_a_broker_that_does_not_begin_with_a_good_welcome_breaks_the_protocol(frame: Frame) -> None:
    resident = Resident(ClientSettings(), name="me")
    resident.on_connected(now_ms=0)
    with pytest.raises(ProtocolError):
        feed(resident, frame)


@pytest.mark.parametrize("frame", [LinkState("b", 1, 1, ()), Publish(1, [body_of(1)]), Hello(1, "broker", "b", "o")])
def test_frames_that_are_not_for_clients_break_the_protocol(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="a broker does not send"):
        feed(resident_up(), frame)


def test_identifiers_follow_the_brokers_clock() -> None:
    resident = resident_up()
    message_id, _ = resident.identify(Message({}), wall_ms=40_500)
    assert (message_id.publisher, message_id.broker, message_id.timestamp_ms) == (11, 2, 50_500)


def test_identifiers_go_on_above_the_last_one_after_a_reconnect() -> None:
    resident = resident_up()
    last, _ = resident.identify(Message({}), wall_ms=90_000)
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    feed(resident, WELCOME)
    following, _ = resident.identify(Message({}), wall_ms=40_000)
    assert following > last


def test_a_message_that_fits_no_frame_is_refused_at_once() -> None:
    resident = resident_up()
    with pytest.raises(LimitError, match="the size of all attributes"):
        resident.identify(Message({f"a{n}": "x" * 65_536 for n in range(200)}), wall_ms=0)
    with pytest.raises(LimitError, match="pubend"):
        resident.publishing.queue_for("p" * 101)


def test_published_messages_leave_in_batches() -> None:
    resident = resident_up(linger_ms=2)
    assert not publish(resident, body_of(1), "a", now_ms=5)
    assert resident.next_deadline() == 7
    (frame,) = resident.take_frames(now_ms=7)
    assert isinstance(frame, Publish)
    assert frame.bodies == [body_of(1)]
    changes = feed(resident, PublishAck(1, len(body_of(1)), "a"))
    assert changes.publishing
    assert resident.publishing.settled == 1


def test_nothing_is_taken_while_the_transport_is_full() -> None:
    resident = resident_up(linger_ms=0)
    resident.writable = False
    publish(resident, body_of(1), "a", now_ms=5)
    assert resident.take_frames(now_ms=9_999) == []
    assert resident.next_deadline() == 5_000, "only the broker's silence counts"
    resident.writable = True
    assert len(resident.take_frames(now_ms=9_999)) == 1


def test_a_heartbeat_is_sent_when_nothing_else_was() -> None:
    resident = resident_up()
    assert resident.next_deadline() == 1_000
    resident.subscribe(Wanted("TRUE"))
    assert resident.take_frames(now_ms=600) == [Subscribe(1, "TRUE")]
    assert resident.take_frames(now_ms=1_000) == []
    assert resident.take_frames(now_ms=1_600) == [Heartbeat(1_600)]


def test_a_large_message_that_keeps_arriving_is_no_silence() -> None:
    resident = resident_up()
    for turn in range(1, 10):
        # Something has come, and no frame is complete by it.
        feed(resident, now_ms=turn * 4_000)
        assert not resident.is_silent(now_ms=turn * 4_000 + 3_999)


def test_a_broker_that_is_silent_for_five_heartbeats_is_given_up() -> None:
    resident = resident_up()
    feed(resident, Heartbeat(), now_ms=300)
    assert not resident.is_silent(now_ms=5_299)
    assert resident.is_silent(now_ms=5_300)


def test_a_subscription_goes_from_asked_to_ready_to_closed() -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("a = 1"))
    changes = feed(resident, Subscribed(1, "a = 1 AND b = 2", ("far",)))
    assert changes.inboxes == {1: inbox}
    assert (inbox.state, inbox.granted, inbox.pending) == ("ready", "a = 1 AND b = 2", ("far",))
    resident.unsubscribe(inbox)
    resident.unsubscribe(inbox)
    assert resident.take_frames(now_ms=0) == [Subscribe(1, "a = 1"), Unsubscribe(1)]
    feed(resident, deliver(5, 1), Subscribed(1, "a = 1"))
    assert not inbox.queue
    assert feed(resident, Unsubscribed(1)).inboxes == {1: inbox}
    assert inbox.state == "closed"
    assert not feed(resident, deliver(6, 1)).inboxes


def test_a_refused_subscription_knows_why() -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("a = 1"))
    feed(resident, Refused("subscribe", 1, "not for you"))
    assert (inbox.state, inbox.reason) == ("refused", "not for you")


def test_a_withdrawal_that_the_broker_does_not_know_is_done() -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("a = 1"))
    resident.unsubscribe(inbox)
    feed(resident, Refused("unsubscribe", 1, "no such subscription"))
    assert inbox.state == "closed"


def test_messages_reach_each_subscription_they_are_for_once_per_batch() -> None:
    resident = resident_up()
    one, two, three = (resident.subscribe(Wanted("TRUE")) for _ in range(3))
    changes = feed(resident, deliver(1, 1), deliver(2, 1, 3), deliver(3, 99))
    assert [*changes.inboxes.values()] == [one, three]
    assert [each.tick for each in one.queue] == [1, 2]
    assert [each.tick for each in three.queue] == [2]
    assert not two.queue
    assert one.queue[1] is three.queue[0]
    assert resident.received == 3
    assert one.queue[0].pubend == "quotes"


def test_a_pubend_without_a_name_breaks_the_protocol() -> None:
    resident = Resident(ClientSettings(), name="me")
    resident.on_connected(now_ms=0)
    feed(resident, WELCOME)
    with pytest.raises(ProtocolError, match="pubend number 0 has no name"):
        feed(resident, deliver(1))


def test_reading_stops_when_a_queue_is_full_and_its_silence_is_not_the_brokers() -> None:
    resident = resident_up(queue_messages=4)
    inbox = resident.subscribe(Wanted("TRUE"))
    resident.subscribe(Wanted("FALSE"))
    feed(resident, *(deliver(n) for n in range(4)))
    assert not resident.reading
    assert not resident.is_silent(now_ms=10**9)
    resident.take_frames(now_ms=0)
    assert resident.next_deadline() == 1_000, "heartbeats go on"
    inbox.pop()
    assert not resident.on_taken(inbox)
    inbox.pop()
    assert resident.on_taken(inbox)
    resident.on_reading(now_ms=20_000)
    assert not resident.is_silent(now_ms=20_001)


def test_withdrawing_a_full_subscription_lets_the_others_read() -> None:
    resident = resident_up(queue_messages=2)
    inbox = resident.subscribe(Wanted("TRUE"))
    feed(resident, deliver(1), deliver(2))
    assert not resident.reading
    resident.unsubscribe(inbox)
    assert resident.reading


def test_subscriptions_are_sent_again_after_a_reconnect_and_withdrawn_ones_are_not() -> None:
    resident = resident_up()
    one, two = resident.subscribe(Wanted("a = 1")), resident.subscribe(Wanted("a = 2"))
    feed(resident, Subscribed(1, "narrow"), Subscribed(2, "a = 2"), deliver(1, 1))
    resident.unsubscribe(two)
    resident.take_frames(now_ms=0)
    changes = resident.on_disconnected()
    resident.check_invariants()
    assert changes.lost
    assert (one.state, two.state) == ("asked", "closed")
    assert len(one.queue) == 1
    three = resident.subscribe(Wanted("a = 3"))
    resident.unsubscribe(three)
    assert three.is_over
    resident.on_connected(now_ms=0)
    assert len(resident.take_frames(now_ms=0)) == 1
    feed(resident, WELCOME)
    assert resident.take_frames(now_ms=0) == [Subscribe(1, "a = 1", (), resumes=True)]


def test_status_answers_and_refusals_are_passed_on() -> None:
    resident = resident_up()
    assert resident.ask(StatusRequest, now_ms=0) == 1
    assert resident.take_frames(now_ms=0) == [StatusRequest(1)]
    assert feed(resident, StatusReply(1, b"{}"), Refused("status", 2, "no")).answers == [
        StatusReply(1, b"{}"),
        Refused("status", 2, "no"),
    ]


def test_what_may_get_lost_is_asked_again_with_the_same_number_and_its_answers_are_passed_on() -> None:
    resident = resident_up()
    number = resident.ask(lambda number: ReadRequest(number, "p", 1, 9, "TRUE", 5), again_ms=400, now_ms=0)
    assert resident.ask(SurveyRequest, now_ms=0) == number + 1
    asked = ReadRequest(number, "p", 1, 9, "TRUE", 5)
    assert resident.take_frames(now_ms=0) == [asked, SurveyRequest(number + 1)]
    assert resident.next_deadline() == 400
    assert resident.take_frames(now_ms=400) == [asked]
    survey, refusal = SurveyReply(number + 1, (("p", 1, 2),)), Refused("read", number, "no")
    answers = feed(resident, LogAnswer("p", "", number, (1, 9), [4], [b"x"]), survey, refusal).answers
    assert isinstance(answers[0], LogAnswer)
    assert (answers[0].number, answers[0].ticks, answers[0].bodies) == (number, [4], [b"x"])
    assert answers[1:] == [survey, refusal]
    assert resident.take_frames(now_ms=800) == []


def test_what_nobody_waits_for_is_not_asked_again() -> None:
    resident = resident_up()
    number = resident.ask(SurveyRequest, again_ms=400, now_ms=0)
    resident.take_frames(now_ms=0)
    resident.withdraw_question(number)
    assert resident.take_frames(now_ms=400) == []


def test_nothing_is_asked_where_there_is_no_broker() -> None:
    resident = resident_up()
    resident.on_disconnected()
    with pytest.raises(AssertionError, match="no broker to ask"):
        resident.ask(StatusRequest, now_ms=0)


def test_who_flushes_has_the_broker_asked_once_on_every_connection() -> None:
    resident = Resident(ClientSettings(linger_ms=0), name="me")
    resident.on_connected(now_ms=0)
    feed(resident, welcome_of("b1"))
    publish(resident, body_of(1), "a")
    resident.take_frames(now_ms=0)
    resident.hurry(now_ms=0)
    for _ in range(2):
        last = resident.take_frames(now_ms=0)[-1]
        assert isinstance(last, Publish)
        assert (last.first, last.bodies) == (2, [])
        assert resident.take_frames(now_ms=0) == []
        resident.on_disconnected()
        resident.on_connected(now_ms=0)
        feed(resident, welcome_of("b1"))
    feed(resident, PublishAck(1, 10, "a"))


@pytest.mark.parametrize("frame", [LogRequest("p", "h", 1, 0, 9, 9), LogSpan("p", "h", 1, 0, 9), SurveyRequest(1)])
def test_what_brokers_and_clients_ask_is_not_for_clients(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="to a client"):
        feed(resident_up(), frame)


def test_a_refused_message_and_a_goodbye_are_passed_on() -> None:
    resident = resident_up(linger_ms=0)
    publish(resident, body_of(1), "a")
    resident.take_frames(now_ms=0)
    changes = feed(resident, Refused("publish", 1, "no", 1, "a"), Goodbye("shutdown", "bye"))
    assert changes.publishing
    assert changes.goodbye == Goodbye("shutdown", "bye")
    assert resident.publishing.refused == 1


def sent_again(before: Welcome, after: Welcome, *pubends: str) -> list[tuple[int, str]]:
    """What of a message to each pubend is sent on a second connection."""
    resident = Resident(ClientSettings(linger_ms=0), name="me")
    resident.on_connected(now_ms=0)
    feed(resident, before)
    for pubend in pubends:
        publish(resident, body_of(1), pubend)
    assert sum(isinstance(frame, Publish) for frame in resident.take_frames(now_ms=0)) == len(pubends)
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    feed(resident, after)
    frames = [frame for frame in resident.take_frames(now_ms=0) if isinstance(frame, Publish)]
    assert resident.publishing.lost == len(pubends) - len(frames)
    return [(frame.first, frame.pubend) for frame in frames]


def welcome_of(broker: str, pubends: tuple[str, ...] = ("a", "b"), best_effort: tuple[str, ...] = ()) -> Welcome:
    return Welcome(PROTOCOL_VERSION, broker, "test", 11, 2, 50_000, 1_000, 1_000, pubends, best_effort)


def test_any_broker_of_the_overlay_gets_again_what_was_on_the_wire() -> None:
    one = welcome_of("b1")
    assert sent_again(one, one, "a", "b") == [(1, "a"), (1, "b")]
    other = structs.replace(welcome_of("b2", ("c",)), others=(("a", "b1", True), ("b", "b3", True)))
    assert sent_again(one, other, "a", "b") == [(1, "a"), (1, "b")]
    assert sent_again(one, structs.replace(one, overlay="another"), "a", "b") == []


def test_pubends_that_guarantee_nothing_do_not_get_it_again() -> None:
    partly, wholly = welcome_of("b1", best_effort=("b",)), welcome_of("b1", best_effort=("a", "b"))
    assert sent_again(partly, partly, "a", "b") == [(1, "a")]
    assert sent_again(wholly, wholly, "a", "b") == []


def test_a_pubend_whose_service_class_was_changed_does_not_get_it_again() -> None:
    loose, strict = welcome_of("b1", best_effort=("b",)), welcome_of("b1")
    assert sent_again(loose, strict, "a", "b") == [(1, "a")], "b passed on what it cannot know now"
    assert sent_again(strict, loose, "a", "b") == [(1, "a")]


def test_a_rewind_is_answered_before_the_messages_are_sent_again() -> None:
    resident = resident_up(linger_ms=0)
    for number in (1, 2):
        publish(resident, body_of(number), "a")
    resident.take_frames(now_ms=0)
    assert feed(resident, Refused("publish", 1, "no", 1, "a"), Rewind(1, 9, "a")).publishing
    answer, skipped, again = resident.take_frames(now_ms=0)
    assert (answer, skipped) == (Rewound(9, "a"), Skipped(2, "a"))
    assert isinstance(again, Publish)
    assert (again.first, again.bodies) == (2, [body_of(2)])


def test_a_change_of_the_pubends_wakes_publishers() -> None:
    resident = resident_up()
    assert feed(resident, PubendPlaces((("far", "b9", True),))).publishing
    assert [*resident.publishing.places] == ["a", "far"]


def test_every_connection_states_the_same_publisher() -> None:
    resident = Resident(ClientSettings(), name="me", publisher=PUBLISHER)
    for _ in range(2):
        resident.on_connected(now_ms=0)
        (hello,) = resident.take_frames(now_ms=0)
        assert isinstance(hello, Hello)
        assert hello.publisher == PUBLISHER
        resident.on_disconnected()


def test_sequence_numbers_go_on_over_connections() -> None:
    resident = resident_up(linger_ms=0)
    for sequence in (1, 2):
        publish(resident, body_of(sequence), "a")
        (frame,) = resident.take_frames(now_ms=0)
        assert isinstance(frame, Publish)
        assert frame.first == sequence
        feed(resident, PublishAck(sequence, len(body_of(sequence)), "a"))
        resident.on_disconnected()
        resident.on_connected(now_ms=0)
        resident.take_frames(now_ms=0)
        feed(resident, WELCOME)


def test_a_publisher_of_the_settings_states_itself_and_its_numbers() -> None:
    resident = Resident(ClientSettings(linger_ms=0, publisher=b"writer", published=7), name="me")
    resident.on_connected(now_ms=0)
    (hello,) = resident.take_frames(now_ms=0)
    assert isinstance(hello, Hello)
    assert hello.publisher == b"writer"
    feed(resident, WELCOME)
    publish(resident, b"x", "a")
    assert [frame.first for frame in resident.take_frames(now_ms=0) if isinstance(frame, Publish)] == [8]


def test_why_publishers_are_held_back_is_known_until_it_is_over() -> None:
    resident = resident_up()
    with pytest.raises(ProtocolError, match="HeldBack names pubend 'a', to which nothing was published"):
        feed(resident, HeldBack("disk full", 0, "a"))
    publish(resident, body_of(1), "a")
    assert feed(resident, HeldBack("disk full", 0, "a")).publishing
    assert resident.publishing.held_back == "disk full"
    feed(resident, HeldBack("", 0, "a"))
    assert resident.publishing.held_back == ""
    feed(resident, HeldBack("log full", 0, "a"))
    resident.on_disconnected()
    assert resident.publishing.held_back == ""


def test_a_subscription_resumes_where_it_was() -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("TRUE", {"trades": 3}))
    assert resident.take_frames(now_ms=0) == [Subscribe(1, "TRUE", (("trades", 3),))]
    feed(resident, Subscribed(1, "TRUE", (), (("trades", 3), ("quotes", 5))), deliver(7))
    assert inbox.starts == {"trades": 3, "quotes": 5}
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    resident.take_frames(now_ms=0)
    # The numbers are others on this connection.
    feed(resident, WELCOME, PubendNames(((0, "trades"), (1, "quotes"))))
    assert resident.take_frames(now_ms=0) == [Subscribe(1, "TRUE", (("trades", 3), ("quotes", 8)), resumes=True)]
    feed(resident, Subscribed(1, "TRUE", (), (("trades", 3), ("quotes", 8))), deliver(7))
    assert [(each.pubend, each.tick) for each in inbox.queue] == [("quotes", 7), ("trades", 7)]
    assert resident.repeated == 0


@pytest.mark.parametrize(
    "wanted", [Wanted("TRUE"), Wanted("TRUE", otherwise=0, missing="latest"), Wanted("TRUE", durable="n")]
)
def test_what_came_before_the_confirmation_is_gone_on_from(wanted: Wanted) -> None:
    """Were it asked for as if it were new, ``missing`` could have it begin further on, and nobody would be told."""
    resident = resident_up()
    resident.subscribe(wanted)
    assert [frame.resumes for frame in resident.take_frames(now_ms=0) if isinstance(frame, Subscribe)] == [False]
    feed(resident, naming(0, 5), deliver(7))
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    feed(resident, WELCOME, NAMES)
    again = [frame for frame in resident.take_frames(now_ms=0) if isinstance(frame, Subscribe)]
    assert [(frame.positions, frame.resumes) for frame in again] == [((("quotes", 8),), True)]


def test_one_acknowledgement_answers_all_horizons_that_came_together() -> None:
    resident = resident_up()
    resident.subscribe(Wanted("TRUE"))
    resident.take_frames(now_ms=0)
    feed(resident, PubendNames(((1, "trades"),)), Subscribed(1, "TRUE", (), (("quotes", 5), ("trades", 6))))
    feed(resident, naming(0, 5), naming(1, 6))
    assert resident.take_frames(now_ms=0) == [Acknowledge(((0, 5), (1, 6)))]
    feed(resident, Horizons(0, 9), Horizons(1, 20), deliver(9), Horizons(0, 10))
    assert resident.take_frames(now_ms=0) == [Acknowledge(((0, 10), (1, 20)))]
    feed(resident, deliver(11))
    assert resident.take_frames(now_ms=0) == [], "without a horizon nothing is said"


def test_a_horizon_on_its_way_when_a_subscription_was_confirmed_is_not_meant_for_it() -> None:
    resident = resident_up()
    older = resident.subscribe(Wanted("a = 1"))
    feed(resident, Subscribed(1, "a = 1", (), (("quotes", 5),)), naming(0, 5))
    newer = resident.subscribe(Wanted("a = 2", {"quotes": 3}))
    resident.take_frames(now_ms=0)
    # The confirmation is a control frame, and overtakes horizons that wait among the data.
    feed(resident, Subscribed(2, "a = 2", (), (("quotes", 3),)), Horizons(0, 90))
    assert (older.positions.get("quotes"), newer.positions.get("quotes")) == (90, 3)
    assert resident.take_frames(now_ms=0) == [], "the newer one holds back what was said to be there"
    feed(resident, naming(0, 3, 2), deliver(4, 2), Horizons(0, 91))
    assert [each.tick for each in newer.queue] == [4]
    assert (older.positions.get("quotes"), newer.positions.get("quotes")) == (91, 91)
    assert resident.repeated == 0
    assert resident.take_frames(now_ms=0) == [Acknowledge(((0, 91),))]


def test_what_a_connection_named_is_named_again_on_the_next_one() -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("TRUE"))
    feed(resident, Subscribed(1, "TRUE", (), (("quotes", 5),)), naming(0, 5), Horizons(0, 9))
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    feed(resident, WELCOME, NAMES, Subscribed(1, "TRUE", (), (("quotes", 9),)), Horizons(0, 90))
    assert inbox.positions.get("quotes") == 9
    feed(resident, naming(0, 9), Horizons(0, 91))
    assert inbox.positions.get("quotes") == 91


def test_lost_ticks_are_passed_on_if_a_subscription_misses_them() -> None:
    resident = resident_up()
    inbox = resident.subscribe(Wanted("TRUE"))
    feed(resident, Subscribed(1, "TRUE", (), (("quotes", 5),)))
    other = resident.subscribe(Wanted("TRUE", {"quotes": 5}))
    assert feed(resident, Lost(0, 1, 4, (1,))).missing == []
    assert feed(resident, Lost(0, 8, 9, (1,)), deliver(6)).missing == [LostTicks("quotes", 8, 9)]
    assert [each.tick for each in inbox.queue] == [6], "a notice overtakes the messages in front of it"
    assert (inbox.lost_count, other.lost_count) == (1, 0)


@pytest.mark.parametrize("frame", [Horizons(9, 1), Lost(9, 1, 2, (1,))])
def test_only_pubends_with_a_name_have_horizons_and_losses(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="pubend number 9 has no name"):
        feed(resident_up(), frame)


def test_the_tick_of_a_best_effort_message_is_no_position_though_the_pubend_has_one() -> None:
    """The service class of a pubend was changed: the same name stands for two streams, and the number tells which."""
    resident, inbox = connected(durable="bill")
    told(resident, PubendNames(((3, "quotes"),)), message(5_000, 3), message(11, 0), message(4, 3))
    assert [each.tick for each in inbox.queue] == [9, 5_000, 11, 4]
    assert inbox.positions.known() == {"quotes": 12}
    assert inbox.read_positions() == {"quotes": 9}


def test_questions_have_ascending_numbers_and_are_kept_until_they_are_settled() -> None:
    asked = Asked()
    assert asked.ask(StatusRequest, now_ms=0) == (1, StatusRequest(1))
    assert asked.ask(SurveyRequest, now_ms=0) == (2, SurveyRequest(2))
    assert [*asked] == [StatusRequest(1), SurveyRequest(2)]
    assert (asked.next_deadline(), asked.take(now_ms=10**9)) == (None, [])
    asked.settle(1)
    assert [*asked] == [SurveyRequest(2)]
    asked.clear()
    assert [*asked] == []
    assert asked.ask(StatusRequest, now_ms=0)[0] == 3, "an answer on its way must not be taken for that of another"


def test_what_may_get_lost_is_asked_again_every_so_often() -> None:
    asked = Asked()
    asked.ask(SurveyRequest, again_ms=100, now_ms=5)
    assert asked.next_deadline() == 105
    assert asked.take(now_ms=104) == []
    assert asked.take(now_ms=110) == [SurveyRequest(1)]
    assert asked.next_deadline() == 210


LAST = Wanted("TRUE", otherwise=0, last_by="n")


def found(number: int, pubend: str, first: int, last: int, *ticks: int) -> LogAnswer:
    """An answer with messages numbered by their ticks."""
    return LogAnswer(pubend, "", number, (first, last), list(ticks), [body_of(tick) for tick in ticks])


def test_a_subscription_that_begins_with_last_values_is_requested_once_they_are_found() -> None:
    resident = resident_up()
    inbox = resident.subscribe(LAST)
    assert resident.take_frames(now_ms=0) == [SurveyRequest(1, "n")]
    feed(resident, SurveyReply(1, (("quotes", 3, 9),)))
    (read,) = resident.take_frames(now_ms=0)
    assert isinstance(read, ReadRequest)
    assert (read.pubend, read.first, read.last, read.selector) == ("quotes", 3, 9, "TRUE")
    changes = feed(resident, found(2, "quotes", 3, 9, 4, 7))
    assert changes.answers == []
    assert list(changes.inboxes) == [inbox.number]
    assert resident.take_frames(now_ms=0) == [Subscribe(1, "TRUE", (("quotes", 10),), resumes=True, otherwise=0)]
    feed(resident, Subscribed(1, "TRUE", (), (("quotes", 10),)), deliver(12))
    assert [each.tick for each in inbox.pop_many()] == [4, 7, 12]
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    resident.take_frames(now_ms=0)
    feed(resident, WELCOME, NAMES)
    assert resident.take_frames(now_ms=0) == [Subscribe(1, "TRUE", (("quotes", 13),), resumes=True, otherwise=0)]


def test_a_scan_goes_on_where_it_was_on_the_next_connection() -> None:
    resident = resident_up()
    resident.subscribe(LAST)
    feed(resident, SurveyReply(1, (("quotes", 3, 9),)), found(2, "quotes", 3, 5, 4))
    resident.on_disconnected()
    resident.on_connected(now_ms=0)
    resident.take_frames(now_ms=0)
    feed(resident, WELCOME, NAMES)
    (read,) = resident.take_frames(now_ms=0)
    assert isinstance(read, ReadRequest)
    assert (read.first, read.last) == (6, 9)


def test_a_scan_waits_for_pubends_out_of_reach() -> None:
    resident = resident_up()
    resident.subscribe(LAST)
    resident.take_frames(now_ms=0)
    feed(resident, SurveyReply(1, (), ("quotes",)))
    assert resident.take_frames(now_ms=999) == []
    assert resident.next_deadline() == 1_000
    assert resident.take_frames(now_ms=1_000) == [SurveyRequest(2, "n")]


def test_a_scan_that_is_refused_ends_its_subscription() -> None:
    resident = resident_up()
    inbox = resident.subscribe(LAST)
    changes = feed(resident, Refused("read", 1, "you may not subscribe"))
    assert (inbox.state, inbox.reason) == ("refused", "you may not subscribe")
    assert list(changes.inboxes) == [inbox.number]
    assert changes.answers == []


def test_a_scan_whose_subscription_was_withdrawn_ends_with_it() -> None:
    resident = resident_up()
    inbox = resident.subscribe(LAST)
    resident.unsubscribe(inbox)
    assert inbox.state == "closed"
    feed(resident, SurveyReply(1, (("quotes", 3, 9),)))
    assert resident.take_frames(now_ms=0) == [SurveyRequest(1, "n")], "nothing was subscribed, and nothing is withdrawn"


def test_only_a_few_scans_go_on_at_a_time() -> None:
    resident = resident_up()
    for _ in range(6):
        resident.subscribe(LAST)
    assert resident.take_frames(now_ms=0) == [SurveyRequest(number, "n") for number in range(1, 5)]
    feed(resident, SurveyReply(2))
    assert resident.take_frames(now_ms=0) == [Subscribe(2, "TRUE", otherwise=0), SurveyRequest(5, "n")]


def test_ticks_that_could_not_be_read_are_told() -> None:
    resident = resident_up()
    inbox = resident.subscribe(LAST)
    lost = LostTicks("quotes", 3, 5)
    answer = LogAnswer("quotes", "", 2, (3, 9), [], [], ((3, 5),))
    changes = feed(resident, SurveyReply(1, (("quotes", 3, 9),)), answer)
    assert (changes.missing, list(inbox.lost), inbox.lost_count) == ([lost], [lost], 1)


def test_last_values_fill_a_queue_like_all_messages() -> None:
    resident = resident_up(queue_messages=3)
    inbox = resident.subscribe(LAST)
    feed(resident, SurveyReply(1, (("quotes", 1, 9),)), found(2, "quotes", 1, 9, 1, 2, 3, 4))
    assert not resident.reading
    inbox.pop_many()
    assert resident.on_taken(inbox)
