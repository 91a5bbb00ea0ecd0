from __future__ import annotations

from typing import Any

import pytest

from client.scripted import body_of, deliver
from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.protocol.codec import encode_frame
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
    Publish,
    PublishAck,
    ReadRequest,
    Refused,
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
from penstock.session.inbox import Wanted
from penstock.session.positions import LostTicks
from penstock.session.session import Changes, Session
from penstock.session.settings import ClientSettings
from session.moving import connected, message, told

WELCOME = Welcome(PROTOCOL_VERSION, "b1", "test", 11, 2, 50_000, 1_000, 1_000)
CREDENTIAL = "open sesame"
PUBLISHER = bytes(range(16))
NAMES = PubendNames(((0, "quotes"),))


def feed(session: Session, *frames: Frame, now_ms: int = 0) -> Changes:
    changes = session.on_data(b"".join(map(encode_frame, frames)), now_ms=now_ms, wall_ms=40_000)
    session.check_invariants()
    return changes


def naming(pubend: int, tick: int, number: int = 1) -> Horizons:
    """Where a subscription begins, in order with the deliveries."""
    return Horizons(pubend, tick, number.to_bytes(4), is_only=True)


def session_up(**changes: Any) -> Session:
    session = Session(ClientSettings(**changes), name="me", token=CREDENTIAL, overlay="test", publisher=PUBLISHER)
    session.on_connected(now_ms=0)
    assert session.take_frames(now_ms=0) == [
        Hello(PROTOCOL_VERSION, "client", "me", "test", credential=CREDENTIAL, publisher=PUBLISHER)
    ]
    feed(session, WELCOME, NAMES)
    assert session.take_frames(now_ms=0) == []
    return session


def test_a_welcome_opens_the_session() -> None:
    session = session_up()
    assert session.is_up
    assert session.welcome == WELCOME


def test_a_goodbye_instead_of_a_welcome_is_passed_on() -> None:
    session = Session(ClientSettings(), name="me")
    session.on_connected(now_ms=0)
    assert feed(session, Goodbye("refused", "who are you")).goodbye == Goodbye("refused", "who are you")
    assert not session.is_up


@pytest.mark.parametrize(
    "frame",
    [
        Heartbeat(),
        Welcome(PROTOCOL_VERSION + 1, "b", "o", 1, 1, 1, 1, 1),
        Welcome(PROTOCOL_VERSION, "b", "o", 1, 1, 1, 0, 1),
    ],
)
def test_a_broker_that_does_not_begin_with_a_good_welcome_breaks_the_protocol(frame: Frame) -> None:
    session = Session(ClientSettings(), name="me")
    session.on_connected(now_ms=0)
    with pytest.raises(ProtocolError):
        feed(session, frame)


@pytest.mark.parametrize("frame", [LinkState("b", 1, 1, ()), Publish(1, [body_of(1)]), Hello(1, "broker", "b", "o")])
def test_frames_that_are_not_for_clients_break_the_protocol(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="a broker does not send"):
        feed(session_up(), frame)


def test_identifiers_follow_the_brokers_clock() -> None:
    session = session_up()
    message_id, _ = session.identify(Message({}), wall_ms=40_500)
    assert (message_id.publisher, message_id.broker, message_id.timestamp_ms) == (11, 2, 50_500)


def test_identifiers_go_on_above_the_last_one_after_a_reconnect() -> None:
    session = session_up()
    last, _ = session.identify(Message({}), wall_ms=90_000)
    session.on_disconnected()
    session.on_connected(now_ms=0)
    feed(session, WELCOME)
    following, _ = session.identify(Message({}), wall_ms=40_000)
    assert following > last


def test_a_message_that_fits_no_frame_is_refused_at_once() -> None:
    session = session_up()
    with pytest.raises(LimitError, match="the size of all attributes"):
        session.identify(Message({f"a{n}": "x" * 65_536 for n in range(200)}), wall_ms=0)
    with pytest.raises(LimitError, match="pubend"):
        session.publish(body_of(1), "p" * 101, now_ms=0)


def test_published_messages_leave_in_batches() -> None:
    session = session_up(linger_ms=2)
    assert not session.publish(body_of(1), "", now_ms=5)
    assert session.next_deadline() == 7
    (frame,) = session.take_frames(now_ms=7)
    assert isinstance(frame, Publish)
    assert frame.bodies == [body_of(1)]
    changes = feed(session, PublishAck(1, len(body_of(1))))
    assert changes.publishing
    assert session.publishing.settled == 1


