"""Messages: what is accepted, what is refused with which words, and that nothing changes afterwards."""

from __future__ import annotations

import copy
import dataclasses
import enum
import math
import pickle
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InvalidMessageError, LimitError
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    CONTENT_TYPE_CHARS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    NAME_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    STRING_CHARS_MAX,
)
from penstock.model.message import Message

QUOTE: dict[str, Any] = {"class": "STOCK", "symbol": "YHOO", "open": 18.37, "volume": 7, "live": True, "note": None}

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=NAME_CHARS_MAX).filter(
    lambda name: not name.startswith("$")
)
values = (
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.none()
)
attribute_sets = st.dictionaries(names, values, max_size=20)


class Colour(enum.IntEnum):
    RED = 1


class Symbol(enum.StrEnum):
    YHOO = "YHOO"


class Celsius(float):
    pass


def test_a_message_keeps_its_attributes_payload_and_content_type() -> None:
    message = Message(QUOTE, b"\x00\x01", "application/octet-stream")
    assert dict(message.attributes) == QUOTE
    assert message.payload == b"\x00\x01"
    assert message.content_type == "application/octet-stream"


def test_payload_and_content_type_are_empty_if_nobody_said() -> None:
    assert Message({}) == Message({}, payload=b"", content_type="")


def test_later_changes_to_the_given_mapping_do_not_reach_the_message() -> None:
    given_mapping = {"a": 1}
    message = Message(given_mapping)
    given_mapping["a"] = 2
    assert message.attributes["a"] == 1


def test_nothing_in_a_message_can_be_changed() -> None:
    message = Message(QUOTE)
    assert isinstance(message.attributes, MappingProxyType)
    with pytest.raises(TypeError):
        message.attributes["symbol"] = "IBM"  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.payload = b"other"  # type: ignore[misc]


@given(attribute_sets, st.binary(max_size=50))
def test_every_allowed_message_is_equal_to_its_copies_and_has_their_hash(
    attributes: dict[str, Any], payload: bytes
) -> None:
    message = Message(attributes, payload)
    for other in (Message(dict(reversed(attributes.items())), payload), copy.deepcopy(message), copy.copy(message)):
        assert other == message
        assert hash(other) == hash(message)
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301


def test_messages_that_differ_in_one_part_are_not_equal() -> None:
    message = Message({"a": 1}, b"x", "text/plain")
    assert message != Message({"a": 2}, b"x", "text/plain")
    assert message != Message({"a": 1, "b": None}, b"x", "text/plain")
    assert message != Message({"a": 1}, b"y", "text/plain")
    assert message != Message({"a": 1}, b"x", "text/html")
    assert message != object()


def test_not_a_number_is_allowed() -> None:
    assert math.isnan(Message({"x": math.nan}).attributes["x"])  # type: ignore[arg-type]


def test_infinities_and_the_extreme_integers_are_allowed() -> None:
    extremes = {"low": INTEGER_MIN, "high": INTEGER_MAX, "inf": -math.inf}
    assert dict(Message(extremes).attributes) == extremes


@pytest.mark.parametrize("name", ["a", "ünïcode", "with space", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH JOINER}", "🙂"])
def test_any_name_without_control_characters_is_allowed(name: str) -> None:
    assert Message({name: 1}).attributes[name] == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "must not be empty"),
        ("a\nb", r"control character '\\n' at character 2"),
        ("\x7f", r"control character '\\x7f'"),
        ("a\x85", r"control character '\\x85'"),
        ("a\ud800", r"lone surrogate at character 2"),
        (7, r"must be a str, not int \(7\)"),
        (Symbol.YHOO, "must be a str, not .*Symbol"),
        ("$path", r"'\$path' is reserved: names that start with '\$' belong to the system"),
        ("$", "is reserved"),
    ],
)
def test_a_bad_name_is_refused_with_the_rule_it_broke(name: Any, words: str) -> None:
    with pytest.raises(InvalidMessageError, match=words):
        Message({"fine": 1, name: 1})


def test_a_name_may_be_as_long_as_the_limit_and_not_longer() -> None:
    Message({"n" * NAME_CHARS_MAX: 1})
    with pytest.raises(LimitError, match=r"name of attribute 'nnn.*is 256, over the limit of 255") as caught:
        Message({"n" * (NAME_CHARS_MAX + 1): 1})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Colour.RED, r"of type .*Colour; values must be exactly .*: convert it with int\(\)"),
        (Symbol.YHOO, r"convert it with str\(\)"),
        (Celsius(3), r"convert it with float\(\)"),
        (np.int64(3), r"of type numpy\.int64; .*convert it with \.item\(\)"),
        (np.float64(3), r"of type numpy\.float64; .*convert it with float\(\)"),
        (np.bool_(True), r"convert it with \.item\(\)"),  # noqa: FBT003
        (b"x", "of type bytes; .*bytes belong in the payload"),
        ([1], r"of type list; values must be exactly str, int, float, bool or None$"),
        (2**63, r"int of 64 bits and a sign; integers must be from -9223372036854775808 to 9223372036854775807"),
        (-(2**63) - 1, "int of 64 bits and a sign"),
        pytest.param(10**5000, "int of 16,610 bits and a sign", id="too long to print"),
        ("\udfff", "'price' has a lone surrogate at character 1"),
    ],
)
def test_a_bad_value_is_refused_with_the_name_the_type_and_the_rule(value: Any, words: str) -> None:
    with pytest.raises(InvalidMessageError, match=words) as caught:
        Message({"fine": 1, "price": value})
    assert "attribute 'price'" in str(caught.value)


