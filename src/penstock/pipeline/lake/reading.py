"""Reads tables of the lake as Spark frames: the files visible at the moment of the call, and their partitions.

The frame covers these files even if it is used much later. Files merged in the meantime may be gone: then the job fails
and says so, and a second call gets the merged ones. Archives that long jobs read keep merged files for a while
(``CompactionPolicy.keep_ms``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import VERSION_KEY, LakeTable, find_table
from penstock.pipeline.lake.care import TableCare, check_table, partition_of, read_file
from penstock.pipeline.lake.errors import LakeError, LakeMismatchError
from penstock.pipeline.lake.files import files_at
from penstock.pipeline.lake.journal import snapshot
from penstock.pipeline.lake.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LakeReader", "check_whole", "read_table", "table_files", "with_defaults"]

_SMALL_BYTES: Final = 64 * 1024 * 1024
"""Tables up to this size are read on the driver and not by jobs."""
_MADE_BY: Final = {"publications": "penstock pipeline archive"}


def read_table(spark: SparkSession, lake: str, name: str) -> DataFrame:
    """Read a table as it is now: each row exactly once, whatever is being written or merged meanwhile."""
    return _read_files(spark, lake, name, table_files(lake, name))


class LakeReader:
    """The tables of a lake for one job; each table's files are checked once.

    A job that can tolerate missing files uses ``table``: unreadable files are skipped and reported. One that cannot
    uses ``whole_table``.
    """

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self.spark, self.lake = spark, lake
        self.unreadable: dict[str, str] = {}
        """Files that were skipped, with the reason."""
        self._cares: dict[str, TableCare] = {}
        self._frames: dict[str, DataFrame] = {}

    def table(self, name: str) -> DataFrame:
        """A table, as of its first use."""
        if name not in self._frames:
            root = files_at(self.lake)
            paths = [root.location(path) for path in self._care(name).good]
            self._frames[name] = _read_files(self.spark, self.lake, name, paths)
        return self._frames[name]

    def whole_table(self, name: str) -> DataFrame:
        """A table that has rows and whose files are all readable; raises what ``check_whole`` does."""
        check_whole(self.lake, name)
        return read_table(self.spark, self.lake, name)

    def is_empty(self, name: str) -> bool:
        """Whether a table has no readable files."""
        return not self._care(name).good

    def rows(self, name: str) -> list[dict[str, Any]] | None:
        """All rows of a table small enough to read on the driver, which is quicker than a job; None if larger."""
        care = self._care(name)
        if care.size_bytes > _SMALL_BYTES:
            return None
        found: list[dict[str, Any]] = []
        for path in care.good:
            table, problem = read_file(Path(files_at(self.lake).location(path)), find_table(name))
            if table is None:
                self.unreadable[path] = problem
            else:
                broker = partition_of(path, "broker")
                found += [{**row, "broker": broker} for row in table.to_pylist()]
        return found

    def _care(self, name: str) -> TableCare:
        if name not in self._cares:
            self._cares[name] = check_table(self.lake, name)
            self.unreadable |= self._cares[name].problems
        return self._cares[name]


def check_whole(lake: str, name: str) -> int:
    """Check that a table has rows, and every file is readable and of the current version; returns the file count."""
    table, paths = find_table(name), table_files(lake, name)
    if not paths:
        by = _MADE_BY.get(name, "brokers with a [ship] section, or penstock ship --now")
        raise MisuseError(f"the lake {lake} has no rows in its table {name} yet: it is written by {by}")
    for path in paths:
        try:
            metadata = pq.read_metadata(path).metadata or {}
        except FileNotFoundError:
            # Merged in the meantime; a reader sees the merged file.
            continue
        except (pa.ArrowInvalid, OSError) as error:
            raise LakeError(
                f"cannot read {path}: {str(error).splitlines()[0]}; move it away to go on without"
            ) from None
        version = metadata.get(VERSION_KEY.encode(), b"1").decode(errors="replace")
        if version != str(table.version):
            raise LakeMismatchError(
                f"{path} has columns of version {version}; this Penstock reads version {table.version} of {name}"
            )
    return len(paths)


def table_files(lake: str, name: str) -> list[str]:
    """Locations of a table's visible files; empty if it has not been written yet."""
    files, table = files_at(lake), find_table(name)
    if not files.root.is_dir():
        raise MisuseError(f"there is no lake at {lake!r}: no such folder")
    return [files.location(path) for path in snapshot(files, table)]


def with_defaults(frame: DataFrame, table: LakeTable) -> DataFrame:
    """Fill in defaults for columns that older files lack."""
    from pyspark.sql import functions

    later = {
        column.name: functions.coalesce(functions.col(column.name), functions.lit(column.default))
        for column in table.columns
        if column.since > 1 and column.default is not None
    }
    return frame.withColumns(later) if later else frame


def _read_files(spark: SparkSession, lake: str, name: str, paths: Sequence[str]) -> DataFrame:
    """Read some files of a table, by location."""
    table = find_table(name)
    schema = spark_schema(table)
    if not paths:
        return spark.createDataFrame([], schema)
    # Names may contain brackets, which Spark would treat as patterns.
    reader = spark.read.schema(schema).option("__globPaths__", "false")
    return with_defaults(reader.option("basePath", files_at(lake).location(name)).parquet(*paths), table)