def test_nothing_is_taken_while_the_transport_is_full() -> None:
    session = session_up(linger_ms=0)
    session.writable = False
    session.publish(body_of(1), "", now_ms=5)
    assert session.take_frames(now_ms=9_999) == []
    assert session.next_deadline() == 5_000, "only the broker's silence counts"
    session.writable = True
    assert len(session.take_frames(now_ms=9_999)) == 1


def test_a_heartbeat_is_sent_when_nothing_else_was() -> None:
    session = session_up()
    assert session.next_deadline() == 1_000
    session.subscribe(Wanted("TRUE"))
    assert session.take_frames(now_ms=600) == [Subscribe(1, "TRUE")]
    assert session.take_frames(now_ms=1_000) == []
    assert session.take_frames(now_ms=1_600) == [Heartbeat(1_600)]


def test_a_broker_that_is_silent_for_five_heartbeats_is_given_up() -> None:
    session = session_up()
    feed(session, Heartbeat(), now_ms=300)
    assert not session.is_silent(now_ms=5_299)
    assert session.is_silent(now_ms=5_300)


def test_a_large_message_that_keeps_arriving_is_no_silence() -> None:
    session = session_up()
    large = encode_frame(deliver(1, payload=b"x" * 10_000))
    for turn in range(1, 10):
        session.on_data(large[(turn - 1) * 1_000 : turn * 1_000], now_ms=turn * 4_000, wall_ms=0)
        assert not session.is_silent(now_ms=turn * 4_000 + 3_999)


def test_a_subscription_goes_from_asked_to_ready_to_closed() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("a = 1"))
    changes = feed(session, Subscribed(1, "a = 1 AND b = 2", ("far",)))
    assert changes.inboxes == {1: inbox}
    assert (inbox.state, inbox.granted, inbox.pending) == ("ready", "a = 1 AND b = 2", ("far",))
    session.unsubscribe(inbox)
    session.unsubscribe(inbox)
    assert session.take_frames(now_ms=0) == [Subscribe(1, "a = 1"), Unsubscribe(1)]
    feed(session, deliver(5, 1), Subscribed(1, "a = 1"))
    assert not inbox.queue
    assert feed(session, Unsubscribed(1)).inboxes == {1: inbox}
    assert inbox.state == "closed"
    assert not feed(session, deliver(6, 1)).inboxes


def test_a_refused_subscription_knows_why() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("a = 1"))
    feed(session, Refused("subscribe", 1, "not for you"))
    assert (inbox.state, inbox.reason) == ("refused", "not for you")


def test_a_withdrawal_that_the_broker_does_not_know_is_done() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("a = 1"))
    session.unsubscribe(inbox)
    feed(session, Refused("unsubscribe", 1, "no such subscription"))
    assert inbox.state == "closed"


def test_messages_reach_each_subscription_they_are_for_once_per_batch() -> None:
    session = session_up()
    one, two, three = (session.subscribe(Wanted("TRUE")) for _ in range(3))
    changes = feed(session, deliver(1, 1), deliver(2, 1, 3), deliver(3, 99))
    assert [*changes.inboxes.values()] == [one, three]
    assert [each.tick for each in one.queue] == [1, 2]
    assert [each.tick for each in three.queue] == [2]
    assert not two.queue
    assert one.queue[1] is three.queue[0]
    assert session.received == 3
    assert one.queue[0].pubend == "quotes"


def test_a_delivery_in_pieces_is_put_together() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("TRUE"))
    data = encode_frame(deliver(1)) + encode_frame(deliver(2))
    for byte in data:
        session.on_data(bytes([byte]), now_ms=0, wall_ms=0)
    assert [each.tick for each in inbox.queue] == [1, 2]


def test_a_pubend_without_a_name_breaks_the_protocol() -> None:
    session = Session(ClientSettings(), name="me")
    session.on_connected(now_ms=0)
    feed(session, WELCOME)
    with pytest.raises(ProtocolError, match="pubend number 0 has no name"):
        feed(session, deliver(1))


def test_reading_stops_when_a_queue_is_full_and_its_silence_is_not_the_brokers() -> None:
    session = session_up(queue_messages=4)
    inbox = session.subscribe(Wanted("TRUE"))
    session.subscribe(Wanted("FALSE"))
    feed(session, *(deliver(n) for n in range(4)))
    assert not session.reading
    assert not session.is_silent(now_ms=10**9)
    session.take_frames(now_ms=0)
    assert session.next_deadline() == 1_000, "heartbeats go on"
    inbox.pop()
    assert not session.on_taken(inbox)
    inbox.pop()
    assert session.on_taken(inbox)
    session.on_reading(now_ms=20_000)
    assert not session.is_silent(now_ms=20_001)


