"""The lake: tables of Parquet files that brokers and jobs write, with a journal that keeps readers consistent."""

from __future__ import annotations

from penstock.pipeline.lake.care import TableCare, check_lake, check_table, set_aside
from penstock.pipeline.lake.compaction import CompactionPolicy, Compactor
from penstock.pipeline.lake.errors import LakeBusyError, LakeError, LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles, files_at
from penstock.pipeline.lake.journal import snapshot
from penstock.pipeline.lake.reading import LakeReader, check_whole, read_table, table_files
from penstock.pipeline.lake.schemas import arrow_schema, spark_schema
from penstock.pipeline.lake.store import StagedFile, TableStore

__all__ = [
    "CompactionPolicy",
    "Compactor",
    "LakeBusyError",
    "LakeError",
    "LakeMismatchError",
    "LakeReader",
    "LocalFiles",
    "StagedFile",
    "TableCare",
    "TableStore",
    "arrow_schema",
    "check_lake",
    "check_table",
    "check_whole",
    "files_at",
    "read_table",
    "set_aside",
    "snapshot",
    "spark_schema",
    "table_files",
]
