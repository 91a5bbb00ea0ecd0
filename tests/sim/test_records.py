"""Records say when a subscription was in force, and decode what was sent and received."""

from __future__ import annotations

from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.sim.records import Delivery, Published, SubscriptionRecord


def test_a_subscription_is_in_force_from_each_confirmation_to_the_next_end() -> None:
    record = SubscriptionRecord(1, "a = 1")
    seen = [record.is_confirmed]
    record.end(5)
    record.begin(10)
    seen.append(record.is_confirmed)
    record.end(20)
    seen.append(record.is_confirmed)
    assert seen == [False, True, False]
    record.end(25)
    record.begin(30)
    assert [time_us for time_us in range(0, 40, 5) if record.was_in_force(time_us)] == [10, 15, 30, 35]


def test_being_confirmed_again_begins_a_new_period() -> None:
    record = SubscriptionRecord(1, "a = 1")
    record.begin(10)
    record.begin(20)
    assert [(period.from_us, period.to_us) for period in record.periods] == [(10, 20), (20, None)]


def test_how_far_a_session_came_is_not_how_far_the_connection_of_a_move_took_it() -> None:
    record = SubscriptionRecord(1, "a = 1", positions={"p": 5, "q": 5})
    record.open_visit(10, "b1", {})
    record.visits[0].behind["p"] = 5
    record.positions |= {"p": 9, "q": 7}
    before = record.reached_in(record.visits[0])
    record.close_visit(20)
    record.open_visit(20, "b2", {})
    record.positions["q"] = 8
    assert before == record.reached_in(record.visits[0]) == record.visits[0].reached == {"p": 5, "q": 7}
    assert record.reached_in(record.visits[1]) == {"p": 9, "q": 8}


def test_bodies_are_decoded_on_request() -> None:
    message_id = MessageId(1, 2, 3, 4)
    body = encode_body(message_id, Message({"a": 1}, b"x"))
    for record in (Published(0, body), Delivery(0, 1, "p", 3, body)):
        assert (record.message_id, record.attributes) == (message_id, {"a": 1})
