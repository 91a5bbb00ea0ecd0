"""Reads a table of the lake as a Spark frame: the files that count at the moment of the call, and their partitions.

The frame is of these files even if it is used much later. Files that were merged in the meantime may have gone: then
the job fails and says so, and whoever calls again gets the merged ones. Archives that are read by long jobs keep
merged files for a while (``CompactionPolicy.keep_ms``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import LakeTable, find_table
from penstock.pipeline.lake.care import check_table
from penstock.pipeline.lake.files import files_at
from penstock.pipeline.lake.journal import snapshot
from penstock.pipeline.lake.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_files", "read_table", "table_files", "with_defaults"]


def read_table(spark: SparkSession, lake: str, name: str, *, aside: dict[str, str] | None = None) -> DataFrame:
    """A table as it is now: every row of it once, whatever is being written or merged meanwhile.

    With ``aside`` every file is looked at before: those that cannot be read are left out, and named there.
    """
    paths = table_files(lake, name) if aside is None else _readable(lake, name, aside)
    return read_files(spark, lake, name, paths)


def read_files(spark: SparkSession, lake: str, name: str, paths: Sequence[str]) -> DataFrame:
    """Some files of a table, by where they are."""
    table = find_table(name)
    schema = spark_schema(table)
    if not paths:
        return spark.createDataFrame([], schema)
    # Names may have brackets in them, which Spark would take for patterns.
    reader = spark.read.schema(schema).option("__globPaths__", "false")
    return with_defaults(reader.option("basePath", files_at(lake).location(name)).parquet(*paths), table)


def with_defaults(frame: DataFrame, table: LakeTable) -> DataFrame:
    """A table some of whose files are of versions that did not have all columns."""
    from pyspark.sql import functions

    later = {
        column.name: functions.coalesce(functions.col(column.name), functions.lit(column.default))
        for column in table.columns
        if column.since > 1 and column.default is not None
    }
    return frame.withColumns(later) if later else frame


def table_files(lake: str, name: str) -> list[str]:
    """Where the files of a table are that count now; none if it has not been written yet."""
    files, table = files_at(lake), find_table(name)
    if not files.root.is_dir():
        raise MisuseError(f"there is no lake at {lake!r}: no such folder")
    return [files.location(path) for path in snapshot(files, table)]


def _readable(lake: str, name: str, aside: dict[str, str]) -> list[str]:
    care = check_table(lake, name)
    aside |= care.problems
    return [files_at(lake).location(path) for path in care.good]
