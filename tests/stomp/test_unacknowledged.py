"""Messages that wait for an ACK: found by either name, taken one by one or up to one."""

from __future__ import annotations

from penstock.session.received import Received
from penstock.stomp.unacknowledged import Unacknowledged


def message(tick: int) -> Received:
    return Received("p", tick, b"")


def three() -> tuple[Unacknowledged, list[Received]]:
    waiting = Unacknowledged()
    made = [message(tick) for tick in range(3)]
    for number, each in enumerate(made):
        waiting.add(f"a{number}", f"m{number}", each)
    return waiting, made


def test_a_message_is_found_by_either_name() -> None:
    waiting, _ = three()
    assert waiting.find("a1", "") == "a1"
    assert waiting.find("", "m1") == "a1"
    assert waiting.find("a9", "m1") is None
    assert waiting.find("", "m9") is None


def test_one_and_all_before_it_are_named_in_order() -> None:
    waiting, _ = three()
    assert waiting.through("a1") == ["a0", "a1"]


def test_what_was_taken_does_not_wait_any_more() -> None:
    waiting, made = three()
    assert waiting.take("a1") is made[1]
    assert waiting.take("a1") is None
    assert waiting.find("", "m1") is None
    assert waiting.messages() == (made[0], made[2])
    assert waiting.messages_of(["a0", "a1", "a9"]) == [made[0]]
    assert len(waiting) == 2


def test_a_message_that_comes_again_is_found_by_its_last_coming() -> None:
    waiting = Unacknowledged()
    again = message(1)
    waiting.add("a1", "m1", message(1))
    waiting.add("a2", "m1", again)
    assert waiting.find("", "m1") == "a2"
    waiting.drop_oldest()
    assert waiting.find("", "m1") == "a2"
    assert waiting.take("a2") is again
    assert waiting.find("", "m1") is None


def test_of_what_cannot_come_again_only_the_names_are_kept() -> None:
    waiting = Unacknowledged()
    waiting.add("a1", "m1", None)
    assert waiting.find("", "m1") == "a1"
    assert waiting.messages() == ()
    assert waiting.messages_of(["a1"]) == []
    assert waiting.take("a1") is None
    assert len(waiting) == 0
