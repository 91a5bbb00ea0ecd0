from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.body import MalformedBodyError, encode_body
from penstock.model.errors import PeerError
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.session.received import Received

ID = MessageId(1, 2, 3_000, 4)


@given(st.dictionaries(st.sampled_from("abc"), st.integers(-5, 5) | st.text(max_size=3)), st.binary(), st.booleans())
def test_what_was_published_is_received(attributes: dict[str, int | str], payload: bytes, typed: bool) -> None:
    content_type = "text/plain; charset=utf-8" if typed else ""
    received = Received("quotes", 9, encode_body(ID, Message(attributes, payload, content_type)))
    assert received.content_type == content_type
    assert received.payload == payload
    assert received.attributes == attributes
    assert (received.id, received.published_at_ms, received.tick, received.pubend) == (ID, 3_000, 9, "quotes")


def test_attributes_are_decoded_once() -> None:
    received = Received("quotes", 9, encode_body(ID, Message({"a": 1})))
    assert received.attributes is received.attributes


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_are_the_peers_fault(body: bytes) -> None:
    received = Received("quotes", 1, body)
    for name in ("attributes", "payload", "content_type", "id", "published_at_ms"):
        with suppress(PeerError):
            getattr(received, name)


def test_a_cut_body_has_no_payload() -> None:
    body = encode_body(ID, Message({"a": 1}, b"", "text/plain"))
    with pytest.raises(MalformedBodyError):
        _ = Received("quotes", 1, body[:-1]).payload


def test_it_shows_its_payload_by_size() -> None:
    shown = repr(Received("quotes", 9, encode_body(ID, Message({"a": 1}, b"xyz"))))
    assert shown == f"<Received {ID} from quotes: {{'a': 1}} and 3 bytes>"


def test_two_messages_with_the_same_content_are_not_one() -> None:
    one, other = (Received("quotes", 9, encode_body(ID, Message({"a": 1}))) for _ in range(2))
    assert one != other
    assert len({one, other, one}) == 2


def test_a_lifetime_is_told_apart_from_the_attributes() -> None:
    received = Received("quotes", 9, encode_body(ID, Message({"a": 1}, expires=2.5)))
    assert received.attributes == {"a": 1}
    assert received.expires_at_ms == 5_500
    assert Received("quotes", 9, encode_body(ID, Message({"a": 1}))).expires_at_ms is None


def test_what_makes_a_message_a_request_or_a_reply_is_hidden_from_applications() -> None:
    marks = ({"$request": "A-1", "$reply_to": "A"}, {"$request": "A-1", "$reply": "A", "$failed": "no"})
    for each in marks:
        assert Received("quotes", 9, encode_body(ID, Message.system({"a": 1, **each}))).attributes == {"a": 1}