def test_a_text_may_be_as_long_as_the_limit_and_not_longer() -> None:
    Message({"ascii": "a" * STRING_CHARS_MAX, "wide": "ä" * STRING_CHARS_MAX})
    for char in "aä":
        with pytest.raises(LimitError, match="attribute 'text', in characters, is 65,537"):
            Message({"text": char * (STRING_CHARS_MAX + 1)})


def test_a_message_has_as_many_attributes_as_the_limit_and_not_more() -> None:
    Message({f"a{number}": number for number in range(ATTRIBUTES_MAX)})
    with pytest.raises(LimitError, match="number of attributes is 257, over the limit of 256"):
        Message({f"a{number}": number for number in range(ATTRIBUTES_MAX + 1)})


@pytest.mark.parametrize("attributes", [None, [("a", 1)], "a", {"a"}])
def test_attributes_that_are_not_a_mapping_are_refused(attributes: Any) -> None:
    with pytest.raises(InvalidMessageError, match="attributes must be a mapping"):
        Message(attributes)


@pytest.mark.parametrize("payload", [b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(b"a_b_c")[::2]])
def test_any_kind_of_bytes_becomes_the_payload(payload: Any) -> None:
    kept = Message({}, payload).payload
    assert type(kept) is bytes
    assert kept == b"abc"


def test_bytes_are_kept_without_a_copy() -> None:
    payload = b"x" * 1000
    assert Message({}, payload).payload is payload


def test_a_payload_that_is_not_bytes_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match=r"not str; encode text first, for example with \.encode\(\)"):
        Message({}, "text")  # type: ignore[arg-type]
    with pytest.raises(InvalidMessageError, match="payload must be bytes, bytearray or memoryview, not int"):
        Message({}, 5)  # type: ignore[arg-type]


def test_a_payload_may_be_as_large_as_the_limit_and_not_larger() -> None:
    largest = bytes(PAYLOAD_BYTES_MAX)
    assert Message({}, largest).payload is largest
    for payload in (bytes(PAYLOAD_BYTES_MAX + 1), memoryview(bytes(PAYLOAD_BYTES_MAX + 8)).cast("q")):
        with pytest.raises(LimitError, match=r"payload's size in bytes is 8,388,6.., over the limit of 8,388,608"):
            Message({}, payload)


@pytest.mark.parametrize(
    ("content_type", "words"),
    [
        ("text/plän", "not ASCII"),
        (None, "content type must be a str, not NoneType"),
        ("text/plain\nreceipt:1", r"content type has the control character '\\n' at character 11"),
        ("\ud800", "content type has a lone surrogate"),
    ],
)
def test_a_bad_content_type_is_refused(content_type: Any, words: str) -> None:
    with pytest.raises(InvalidMessageError, match=words):
        Message({}, b"", content_type)


def test_a_content_type_may_be_as_long_as_the_limit_and_not_longer() -> None:
    Message({}, content_type="t" * CONTENT_TYPE_CHARS_MAX)
    with pytest.raises(LimitError, match="content type, in characters, is 256"):
        Message({}, content_type="t" * (CONTENT_TYPE_CHARS_MAX + 1))


def test_the_system_may_set_reserved_attributes_and_its_messages_survive_copying() -> None:
    message = Message.system({"$path": "b1/b2", "x": 1}, payload=b"p", content_type="text/plain")
    assert message.attributes["$path"] == "b1/b2"
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301


def test_the_system_keeps_to_all_other_rules() -> None:
    with pytest.raises(InvalidMessageError, match="of type list"):
        Message.system({"$path": []})  # type: ignore[dict-item]
    with pytest.raises(InvalidMessageError, match="control character"):
        Message.system({"$a\n": 1})


def test_replacing_a_part_checks_again() -> None:
    message = dataclasses.replace(Message({"a": 1}, b"old"), payload=b"new")
    assert message == Message({"a": 1}, b"new")
    with pytest.raises(InvalidMessageError, match="reserved"):
        dataclasses.replace(message, attributes={"$a": 1})


def test_the_representation_shows_the_size_of_a_payload_and_not_its_bytes() -> None:
    assert repr(Message({"a": 1})) == "Message({'a': 1})"
    assert repr(Message({"a": "x"}, bytes(2000), "text/plain")) == (
        "Message({'a': 'x'}, payload=<2,000 bytes>, content_type='text/plain')"
    )


def test_messages_with_other_lifetimes_are_other_messages() -> None:
    message = Message({"a": 1}, expires=30)
    assert message.expires == 30.0
    assert message == Message({"a": 1}, expires=30.0)
    assert message != Message({"a": 1})
    assert len({message, Message({"a": 1}, expires=30.0), Message({"a": 1})}) == 2
    assert repr(message) == "Message({'a': 1}, expires=30.0)"
    assert copy.deepcopy(message) == message
    with pytest.raises(InvalidMessageError, match="expires"):
        Message({"a": 1}, expires=-1.0)
