"""The checkers notice each broken law, and are silent about what is right."""

from __future__ import annotations

from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.sim.checkers import broken_laws, missing, out_of_order, repeated, unselected
from penstock.sim.client import SimClient
from penstock.sim.records import Delivery, Published
from sim.scripted import idle_client


def client(name: str = "c", *selectors: str) -> SimClient:
    made = idle_client(name, *selectors)
    for record in made.subscriptions.values():
        record.begin(0)
    return made


def body(counter: int, a: int = 1, publisher: int = 1) -> bytes:
    return encode_body(MessageId(publisher, 1, 1_000, counter), Message({"a": a}))


def received(counters: list[int], *, a: int = 1, publisher: int = 1, subscription: int = 1) -> list[Delivery]:
    return [Delivery(0, subscription, "p", counter, body(counter, a, publisher)) for counter in counters]


def test_what_is_right_has_no_complaints() -> None:
    subscriber = client("c", "a = 1", "a > 0")
    subscriber.deliveries = [
        *received([1, 2, 5]),
        *received([1, 2, 5], subscription=2),
        *received([1, 3], publisher=2),
    ]
    assert broken_laws([subscriber]) == []


def test_a_message_that_comes_twice_is_noticed() -> None:
    subscriber = client("c", "a = 1")
    subscriber.deliveries = received([1, 2, 2])
    assert len(repeated(subscriber)) == 1
    assert "came twice for subscription 1" in broken_laws([subscriber])[0]


def test_messages_of_one_publisher_out_of_order_are_noticed() -> None:
    subscriber = client("c", "a = 1")
    subscriber.deliveries = received([1, 3, 2, 4])
    assert len(out_of_order(subscriber)) == 1
    assert "came after" in broken_laws([subscriber])[0]


def test_messages_that_were_not_asked_for_are_noticed() -> None:
    subscriber = client("c", "a = 1")
    subscriber.deliveries = [*received([1], a=2), *received([2], subscription=9)]
    complaints = unselected(subscriber)
    assert "is not selected by a = 1" in complaints[0]
    assert "came for no subscription" in complaints[1]


def test_messages_for_a_subscription_that_is_gone_are_noticed() -> None:
    subscriber = client("c", "a = 1")
    subscriber.deliveries = received([1])
    subscriber.subscriptions[1].gone_us = 0
    assert unselected(subscriber) == []
    subscriber.subscriptions[1].gone_us = -1
    assert "which is gone" in unselected(subscriber)[0]


def test_what_the_broker_did_not_grant_must_not_come() -> None:
    subscriber = client("c", "a > 0")
    subscriber.subscriptions[1].granted = "a > 0 AND a < 5"
    subscriber.deliveries = [*received([1], a=3), *received([2], a=7)]
    assert len(unselected(subscriber)) == 1


def test_missing_is_what_was_sent_in_force_and_matches_and_did_not_come() -> None:
    subscriber, publisher = client("c", "a = 1"), client("p")
    subscriber.subscriptions[1].end(100)
    publisher.published[:] = [
        Published(10, body(1)),
        Published(20, body(2)),
        Published(30, body(3, a=2)),
        Published(100, body(4)),
        Published(40, body(5), is_refused=True),
    ]
    subscriber.deliveries = received([1])
    found = missing([publisher], [subscriber])
    assert [(each.client, each.subscription, each.message_id.counter, each.sent_us) for each in found] == [
        ("c", 1, 2, 20)
    ]


def test_what_the_witness_noticed_is_a_broken_law() -> None:
    subscriber = client("c", "a = 1")
    subscriber.witness.breaches.append("came twice")
    assert broken_laws([subscriber]) == ["c: came twice"]
