from __future__ import annotations

import pytest

from client.scripted import body_of, deliver
from penstock.broker.codec import encode_frame
from penstock.broker.errors import ProtocolError
from penstock.broker.frames import (
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    LinkState,
    PubendNames,
    Publish,
    PublishAck,
    Refused,
    StatusReply,
    StatusRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.client.session import Changes, Session
from penstock.client.settings import ClientSettings
from penstock.model.errors import LimitError
from penstock.model.message import Message

WELCOME = Welcome(1, "b1", "test", 11, 2, 50_000, 1_000, 1_000)
CREDENTIAL = "open sesame"
NAMES = PubendNames(((0, "quotes"),))


def feed(session: Session, *frames: Frame, now_ms: int = 0) -> Changes:
    changes = session.on_data(b"".join(map(encode_frame, frames)), now_ms=now_ms, wall_ms=40_000)
    session.check_invariants()
    return changes


def session_up(**changes: int) -> Session:
    session = Session(ClientSettings(**changes), name="me", token=CREDENTIAL, overlay="test")
    session.on_connected(now_ms=0)
    assert session.take_frames(now_ms=0) == [Hello(1, "client", "me", "test", credential=CREDENTIAL)]
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
    "frame", [Heartbeat(), Welcome(2, "b", "o", 1, 1, 1, 1, 1), Welcome(1, "b", "o", 1, 1, 1, 0, 1)]
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
    with pytest.raises(LimitError, match="the message's size"):
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
    session.subscribe("TRUE")
    assert session.take_frames(now_ms=600) == [Subscribe(1, "TRUE")]
    assert session.take_frames(now_ms=1_000) == []
    assert session.take_frames(now_ms=1_600) == [Heartbeat(1_600)]


def test_a_broker_that_is_silent_for_five_heartbeats_is_given_up() -> None:
    session = session_up()
    feed(session, Heartbeat(), now_ms=300)
    assert not session.is_silent(now_ms=5_299)
    assert session.is_silent(now_ms=5_300)


def test_a_subscription_goes_from_asked_to_ready_to_closed() -> None:
    session = session_up()
    inbox = session.subscribe("a = 1")
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
    inbox = session.subscribe("a = 1")
    feed(session, Refused("subscribe", 1, "not for you"))
    assert (inbox.state, inbox.reason) == ("refused", "not for you")


def test_a_withdrawal_that_the_broker_does_not_know_is_done() -> None:
    session = session_up()
    inbox = session.subscribe("a = 1")
    session.unsubscribe(inbox)
    feed(session, Refused("unsubscribe", 1, "no such subscription"))
    assert inbox.state == "closed"


def test_messages_reach_each_subscription_they_are_for_once_per_batch() -> None:
    session = session_up()
    one, two, three = (session.subscribe("TRUE") for _ in range(3))
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
    inbox = session.subscribe("TRUE")
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
    inbox = session.subscribe("TRUE")
    session.subscribe("FALSE")
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
    inbox = session.subscribe("TRUE")
    feed(session, deliver(1), deliver(2))
    assert not session.reading
    session.unsubscribe(inbox)
    assert session.reading


def test_subscriptions_are_sent_again_after_a_reconnect_and_withdrawn_ones_are_not() -> None:
    session = session_up()
    one, two = session.subscribe("a = 1"), session.subscribe("a = 2")
    feed(session, Subscribed(1, "narrow"), Subscribed(2, "a = 2"), deliver(1, 1))
    session.unsubscribe(two)
    session.take_frames(now_ms=0)
    changes = session.on_disconnected()
    session.check_invariants()
    assert changes.lost
    assert (one.state, two.state) == ("asked", "closed")
    assert len(one.queue) == 1
    three = session.subscribe("a = 3")
    session.unsubscribe(three)
    assert three.is_over
    session.on_connected(now_ms=0)
    assert len(session.take_frames(now_ms=0)) == 1
    feed(session, WELCOME)
    assert session.take_frames(now_ms=0) == [Subscribe(1, "a = 1")]


def test_half_a_frame_of_the_old_connection_does_not_disturb_the_new_one() -> None:
    session = session_up()
    session.on_data(encode_frame(Heartbeat())[:3], now_ms=0, wall_ms=0)
    session.on_disconnected()
    session.on_connected(now_ms=0)
    assert feed(session, WELCOME).welcome == WELCOME


def test_status_answers_and_refusals_are_passed_on() -> None:
    session = session_up()
    assert session.ask_status() == 1
    assert session.take_frames(now_ms=0) == [StatusRequest(1)]
    assert feed(session, StatusReply(1, b"{}"), Refused("status", 2, "no")).statuses == [(1, b"{}"), (2, "no")]


def test_a_refused_message_and_a_goodbye_are_passed_on() -> None:
    session = session_up(linger_ms=0)
    session.publish(body_of(1), "", now_ms=0)
    session.take_frames(now_ms=0)
    changes = feed(session, Refused("publish", 1, "no"), Goodbye("shutdown", "bye"))
    assert changes.publishing
    assert changes.goodbye == Goodbye("shutdown", "bye")
    assert session.publishing.refused == 1
