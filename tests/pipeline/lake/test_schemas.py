"""Types of pyarrow and Spark are made from one declaration, and agree."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.model.lake_tables import PUBLICATIONS, Column, Kind, LakeTable
from penstock.pipeline.lake.schemas import arrow_schema, spark_schema

KINDS: tuple[Kind, ...] = ("text", "bytes", "integer", "number", "truth", "time", "date", "texts", "integers")


def test_files_have_the_declared_columns_and_say_what_they_are() -> None:
    schema = arrow_schema(PUBLICATIONS)
    assert schema.names == ["message_id", "tick", "published_at", "attributes", "payload"]
    assert schema.field("published_at").type == pa.timestamp("us", tz="UTC")
    assert schema.metadata == {b"penstock.table": b"publications", b"penstock.schema_version": b"1"}


def test_frames_have_the_partitions_as_well() -> None:
    pytest.importorskip("pyspark")
    assert spark_schema(PUBLICATIONS).simpleString() == (
        "struct<message_id:string,tick:bigint,published_at:timestamp,attributes:map<string,string>,payload:binary,"
        "date:date,pubend:string>"
    )


def test_every_kind_means_the_same_to_both() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    table = LakeTable("all", 1, tuple(Column(kind, kind, "one of each") for kind in KINDS), ())
    for ours, theirs in zip(arrow_schema(table), spark_schema(table), strict=True):
        assert types.from_arrow_type(ours.type) == theirs.dataType
