"""Makes the types of pyarrow and of Spark from the declared tables of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.model.lake_tables import Column, Kind, LakeTable

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["arrow_schema", "spark_schema"]


def arrow_schema(table: LakeTable) -> Any:
    """What is in the files of a table, with what they say about themselves."""
    fields = [pa.field(column.name, _arrow_type(column.kind)) for column in table.columns]
    return pa.schema(fields, metadata=table.file_metadata())


def spark_schema(table: LakeTable) -> StructType:
    """What a frame of a table has: the columns of its files, then those of its folders."""
    from pyspark.sql.types import StructField, StructType

    def field(column: Column) -> StructField:
        return StructField(column.name, _spark_type(column.kind))

    return StructType([field(column) for column in (*table.columns, *table.partitions)])


def _arrow_type(kind: Kind) -> Any:
    types = {
        "text": pa.string(),
        "bytes": pa.binary(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "truth": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "texts": pa.map_(pa.string(), pa.string()),
    }
    return types[kind]


def _spark_type(kind: Kind) -> DataType:
    from pyspark.sql import types

    made: dict[Kind, DataType] = {
        "text": types.StringType(),
        "bytes": types.BinaryType(),
        "integer": types.LongType(),
        "number": types.DoubleType(),
        "truth": types.BooleanType(),
        "time": types.TimestampType(),
        "date": types.DateType(),
        "texts": types.MapType(types.StringType(), types.StringType()),
    }
    return made[kind]