def test_withdrawing_a_full_subscription_lets_the_others_read() -> None:
    session = session_up(queue_messages=2)
    inbox = session.subscribe(Wanted("TRUE"))
    feed(session, deliver(1), deliver(2))
    assert not session.reading
    session.unsubscribe(inbox)
    assert session.reading


def test_subscriptions_are_sent_again_after_a_reconnect_and_withdrawn_ones_are_not() -> None:
    session = session_up()
    one, two = session.subscribe(Wanted("a = 1")), session.subscribe(Wanted("a = 2"))
    feed(session, Subscribed(1, "narrow"), Subscribed(2, "a = 2"), deliver(1, 1))
    session.unsubscribe(two)
    session.take_frames(now_ms=0)
    changes = session.on_disconnected()
    session.check_invariants()
    assert changes.lost
    assert (one.state, two.state) == ("asked", "closed")
    assert len(one.queue) == 1
    three = session.subscribe(Wanted("a = 3"))
    session.unsubscribe(three)
    assert three.is_over
    session.on_connected(now_ms=0)
    assert len(session.take_frames(now_ms=0)) == 1
    feed(session, WELCOME)
    assert session.take_frames(now_ms=0) == [Subscribe(1, "a = 1", (), resumes=True)]


def test_half_a_frame_of_the_old_connection_does_not_disturb_the_new_one() -> None:
    session = session_up()
    session.on_data(encode_frame(Heartbeat())[:3], now_ms=0, wall_ms=0)
    session.on_disconnected()
    session.on_connected(now_ms=0)
    assert feed(session, WELCOME).welcome == WELCOME


def test_status_answers_and_refusals_are_passed_on() -> None:
    session = session_up()
    assert session.ask(StatusRequest) == 1
    assert session.take_frames(now_ms=0) == [StatusRequest(1)]
    assert feed(session, StatusReply(1, b"{}"), Refused("status", 2, "no")).answers == [
        StatusReply(1, b"{}"),
        Refused("status", 2, "no"),
    ]


def test_what_is_asked_again_has_the_same_number_and_its_answers_are_passed_on() -> None:
    session = session_up()
    number = session.ask(lambda number: ReadRequest(number, "p", 1, 9, "TRUE", 5))
    assert session.ask(SurveyRequest) == number + 1
    session.ask_again(ReadRequest(number, "p", 1, 9, "TRUE", 5))
    asked = ReadRequest(number, "p", 1, 9, "TRUE", 5)
    assert session.take_frames(now_ms=0) == [asked, SurveyRequest(number + 1), asked]
    survey, refusal = SurveyReply(number + 1, (("p", 1, 2),)), Refused("read", number, "no")
    answers = feed(session, LogAnswer("p", "", number, (1, 9), [4], [b"x"]), survey, refusal).answers
    assert isinstance(answers[0], LogAnswer)
    assert (answers[0].number, answers[0].ticks, answers[0].bodies) == (number, [4], [b"x"])
    assert answers[1:] == [survey, refusal]


def test_nothing_is_asked_where_there_is_no_broker() -> None:
    session = session_up()
    session.on_disconnected()
    with pytest.raises(AssertionError, match="no broker to ask"):
        session.ask(StatusRequest)
    with pytest.raises(AssertionError, match="no broker to ask"):
        session.ask_again(StatusRequest(1))


@pytest.mark.parametrize("frame", [LogRequest("p", "h", 1, 0, 9, 9), LogSpan("p", "h", 1, 0, 9), SurveyRequest(1)])
def test_what_brokers_and_clients_ask_is_not_for_clients(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="to a client"):
        feed(session_up(), frame)


def test_a_refused_message_and_a_goodbye_are_passed_on() -> None:
    session = session_up(linger_ms=0)
    session.publish(body_of(1), "", now_ms=0)
    session.take_frames(now_ms=0)
    changes = feed(session, Refused("publish", 1, "no"), Goodbye("shutdown", "bye"))
    assert changes.publishing
    assert changes.goodbye == Goodbye("shutdown", "bye")
    assert session.publishing.refused == 1


