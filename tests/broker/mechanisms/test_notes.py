"""What has happened is noted cheaply, and found out later: to whom messages went, whoever has come or gone since."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial

import pytest

from penstock.broker.mechanisms.notes import _GROUPS_MAX, Notes
from penstock.tracking.hashing import EXPIRED_KEY, subscriber_key

ONE, TWO, BOTH = (1).to_bytes(4), (2).to_bytes(4), (1).to_bytes(4) + (2).to_bytes(4)


def made(number: int) -> bytes:
    """The identifier of a message."""
    return number.to_bytes(16)


def body(number: int) -> bytes:
    """A message: nothing behind its identifier is kept."""
    return made(number) + bytes(1_000)


@pytest.fixture
def notes() -> Notes:
    notes = Notes()
    for connection, name in ((5, "alice"), (6, "bob")):
        notes.connect(connection, name)
    return notes


def delivered(notes: Notes) -> list[tuple[int, int]]:
    """Message and subscriber of each delivery."""
    ids, keys = notes.take_delivered()
    return [(int.from_bytes(ids[16 * place :][:16]), key) for place, key in enumerate(keys)]


def test_only_identifiers_are_kept(notes: Notes) -> None:
    notes.publish([body(1), body(2)])
    notes.publish([body(3)])
    assert (notes.route([body(4)], "b2"), notes.route([body(5)], "b3"), notes.route([body(6)], "b2")) == (1, 1, 2)
    notes.deliver([body(7)], [ONE], [5])
    assert notes.take_published() == made(1) + made(2) + made(3)
    assert notes.take_routed() == {"b2": made(4) + made(6), "b3": made(5)}
    assert notes.delivered == made(7)
    assert notes.take_delivered() == (made(7), array("Q", [subscriber_key("alice")]))
    assert not any((notes.take_published(), notes.take_routed(), *notes.take_delivered()))


def test_a_message_to_many_is_many_deliveries(notes: Notes) -> None:
    notes.attach(6, 2, "orders")
    notes.deliver([body(1)], [ONE], [6, 5])
    notes.deliver([body(2)], [BOTH], [5, 6])
    alice, bob, orders = map(subscriber_key, ("alice", "bob", "orders"))
    assert delivered(notes) == [(1, bob), (1, alice), (2, alice), (2, bob), (2, orders)]


def test_mechanisms_of_the_broker_are_nobody(notes: Notes) -> None:
    notes.deliver([body(1)], [ONE], [-3, 5])
    assert delivered(notes) == [(1, subscriber_key("alice"))]


def test_messages_went_to_those_who_were_there(notes: Notes) -> None:
    changes: list[Callable[[], None]] = [
        partial(notes.attach, 5, 1, "orders"),
        partial(notes.detach, 5, 1),
        partial(notes.leave, 5),
        partial(notes.connect, 5, "carol"),
        partial(notes.attach, 5, 1, None),
    ]
    for number, change in enumerate(changes):
        notes.deliver([body(number)], [ONE], [5])
        change()
    carol = subscriber_key("carol")
    names = {0: "alice", 1: "orders", 2: "alice", 4: "carol"}
    assert delivered(notes) == [(number, subscriber_key(names[number])) for number in sorted(names)]
    notes.deliver([body(9)], [TWO], [5])
    assert delivered(notes) == [(9, carol)]


def test_groups_of_subscriptions_do_not_fill_the_memory(notes: Notes) -> None:
    notes.attach(5, 1, "orders")
    for first in range(0, _GROUPS_MAX + 10, 1_000):
        for number in range(first, first + 1_000):
            notes.deliver([body(2)], [number.to_bytes(4)], [5])
        notes.take_delivered()
    assert 0 < len(notes._groups) < _GROUPS_MAX


def test_what_has_expired_is_noted_as_delivered_to_nobody_in_particular(notes: Notes) -> None:
    notes.deliver([body(1)], [ONE], [5])
    notes.expire([body(2), body(3)])
    expected = [(2, EXPIRED_KEY), (3, EXPIRED_KEY), (1, subscriber_key("alice"))]
    assert sorted(delivered(notes)) == sorted(expected)
    assert delivered(notes) == []
