from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from penstock.pipeline.source.columns import STANDARD, Columns, standard_ddl
from penstock.pipeline.source.errors import SourceOptionError
from pipeline.source.support import columns


def test_the_standard_columns_come_first_and_those_of_the_user_behind_them() -> None:
    assert standard_ddl() == (
        "message_id string, pubend string, tick bigint, published_at timestamp, "
        "attributes map<string,string>, payload binary"
    )
    assert standard_ddl("symbol string, `a b` int").endswith("payload binary, symbol string, `a b` int")


def test_declared_columns_are_those_that_are_not_standard() -> None:
    found = columns(symbol="string", tick="bigint", volume="bigint").attributes
    assert found == {"symbol": StringType(), "volume": LongType()}
    assert Columns(StructType()).attributes == {}


@pytest.mark.parametrize(
    "kind", ["string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)"]
)
def test_these_types_can_be_declared(kind: str) -> None:
    assert columns(x=kind).attributes["x"].simpleString() == kind


@pytest.mark.parametrize("kind", ["binary", "date", "timestamp", "timestamp_ntz", "void", "variant", "array<string>"])
def test_other_types_are_refused(kind: str) -> None:
    with pytest.raises(SourceOptionError, match=f"column 'x' cannot be {kind}: an attribute becomes one of string"):
        columns(x=kind)


def test_text_with_an_order_of_its_own_is_refused() -> None:
    with pytest.raises(SourceOptionError, match="column 'x' cannot be string collate"):
        Columns(StructType().add("x", StringType("UTF8_LCASE")))


@pytest.mark.parametrize("name", sorted(STANDARD))
def test_a_standard_column_has_its_type_and_no_other(name: str) -> None:
    Columns(StructType().add(name, STANDARD[name], nullable=False))
    with pytest.raises(SourceOptionError, match=f"column '{name}' is .* in every message and cannot be double"):
        columns(**{name: "double"})


def test_columns_that_cannot_be_filled_are_refused() -> None:
    with pytest.raises(SourceOptionError, match="column 'x' is declared twice"):
        Columns(StructType().add("x", "integer").add("x", "string"))
    with pytest.raises(SourceOptionError, match="NOT NULL, but a message need not have"):
        Columns(StructType().add("x", "integer", nullable=False))
    with pytest.raises(SourceOptionError, match="has 256 characters"):
        columns(**{"x" * 256: "int"})
    with pytest.raises(SourceOptionError, match="has 0 characters"):
        columns(**{"": "int"})