def sent_again(before: Welcome, after: Welcome, *pubends: str) -> list[tuple[int, str]]:
    """What of a message to each pubend is sent on a second connection."""
    session = Session(ClientSettings(linger_ms=0), name="me")
    session.on_connected(now_ms=0)
    feed(session, before)
    for pubend in pubends:
        session.publish(body_of(1), pubend, now_ms=0)
    assert sum(isinstance(frame, Publish) for frame in session.take_frames(now_ms=0)) == len(pubends)
    session.on_disconnected()
    session.on_connected(now_ms=0)
    feed(session, after)
    frames = [frame for frame in session.take_frames(now_ms=0) if isinstance(frame, Publish)]
    assert session.publishing.lost == len(pubends) - len(frames)
    return [(frame.first, frame.pubend) for frame in frames]


def welcome_of(broker: str, pubends: tuple[str, ...] = ("a", "b"), best_effort: tuple[str, ...] = ()) -> Welcome:
    return Welcome(PROTOCOL_VERSION, broker, "test", 11, 2, 50_000, 1_000, 1_000, pubends, best_effort)


def test_the_same_broker_gets_again_what_was_on_the_wire() -> None:
    one = welcome_of("b1")
    assert sent_again(one, one, "a", "", "gone") == [(1, "a"), (2, ""), (3, "gone")]
    assert sent_again(one, welcome_of("b2"), "a", "") == []


def test_pubends_that_guarantee_nothing_do_not_get_it_again() -> None:
    partly, wholly = welcome_of("b1", best_effort=("b",)), welcome_of("b1", best_effort=("a", "b"))
    assert sent_again(partly, partly, "a", "b", "") == [(1, "a"), (3, "")]
    assert sent_again(wholly, wholly, "a", "b", "") == []
    none = welcome_of("b1", ())
    assert sent_again(none, none, "") == []


def test_a_pubend_whose_service_class_was_changed_does_not_get_it_again() -> None:
    loose, strict = welcome_of("b1", best_effort=("b",)), welcome_of("b1")
    assert sent_again(loose, strict, "a", "b", "") == [(1, "a")], "b passed on what it cannot know now"
    assert sent_again(strict, loose, "a", "b", "") == [(1, "a")], "by hash, b may have it"


def test_a_broker_that_would_choose_otherwise_does_not_get_again_what_it_chose_for() -> None:
    assert sent_again(welcome_of("b1"), welcome_of("b1", ("a", "b", "c")), "a", "") == [(1, "a")]


def test_every_connection_states_the_same_publisher() -> None:
    session = Session(ClientSettings(), name="me", publisher=PUBLISHER)
    for _ in range(2):
        session.on_connected(now_ms=0)
        (hello,) = session.take_frames(now_ms=0)
        assert isinstance(hello, Hello)
        assert hello.publisher == PUBLISHER
        session.on_disconnected()


def test_sequence_numbers_go_on_over_connections() -> None:
    session = session_up(linger_ms=0)
    for sequence in (1, 2):
        session.publish(body_of(sequence), "", now_ms=0)
        (frame,) = session.take_frames(now_ms=0)
        assert isinstance(frame, Publish)
        assert frame.first == sequence
        feed(session, PublishAck(sequence, len(body_of(sequence))))
        session.on_disconnected()
        session.on_connected(now_ms=0)
        session.take_frames(now_ms=0)
        feed(session, WELCOME)


def test_a_publisher_of_the_settings_states_itself_and_its_numbers() -> None:
    session = Session(ClientSettings(linger_ms=0, publisher=b"writer", published=7), name="me")
    session.on_connected(now_ms=0)
    (hello,) = session.take_frames(now_ms=0)
    assert isinstance(hello, Hello)
    assert hello.publisher == b"writer"
    feed(session, WELCOME)
    session.publish(b"x", "", now_ms=0)
    assert [frame.first for frame in session.take_frames(now_ms=0) if isinstance(frame, Publish)] == [8]


def test_why_publishers_are_held_back_is_known_until_it_is_over() -> None:
    session = session_up()
    feed(session, HeldBack("disk full"))
    assert session.held_back == "disk full"
    feed(session, HeldBack(""))
    assert session.held_back == ""
    feed(session, HeldBack("log full"))
    session.on_disconnected()
    assert session.held_back == ""


def test_a_subscription_resumes_where_it_was() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("TRUE", {"trades": 3}))
    assert session.take_frames(now_ms=0) == [Subscribe(1, "TRUE", (("trades", 3),))]
    feed(session, Subscribed(1, "TRUE", (), (("trades", 3), ("quotes", 5))), deliver(7))
    assert inbox.starts == {"trades": 3, "quotes": 5}
    session.on_disconnected()
    session.on_connected(now_ms=0)
    session.take_frames(now_ms=0)
    # The numbers are others on this connection.
    feed(session, WELCOME, PubendNames(((0, "trades"), (1, "quotes"))))
    assert session.take_frames(now_ms=0) == [Subscribe(1, "TRUE", (("trades", 3), ("quotes", 8)), resumes=True)]
    feed(session, Subscribed(1, "TRUE", (), (("trades", 3), ("quotes", 8))), deliver(7))
    assert [(each.pubend, each.tick) for each in inbox.queue] == [("quotes", 7), ("trades", 7)]
    assert session.repeated == 0


