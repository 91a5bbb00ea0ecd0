"""The types of attributes: what the aliases promise to the rooms above."""

from __future__ import annotations

from typing import get_args

from penstock.model import Message
from penstock.model.values import RESERVED_PREFIX, Attributes, AttributeValue, Scalar


def test_a_scalar_is_text_integer_float_or_boolean() -> None:
    assert get_args(Scalar) == (str, int, float, bool)


def test_an_attribute_is_a_scalar_or_null() -> None:
    assert set(get_args(AttributeValue)) == {*get_args(Scalar), type(None)}


def test_a_message_takes_a_value_of_every_type_that_an_attribute_can_have() -> None:
    attributes: Attributes = {"text": "a", "integer": 1, "float": 1.5, "boolean": True, "null": None}
    assert {type(value) for value in Message(attributes).attributes.values()} == set(get_args(AttributeValue))


def test_the_reserved_prefix_is_one_character_as_the_check_of_names_expects() -> None:
    assert len(RESERVED_PREFIX) == 1
