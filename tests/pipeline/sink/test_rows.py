from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as sql

from penstock.model.message import Message
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.rows import RowReader
from penstock.pipeline.sink.staging import Row

MAP = sql.MapType(sql.StringType(), sql.StringType())


def schema(**types: sql.DataType) -> sql.StructType:
    made = sql.StructType()
    for name, kind in types.items():
        made.add(name, kind)
    return made


def read(made: sql.StructType, rows: list[dict[str, Any]], content_type: str = "") -> list[Message]:
    arrow = {"map<string,string>": pa.map_(pa.string(), pa.string())}
    columns = {
        field.name: pa.array([row[field.name] for row in rows], arrow.get(field.dataType.simpleString()))
        for field in made.fields
    }
    return [row.message for row in RowReader(made, content_type).rows(pa.RecordBatch.from_pydict(columns))]


def test_columns_become_attributes_of_their_types_and_nulls_are_left_out() -> None:
    made = schema(symbol=sql.StringType(), volume=sql.LongType(), price=sql.DoubleType(), is_open=sql.BooleanType())
    rows: list[dict[str, Any]] = [
        {"symbol": "YHOO", "volume": 7, "price": 1.5, "is_open": True},
        {"symbol": None, "volume": None, "price": 2.0, "is_open": False},
    ]
    found = read(made, rows)
    assert found == [Message(rows[0]), Message({"price": 2.0, "is_open": False})]
    assert [type(each) for each in found[0].attributes.values()] == [str, int, float, bool]


def test_the_payload_is_bytes_or_text_and_may_be_absent() -> None:
    assert read(schema(payload=sql.BinaryType()), [{"payload": b"\xff"}, {"payload": None}]) == [
        Message({}, b"\xff"),
        Message({}),
    ]
    assert read(schema(payload=sql.StringType()), [{"payload": "ä"}], "text/plain") == [
        Message({}, "ä".encode(), "text/plain")
    ]


def test_a_map_has_further_attributes_and_columns_count_more() -> None:
    made = schema(attributes=MAP, a=sql.LongType())
    rows: list[dict[str, Any]] = [
        {"attributes": {"a": "1", "b": "2", "c": None}, "a": 3},
        {"attributes": None, "a": None},
    ]
    assert read(made, rows) == [Message({"a": 3, "b": "2"}), Message({})]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (schema(), "no columns"),
        (schema(tick=sql.LongType()), "'tick' is made by publishing"),
        (schema(payload=sql.LongType()), "'payload' is binary or string"),
        (schema(attributes=sql.StringType()), "'attributes' is map<string,string>"),
        (schema(at=sql.TimestampType()), "'at' cannot be timestamp"),
        (schema(price=sql.DecimalType(5, 2)), r"'price' cannot be decimal\(5,2\)"),
        (schema(**{"$class": sql.StringType()}), "reserved"),
        (sql.StructType([sql.StructField("a", sql.LongType())] * 2), "'a' is there twice"),
    ],
)
def test_columns_that_cannot_be_published_are_named(made: sql.StructType, says: str) -> None:
    with pytest.raises(SinkOptionError, match=says):
        RowReader(made)


def test_a_row_that_is_no_message_is_shown() -> None:
    with pytest.raises(SinkError, match=r"a row cannot be published: .*65,?536.*symbol='YHOO'"):
        read(schema(symbol=sql.StringType(), long=sql.StringType()), [{"symbol": "YHOO", "long": "x" * 70_000}])


def test_a_content_type_that_cannot_be_is_refused_before_any_row() -> None:
    with pytest.raises(SinkOptionError, match="content type"):
        RowReader(schema(a=sql.LongType()), "täxt")


TARGETS = schema(target=sql.StringType(), number=sql.LongType())


def targets(pubend: str, *names: str | None) -> list[Row]:
    reader = RowReader(TARGETS, pubend=pubend, pubend_column="target")
    numbers = list(range(len(names)))
    return list(reader.rows(pa.RecordBatch.from_pydict({"target": pa.array(names, pa.string()), "number": numbers})))


def test_a_column_names_the_pubend_of_each_row_and_is_no_attribute() -> None:
    assert targets("q", "a", None, "b") == [
        Row("a", Message({"number": 0})),
        Row("q", Message({"number": 1})),
        Row("b", Message({"number": 2})),
    ]


def test_without_such_a_column_all_rows_go_to_one_pubend() -> None:
    reader = RowReader(TARGETS, pubend="q")
    batch = pa.RecordBatch.from_pydict({"target": ["a"], "number": [1]})
    assert list(reader.rows(batch)) == [Row("q", Message({"target": "a", "number": 1}))]


@pytest.mark.parametrize(
    ("pubend", "name", "says"),
    [("", None, r"'target' is null, and there is no option pubend \(.*number='0'"), ("q", "", "'target' is empty")],
)
def test_a_row_that_names_no_pubend_is_shown(pubend: str, name: str | None, says: str) -> None:
    with pytest.raises(SinkError, match=f"a row names no pubend: column {says}"):
        targets(pubend, name)


def test_the_column_may_be_the_one_of_the_source() -> None:
    RowReader(schema(pubend=sql.StringType(), a=sql.LongType()), pubend_column="pubend")
    with pytest.raises(SinkOptionError, match="'pubend' is made by publishing"):
        RowReader(schema(pubend=sql.StringType(), a=sql.LongType(), b=sql.StringType()), pubend_column="b")


@pytest.mark.parametrize(
    ("made", "column", "says"),
    [
        (schema(a=sql.LongType(), b=sql.StringType()), "c", "no column 'c'; there are: a, b"),
        (schema(a=sql.LongType(), b=sql.StringType()), "a", "'a' names pubends, and cannot be bigint"),
        (schema(payload=sql.StringType(), b=sql.StringType()), "payload", "'payload', which has another meaning"),
        (schema(a=sql.StringType()), "a", "no columns to publish"),
    ],
)
def test_a_column_that_cannot_name_pubends_is_refused(made: sql.StructType, column: str, says: str) -> None:
    with pytest.raises(SinkOptionError, match=says):
        RowReader(made, pubend_column=column)
