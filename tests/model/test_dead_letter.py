"""A dead letter keeps all of its message, whatever that had."""

from __future__ import annotations

import pytest

from penstock.model.body import decode_message
from penstock.model.dead_letter import WHOLE, Original, encode_dead_letter, original_of
from penstock.model.limits import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, PAYLOAD_BYTES_MAX
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue

ID = MessageId(1, 2, 3, 4)
WHY: dict[str, AttributeValue] = {"dead_group": "g", "dead_pubend": "p", "dead_attempts": 3, "dead_reason": "no"}
HISTORY = "attempt 1: no"
HEAVY: dict[str, AttributeValue] = {f"a{number}": "x" * 65_536 for number in range(15)}


def many(count: int) -> dict[str, AttributeValue]:
    return {f"a{number}": number for number in range(count)}


def letter_of(
    attributes: dict[str, AttributeValue], payload: bytes = b"payload", expires: float | None = None
) -> Message:
    message = Message.system(attributes, payload, "text/plain", expires)
    message_id, letter = decode_message(encode_dead_letter(ID, message, WHY, HISTORY))
    assert message_id == ID
    assert letter.expires is None
    return letter


def original(letter: Message) -> Original | None:
    return original_of(letter.attributes, letter.payload, letter.content_type)


def test_it_has_the_attributes_of_both() -> None:
    letter = letter_of({"number": 4}, expires=3.0)
    assert letter.attributes == {"number": 4, **WHY, "dead_history": HISTORY}
    assert (letter.payload, letter.content_type) == (b"payload", "text/plain")


def test_the_history_is_left_out_first() -> None:
    letter = letter_of(many(ATTRIBUTES_MAX - len(WHY)))
    assert letter.attributes == {**many(ATTRIBUTES_MAX - len(WHY)), **WHY}
    assert letter.payload == b"payload"


def test_without_room_or_with_names_of_its_own_the_message_is_its_payload() -> None:
    for attributes in (many(ATTRIBUTES_MAX), {"dead_group": "another"}, {"dead_$reply_to": 1}, {"dead_whole": True}):
        letter = letter_of({**attributes})
        assert letter.content_type == WHOLE
        assert letter.attributes == {**WHY, "dead_history": HISTORY, "dead_whole": True}


def test_it_is_no_request() -> None:
    letter = letter_of({"service": "price", "$request": "A-1", "$reply_to": "A"})
    assert not any(name.startswith("$") for name in letter.attributes)
    assert letter.attributes["dead_$reply_to"] == "A"
    assert original(letter) == Original("p", {"service": "price"}, b"payload", "text/plain", ("$request", "$reply_to"))


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        many(3),
        many(ATTRIBUTES_MAX - len(WHY)),
        many(ATTRIBUTES_MAX),
        HEAVY | {"b": "x" * (ATTRIBUTES_BYTES_MAX - 15 * 65_550)},
        {"dead_group": "another", "dead_pubend": 5},
        {"dead_cut": True},
        {"dead_whole": True},
        {"dead_$x": 1},
        {"x" * 255: None},
    ],
)
def test_the_message_is_found_again_as_it_was(attributes: dict[str, AttributeValue]) -> None:
    assert original(letter_of(attributes)) == Original("p", attributes, b"payload", "text/plain")


def test_reserved_names_are_told_however_the_message_is_kept() -> None:
    found = original(letter_of({**many(ATTRIBUTES_MAX - 1), "$reply": "A"}))
    assert found == Original("p", many(ATTRIBUTES_MAX - 1), b"payload", "text/plain", ("$reply",))


def test_if_not_even_that_fits_it_says_that_the_attributes_are_missing() -> None:
    payload = bytes(PAYLOAD_BYTES_MAX)
    assert original(letter_of(many(ATTRIBUTES_MAX), payload)) == Original("p", {}, payload, "text/plain", is_cut=True)


@pytest.mark.parametrize(
    ("attributes", "payload"),
    [({}, b""), ({"dead_pubend": 5}, b""), ({"dead_pubend": ""}, b""), ({**WHY, "dead_whole": True}, b"nonsense")],
)
def test_anything_else_is_no_dead_letter(attributes: dict[str, AttributeValue], payload: bytes) -> None:
    assert original_of(attributes, payload, "") is None
