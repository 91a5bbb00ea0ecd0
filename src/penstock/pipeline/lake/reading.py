"""Reads a table of the lake as a Spark frame: the files that count at the moment of the call, and their partitions.

The frame is of these files even if it is used much later. Files that were merged in the meantime may have gone: then
the job fails and says so, and whoever calls again gets the merged ones. Archives that are read by long jobs keep
merged files for a while (``CompactionPolicy.keep_ms``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import find_table
from penstock.pipeline.lake.files import files_at
from penstock.pipeline.lake.journal import snapshot
from penstock.pipeline.lake.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_table", "table_files"]


def read_table(spark: SparkSession, lake: str, name: str) -> DataFrame:
    """A table as it is now: every row of it once, whatever is being written or merged meanwhile."""
    table = find_table(name)
    paths = table_files(lake, name)
    schema = spark_schema(table)
    if not paths:
        return spark.createDataFrame([], schema)
    # Names may have brackets in them, which Spark would take for patterns.
    reader = spark.read.schema(schema).option("__globPaths__", "false")
    return reader.option("basePath", files_at(lake).location(name)).parquet(*paths)


def table_files(lake: str, name: str) -> list[str]:
    """Where the files of a table are that count now; none if it has not been written yet."""
    files, table = files_at(lake), find_table(name)
    if not files.root.is_dir():
        raise MisuseError(f"there is no lake at {lake!r}: no such folder")
    return [files.location(path) for path in snapshot(files, table)]
