"""Messages as bytes: there and back, and what bytes that are no message lead to."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.body import (
    MalformedBodyError,
    decode_attributes,
    decode_id,
    decode_message,
    encode_body,
    encode_content,
    encode_message,
    take_in,
)
from penstock.model.errors import InvalidMessageError, LimitError, MisuseError, PeerError
from penstock.model.limits import (
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_MAX,
    BODY_BYTES_MAX,
    CONTENT_TYPE_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    STRING_CHARS_MAX,
)
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from strategies import tries

ID = MessageId(1, 2, 3, 4)

ids = st.builds(
    MessageId,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**48 - 1),
    st.integers(0, 2**16 - 1),
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
values: st.SearchStrategy[AttributeValue] = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from([0, -1, 127, 128, 2**32, INTEGER_MIN, INTEGER_MAX]),
    st.integers(INTEGER_MIN, INTEGER_MAX),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
)
messages = st.builds(
    Message.system,
    st.dictionaries(names, values, max_size=8),
    st.binary(max_size=40),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
)


def body_of(attributes: bytes, rest: bytes = b"\x00") -> bytes:
    """A body with these bytes in the place of the attributes."""
    return ID.to_bytes() + struct.pack(">I", len(attributes)) + attributes + rest


def packed(attributes: object) -> bytes:
    return msgspec.msgpack.encode(attributes)


def check_that_only_documented_errors_come_out(body: bytes) -> None:
    for decode in (decode_attributes, decode_id, decode_message):
        try:
            decode(body)
        except MalformedBodyError:
            pass
        except InvalidMessageError:
            assert decode is decode_message


@settings(max_examples=tries(500))
@given(ids, messages)
def test_a_message_comes_back_as_it_was(message_id: MessageId, message: Message) -> None:
    body = encode_body(message_id, message)
    assert decode_message(body) == (message_id, message)
    assert decode_id(body) == message_id
    assert decode_attributes(body) == dict(message.attributes)
    # Equal is not enough: to Python 1, 1.0 and true are equal, to a selector they are not.
    assert [type(value) for value in decode_attributes(body).values()] == [*map(type, message.attributes.values())]


def test_a_value_that_is_not_a_number_comes_back() -> None:
    value = decode_attributes(encode_body(ID, Message({"a": math.nan})))["a"]
    assert isinstance(value, float)
    assert math.isnan(value)
    assert repr(decode_message(encode_body(ID, Message({"a": math.nan})))[1]) == "Message({'a': nan})"


def test_a_negative_zero_keeps_its_sign() -> None:
    value = decode_attributes(encode_body(ID, Message({"a": -0.0})))["a"]
    assert isinstance(value, float)
    assert math.copysign(1, value) == -1


def test_a_message_at_every_limit_comes_back() -> None:
    attributes = {f"{number:0{NAME_CHARS_MAX}}": number for number in range(ATTRIBUTES_MAX - 1)}
    message = Message(
        {**attributes, "text": "é" * STRING_CHARS_MAX}, bytes(PAYLOAD_BYTES_MAX), "x" * CONTENT_TYPE_CHARS_MAX
    )
    assert decode_message(encode_body(ID, message)) == (ID, message)


def test_a_content_type_of_the_allowed_characters_and_more_bytes_than_fit_comes_back_or_is_refused() -> None:
    try:
        message = Message({}, b"payload", "é" * CONTENT_TYPE_CHARS_MAX)
    except MisuseError:
        return
    assert decode_message(encode_body(ID, message)) == (ID, message)


def test_the_layout_is_the_documented_one() -> None:
    body = encode_body(ID, Message({"a": 1}, b"payload", "t/x"))
    assert body == ID.to_bytes() + b"\x00\x00\x00\x04" + b"\x81\xa1a\x01" + b"\x03t/x" + b"payload"


def test_attributes_of_the_system_are_decoded_too() -> None:
    body = encode_body(ID, Message.system({"$load": 5}))
    assert decode_message(body)[1] == Message.system({"$load": 5})


def test_a_body_that_is_cut_before_its_payload_is_malformed_wherever_it_is_cut() -> None:
    body = encode_body(ID, Message({"a": 1, "b": "text", "c": None}, b"", "t/x"))
    for end in range(len(body)):
        with pytest.raises(MalformedBodyError):
            decode_message(body[:end])


def test_brokers_need_no_more_than_the_attributes_and_a_byte() -> None:
    attributes = packed({"a": 1})
    assert decode_attributes(body_of(attributes)) == {"a": 1}
    with pytest.raises(MalformedBodyError, match="do not fit a body"):
        decode_attributes(body_of(attributes, b""))


@settings(max_examples=tries(1000))
@given(messages, st.data())
@example(Message({"a": "text"}), None)
def test_flipped_bytes_are_another_message_or_malformed(message: Message, data: st.DataObject | None) -> None:
    body = bytearray(encode_body(ID, message))
    places = range(len(body)) if data is None else [data.draw(st.integers(0, len(body) - 1))]
    for place in places:
        for value in range(256) if data is None else [data.draw(st.integers(0, 255))]:
            changed = bytes(body[:place]) + bytes((value,)) + bytes(body[place + 1 :])
            check_that_only_documented_errors_come_out(changed)


@settings(max_examples=tries(1000))
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_malformed(body: bytes) -> None:
    check_that_only_documented_errors_come_out(body)


@settings(max_examples=tries(1000))
@given(st.binary(max_size=60), st.binary(min_size=1, max_size=10))
def test_arbitrary_attributes_are_attributes_or_malformed(attributes: bytes, rest: bytes) -> None:
    check_that_only_documented_errors_come_out(body_of(attributes, rest))


@pytest.mark.parametrize(
    "attributes",
    [
        b"\x81\xa1a\xa1\xff",
        b"\x81\xa1\xff\x01",
        b"\x81\xa1a\xa3\xed\xa0\x80",
    ],
    ids=["value", "name", "surrogate"],
)
def test_attributes_that_are_not_utf_8_are_malformed(attributes: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        decode_attributes(body_of(attributes))
    with pytest.raises(MalformedBodyError):
        decode_message(body_of(attributes))


@pytest.mark.parametrize(
    "attributes",
    [
        b"",
        b"\x01",
        b"\x91\x01",
        b"\x81\x01\x01",
        b"\x81\xa1a",
        b"\x81\xa1a\xc4\x01x",
        b"\x81\xa1a\xd6\xff\x00\x00\x00\x00",
        b"\x81\xa1a\x91\x01",
        b"\x81\xa1a\x80",
        b"\x81\xa1a\x01\x01",
        b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0",
        b"\x81\xa1a" + b"\x81\xa1a" * 100_000 + b"\xc0",
        b"\x81" + b"\x91" * 100_000,
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xdb\xff\xff\xff\xff",
        packed({f"a{number}": number for number in range(ATTRIBUTES_MAX + 1)}),
    ],
)
def test_attributes_that_are_no_flat_map_within_the_limit_are_malformed(attributes: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        decode_attributes(body_of(attributes))


def test_of_a_name_that_comes_twice_the_last_value_counts() -> None:
    body = body_of(b"\x82\xa1a\x01\xa1a\x02")
    assert decode_attributes(body) == {"a": 2}
    assert decode_message(body) == (ID, Message({"a": 2}))


@pytest.mark.parametrize(
    "attributes",
    [{"": 1}, {"a\n": 1}, {"a": 2**64 - 1}, {"a": INTEGER_MAX + 1}],
    ids=["empty name", "line break", "u64", "over"],
)
def test_a_message_that_is_not_allowed_to_exist_is_not_decoded(attributes: dict[str, int]) -> None:
    with pytest.raises((MalformedBodyError, InvalidMessageError)):
        decode_message(body_of(packed(attributes)))


@pytest.mark.parametrize(
    "body",
    [
        body_of(packed({"a": "x" * (STRING_CHARS_MAX + 1)})),
        body_of(packed({"a" * (NAME_CHARS_MAX + 1): 1})),
        body_of(packed({}), bytes(PAYLOAD_BYTES_MAX + 2)),
    ],
    ids=["text", "name", "payload"],
)
def test_a_message_over_a_limit_is_malformed_or_invalid_and_nothing_else(body: bytes) -> None:
    with pytest.raises((MalformedBodyError, InvalidMessageError)):
        decode_message(body)


@pytest.mark.parametrize(
    ("rest", "problem"),
    [(b"\x04abc", "a content type of 4 bytes does not fit"), (b"\x01\xff", "the content type is not UTF-8")],
)
def test_a_content_type_that_does_not_fit_or_is_no_text_is_malformed(rest: bytes, problem: str) -> None:
    with pytest.raises(MalformedBodyError, match=problem):
        decode_message(body_of(packed({}), rest))


def test_a_content_type_with_a_control_character_is_not_decoded() -> None:
    with pytest.raises((MalformedBodyError, InvalidMessageError)):
        decode_message(body_of(packed({}), b"\x02a\n"))


def test_an_identifier_needs_a_body() -> None:
    with pytest.raises(MalformedBodyError, match=r"^body of 20 bytes is too short$"):
        decode_id(bytes(20))
    assert decode_id(bytes(21)) == MessageId(0, 0, 0, 0)


def test_a_malformed_body_is_the_fault_of_the_peer() -> None:
    assert issubclass(MalformedBodyError, PeerError)


@settings(max_examples=tries(200))
@given(ids, messages)
def test_what_a_publisher_can_make_is_taken_in(message_id: MessageId, message: Message) -> None:
    assert take_in([encode_body(message_id, message)]) == [dict(message.attributes)]


def test_the_largest_message_is_taken_in() -> None:
    attributes = {f"a{number}": "x" * STRING_CHARS_MAX for number in range(15)}
    body = encode_body(ID, Message(attributes, bytes(PAYLOAD_BYTES_MAX), "x" * CONTENT_TYPE_CHARS_MAX))
    assert take_in([body]) == [attributes]
    assert len(body) <= BODY_BYTES_MAX


def test_attributes_that_are_too_large_together_cannot_be_encoded() -> None:
    attributes = {f"a{number}": "x" * STRING_CHARS_MAX for number in range(16)}
    with pytest.raises(LimitError, match="all attributes"):
        encode_body(ID, Message(attributes))


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (body_of(packed({}), b"\xff"), "content type of 255 bytes does not fit"),
        (body_of(packed({}), b"\x05text"), "content type of 5 bytes does not fit"),
        (body_of(packed({}), b"\x01\xff"), "not printable ASCII"),
        (body_of(packed({}), b"\x02a\n"), "not printable ASCII"),
        (body_of(packed({}), bytes(PAYLOAD_BYTES_MAX + 2)), "payload of"),
        (body_of(packed({f"a{n}": "x" * 65_536 for n in range(17)})), f"over the limit of {ATTRIBUTES_BYTES_MAX:,}"),
    ],
)
def test_what_readers_could_not_take_apart_is_not_taken_in(body: bytes, complaint: str) -> None:
    with pytest.raises(MalformedBodyError, match=complaint):
        take_in([body])
    with pytest.raises(MalformedBodyError, match=complaint):
        take_in([encode_body(ID, Message({"x": 1})), body])


@settings(max_examples=tries(200))
@given(st.lists(st.tuples(ids, messages), max_size=3), st.lists(st.integers(0, 2), max_size=8))
def test_messages_together_are_taken_in_as_each_alone(made: list[tuple[MessageId, Message]], order: list[int]) -> None:
    bodies = [encode_body(*made[place]) for place in order if place < len(made)]
    assert take_in(bodies) == [decode_attributes(body) for body in bodies]


def test_consecutive_messages_with_the_same_attributes_share_them() -> None:
    one, other = Message({"x": 1}, b"payload"), Message({"x": 1, "y": 2})
    first, second, third, last = take_in([encode_body(ID, each) for each in (one, one, other, one)])
    assert first is second
    assert (third, last) == ({"x": 1, "y": 2}, {"x": 1})
    assert last is not first
    assert take_in([encode_body(ID, Message({"x": number})) for number in (1, 2, 1)]) == [{"x": 1}, {"x": 2}, {"x": 1}]


def test_attributes_like_those_before_but_with_nothing_behind_them_are_not_taken_in() -> None:
    whole = encode_body(ID, Message({"x": 1}))
    with pytest.raises(MalformedBodyError, match="do not fit"):
        take_in([whole, whole[:-1]])


class Word(str):
    """A text that is not exactly a str."""

    __slots__ = ()


odd_names = st.one_of(names, st.sampled_from(["", "$system", "a\nb", "\ud800", "known", Word("known"), 7, None]))
odd_values = st.one_of(
    values,
    st.sampled_from([INTEGER_MAX + 1, 2**64 - 1, 2**64, INTEGER_MIN - 1, "\ud800", Word("x"), b"x", [1], {}, ID]),
    st.sampled_from(["x" * STRING_CHARS_MAX, "x" * (STRING_CHARS_MAX + 1), "é" * STRING_CHARS_MAX]),
)
odd_attributes: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(odd_names, odd_values, max_size=4),
    st.dictionaries(st.sampled_from(["known", "also"]), odd_values),
    st.sampled_from([None, 7, MappingProxyType({"known": 1}), {str(n): n for n in range(ATTRIBUTES_MAX + 1)}]),
)
odd_payloads: st.SearchStrategy[Any] = st.sampled_from([b"", b"x", bytearray(b"x"), memoryview(b"x"), "x", None])
odd_types: st.SearchStrategy[Any] = st.sampled_from(["", "text/plain", Word(""), "é", "a\nb", "x" * 256, None, b""])


def outcome(encode: Callable[[], bytes]) -> bytes | str:
    """The bytes, or what is raised."""
    try:
        return encode()
    except MisuseError as error:
        return f"{type(error).__name__}: {error}"


@settings(max_examples=tries(300))
@given(odd_attributes, odd_payloads, odd_types)
@example({"known": 2**63}, b"", "")
@example({"known": 2**40}, b"", "")
@example({Word("known"): 1}, b"", "")
@example({"known": "é" * STRING_CHARS_MAX}, b"", "")
def test_content_is_encoded_or_refused_as_that_of_a_message(attributes: Any, payload: Any, content_type: Any) -> None:
    Message({"known": 1, "also": 2})
    plain = outcome(lambda: encode_message(Message(attributes, payload, content_type)))
    assert outcome(lambda: encode_content(attributes, payload, content_type)) == plain


def test_content_has_a_limit_on_all_attributes_too() -> None:
    attributes = {f"a{number}": "x" * STRING_CHARS_MAX for number in range(20)}
    with pytest.raises(LimitError, match="the size of all attributes in bytes"):
        encode_content(attributes)
    with pytest.raises(LimitError, match="the payload's size in bytes"):
        encode_content({"a0": 1}, bytes(PAYLOAD_BYTES_MAX + 1))


def test_a_body_is_the_identifier_and_the_content() -> None:
    assert encode_body(ID, Message({"a": 1}, b"x", "text/plain")) == ID.to_bytes() + encode_content(
        {"a": 1}, b"x", "text/plain"
    )


@pytest.mark.parametrize("expires", [30.0, 1])
def test_the_lifetime_travels_as_an_attribute_and_comes_back(expires: float) -> None:
    message = Message({"a": 1}, b"payload", "t/x", expires)
    body = encode_body(ID, message)
    assert decode_attributes(body) == {"a": 1, "$expires": expires * 1_000}
    assert decode_message(body) == (ID, message)
    assert encode_content({"a": 1}, b"payload", "t/x", expires) == encode_message(message)
    assert encode_content({"a": 2**63 - 1}, expires=expires) == encode_message(
        Message({"a": 2**63 - 1}, expires=expires)
    )


def test_the_lifetime_counts_as_an_attribute() -> None:
    attributes = {f"a{number}": 1 for number in range(ATTRIBUTES_MAX)}
    encode_content(attributes)
    for _ in range(2):
        with pytest.raises(LimitError, match="lifetime"):
            encode_content(attributes, expires=1.0)


def test_applications_cannot_set_the_attribute_of_the_lifetime() -> None:
    with pytest.raises(InvalidMessageError, match="reserved"):
        encode_content({"$expires": 5})


def test_a_lifetime_that_is_none_stays_an_attribute() -> None:
    assert decode_message(encode_body(ID, Message.system({"$expires": "x"})))[1].attributes == {"$expires": "x"}


def test_messages_whose_attributes_only_have_the_same_length_keep_their_own() -> None:
    bodies = [encode_body(ID, Message({"a": value})) for value in (1, 1, 2, 3, 3)]
    assert [each["a"] for each in take_in(bodies)] == [1, 1, 2, 3, 3]
