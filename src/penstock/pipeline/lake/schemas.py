"""Builds Spark types from the declared tables of the lake; the pyarrow types are built where brokers ship."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.live.shipping.arrow import arrow_schema
from penstock.model.lake_tables import Column, Kind, LakeTable

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["arrow_schema", "spark_schema"]


def spark_schema(table: LakeTable) -> StructType:
    """The schema of a table's frame: the columns of its files, then the partition columns of its folders."""
    from pyspark.sql.types import StructField, StructType

    def field(column: Column) -> StructField:
        return StructField(column.name, _spark_type(column.kind))

    return StructType([field(column) for column in (*table.columns, *table.partitions)])


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
        "integers": types.MapType(types.StringType(), types.LongType()),
    }
    return made[kind]