def test_one_acknowledgement_answers_all_horizons_that_came_together() -> None:
    session = session_up()
    session.subscribe(Wanted("TRUE"))
    session.take_frames(now_ms=0)
    feed(session, PubendNames(((1, "trades"),)), Subscribed(1, "TRUE", (), (("quotes", 5), ("trades", 6))))
    feed(session, naming(0, 5), naming(1, 6))
    assert session.take_frames(now_ms=0) == [Acknowledge(((0, 5), (1, 6)))]
    feed(session, Horizons(0, 9), Horizons(1, 20), deliver(9), Horizons(0, 10))
    assert session.take_frames(now_ms=0) == [Acknowledge(((0, 10), (1, 20)))]
    feed(session, deliver(11))
    assert session.take_frames(now_ms=0) == [], "without a horizon nothing is said"


def test_a_horizon_on_its_way_when_a_subscription_was_confirmed_is_not_meant_for_it() -> None:
    session = session_up()
    older = session.subscribe(Wanted("a = 1"))
    feed(session, Subscribed(1, "a = 1", (), (("quotes", 5),)), naming(0, 5))
    newer = session.subscribe(Wanted("a = 2", {"quotes": 3}))
    session.take_frames(now_ms=0)
    # The confirmation is a control frame, and overtakes horizons that wait among the data.
    feed(session, Subscribed(2, "a = 2", (), (("quotes", 3),)), Horizons(0, 90))
    assert (older.positions.get("quotes"), newer.positions.get("quotes")) == (90, 3)
    assert session.take_frames(now_ms=0) == [], "the newer one holds back what was said to be there"
    feed(session, naming(0, 3, 2), deliver(4, 2), Horizons(0, 91))
    assert [each.tick for each in newer.queue] == [4]
    assert (older.positions.get("quotes"), newer.positions.get("quotes")) == (91, 91)
    assert session.repeated == 0
    assert session.take_frames(now_ms=0) == [Acknowledge(((0, 91),))]


def test_what_a_connection_named_is_named_again_on_the_next_one() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("TRUE"))
    feed(session, Subscribed(1, "TRUE", (), (("quotes", 5),)), naming(0, 5), Horizons(0, 9))
    session.on_disconnected()
    session.on_connected(now_ms=0)
    feed(session, WELCOME, NAMES, Subscribed(1, "TRUE", (), (("quotes", 9),)), Horizons(0, 90))
    assert inbox.positions.get("quotes") == 9
    feed(session, naming(0, 9), Horizons(0, 91))
    assert inbox.positions.get("quotes") == 91


def test_lost_ticks_are_passed_on_if_a_subscription_misses_them() -> None:
    session = session_up()
    inbox = session.subscribe(Wanted("TRUE"))
    feed(session, Subscribed(1, "TRUE", (), (("quotes", 5),)))
    other = session.subscribe(Wanted("TRUE", {"quotes": 5}))
    assert feed(session, Lost(0, 1, 4, (1,))).missing == []
    assert feed(session, Lost(0, 8, 9, (1,)), deliver(6)).missing == [LostTicks("quotes", 8, 9)]
    assert [each.tick for each in inbox.queue] == [6], "a notice overtakes the messages in front of it"
    assert (inbox.lost_count, other.lost_count) == (1, 0)


@pytest.mark.parametrize("frame", [Horizons(9, 1), Lost(9, 1, 2, (1,))])
def test_only_pubends_with_a_name_have_horizons_and_losses(frame: Frame) -> None:
    with pytest.raises(ProtocolError, match="pubend number 9 has no name"):
        feed(session_up(), frame)


def test_the_tick_of_a_best_effort_message_is_no_position_though_the_pubend_has_one() -> None:
    """The service class of a pubend was changed: the same name stands for two streams, and the number tells which."""
    session, inbox = connected(durable="bill")
    told(session, PubendNames(((3, "quotes"),)), message(5_000, 3), message(11, 0), message(4, 3))
    assert [each.tick for each in inbox.queue] == [9, 5_000, 11, 4]
    assert inbox.positions.known() == {"quotes": 12}
    assert inbox.read_positions() == {"quotes": 9}
