from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.source.maps import attribute_maps, text_of

numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.sampled_from([0.0, -0.0, 1, 1.0, True, False]))
messages = st.dictionaries(st.text(max_size=3), st.one_of(numbers, st.none(), st.text(max_size=5)), max_size=4)


@given(st.lists(messages, max_size=8))
def test_maps_have_the_text_of_every_value_in_order(found: list[dict[str, object]]) -> None:
    column = attribute_maps([msgspec.msgpack.encode(each) for each in found])
    column.validate(full=True)
    assert column.to_pylist() == [[(name, plain(value)) for name, value in each.items()] for each in found]


def plain(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else repr(value)


def test_numbers_that_are_equal_keep_their_own_texts() -> None:
    assert [text_of(each) for each in (1, 1.0, True, 0.0, -0.0, 0, False)] == [
        "1",
        "1.0",
        "true",
        "0.0",
        "-0.0",
        "0",
        "false",
    ]
    assert text_of(math.nan) == "nan"
    assert text_of(18.2) is text_of(18.2)


def test_the_types_are_those_that_spark_expects() -> None:
    assert str(attribute_maps([]).type) == "map<string, string ('value')>" or str(attribute_maps([]).type).startswith(
        "map<string, string"
    )
    assert not attribute_maps([]).type.key_field.nullable
    assert attribute_maps([]).type.item_field.nullable
