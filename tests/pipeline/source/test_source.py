from __future__ import annotations

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from penstock.pipeline.source import PenstockSource
from penstock.pipeline.source.batch import PushingReader
from penstock.pipeline.source.errors import SourceOptionError
from penstock.pipeline.source.stream import PenstockStreamReader

BROKER = {"broker": "penstock://127.0.0.1:7000"}
SCHEMA = StructType().add("symbol", "string").add("tick", "long")


def test_spark_knows_it_by_its_name() -> None:
    assert PenstockSource.name() == "penstock"


def test_the_schema_is_the_standard_one_and_the_option() -> None:
    assert PenstockSource(BROKER).schema().endswith("payload binary")
    assert PenstockSource({**BROKER, "columns": "symbol string"}).schema().endswith("payload binary, symbol string")


def test_readers_are_made_for_both_ways_to_read() -> None:
    assert isinstance(PenstockSource(BROKER).streamReader(SCHEMA), PenstockStreamReader)
    assert isinstance(PenstockSource(BROKER).reader(SCHEMA), PushingReader)


def test_without_pushdown_spark_is_not_asked_to_allow_it() -> None:
    reader = PenstockSource({**BROKER, "pushdown": "false"}).reader(SCHEMA)
    assert type(reader).pushFilters is DataSourceReader.pushFilters


@pytest.mark.parametrize("method", ["reader", "streamReader"])
def test_what_is_wrong_is_said_when_the_query_is_planned(method: str) -> None:
    with pytest.raises(SourceOptionError, match="option broker is missing"):
        getattr(PenstockSource({}), method)(SCHEMA)
    with pytest.raises(SourceOptionError, match="selector 'x >'"):
        getattr(PenstockSource({**BROKER, "selector": "x >"}), method)(SCHEMA)
    with pytest.raises(SourceOptionError, match="cannot be date"):
        getattr(PenstockSource(BROKER), method)(StructType().add("d", "date"))
    with pytest.raises(SourceOptionError, match="columns or a schema, not both"):
        getattr(PenstockSource({**BROKER, "columns": "a int"}), method)(StructType().add("tick", "long"))
    with pytest.raises(SourceOptionError, match="no option 'brokr'"):
        PenstockSource({"brokr": "x"}).schema()
