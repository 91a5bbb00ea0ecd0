from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DataType

from penstock.pipeline.source.fitting import UNFIT, kind_of
from penstock.pipeline.source.typed import MismatchedValueError, TypedColumns
from pipeline.source.support import DATA_TYPES

TYPES: dict[str, DataType] = {
    name: DATA_TYPES[name]
    for name in ("string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(6,2)")
}
values = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.floats(),
    st.floats(-100, 100).map(lambda each: round(each, 1)),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-200, 200),
)


def encoded(*rows: dict[str, Any]) -> list[bytes]:
    return [msgspec.msgpack.encode(row) for row in rows]


@given(st.lists(st.dictionaries(st.sampled_from([*TYPES, "other"]), values), max_size=8))
def test_columns_have_what_fits_and_null_for_the_rest(rows: list[dict[str, Any]]) -> None:
    found = TypedColumns(TYPES, "null").arrays(encoded(*rows))
    for name, data_type in TYPES.items():
        kind = kind_of(data_type)
        fitted = [None if row.get(name) is None else kind.fit(row[name]) for row in rows]
        assert found[name].type == kind.arrow
        assert found[name].to_pylist() == [None if each is UNFIT else each for each in fitted]


@given(row=st.dictionaries(st.sampled_from([*TYPES]), values))
def test_failing_is_failing_for_exactly_what_does_not_fit(row: dict[str, Any]) -> None:
    wrong = {name for name, value in row.items() if value is not None and kind_of(TYPES[name]).fit(value) is UNFIT}
    columns = TypedColumns(TYPES, "fail")
    if not wrong:
        columns.arrays(encoded({}, row))
        return
    with pytest.raises(MismatchedValueError) as caught:
        columns.arrays(encoded({}, row))
    assert caught.value.row == 1
    assert caught.value.column in wrong
    assert repr(caught.value.value) == repr(row[caught.value.column])


def test_names_are_taken_literally_and_absence_is_null() -> None:
    types = {"a b": TYPES["bigint"], 'q"': TYPES["string"], "class": TYPES["string"], "c0": TYPES["bigint"]}
    found = TypedColumns(types, "fail").arrays(encoded({"a b": 1, 'q"': "x", "class": "S"}, {"c0": 4, "A B": 5}))
    assert {name: array.to_pylist() for name, array in found.items()} == {
        "a b": [1, None],
        'q"': ["x", None],
        "class": ["S", None],
        "c0": [None, 4],
    }


def test_nan_among_numbers_is_noticed_although_arrow_would_take_it() -> None:
    rows = encoded({"double": 1.5}, {"double": math.nan}, {}, {"double": -math.inf})
    found = TypedColumns({"double": TYPES["double"]}, "null").arrays(rows)
    assert found["double"].to_pylist() == [1.5, None, None, -math.inf]
    with pytest.raises(MismatchedValueError):
        TypedColumns({"double": TYPES["double"]}, "fail").arrays(rows)


def test_no_columns_need_no_decoding() -> None:
    assert TypedColumns({}, "null").arrays([b"not msgpack"]) == {}


def test_what_is_no_map_is_not_hidden() -> None:
    with pytest.raises(msgspec.DecodeError):
        TypedColumns({"x": TYPES["bigint"]}, "null").arrays([b"\xc1"])
