"""Checks the files of a lake: whether they can be read, which version they have, and which to set aside.

A file names its table and version. Files of older versions are read, with defaults for missing columns; files of newer
versions are refused by name, since this version cannot know their contents. Unreadable files are skipped and reported;
readers must treat their contents as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import TABLE_KEY, TABLES, VERSION_KEY, LakeTable, find_table, unescaped_value
from penstock.pipeline.lake.errors import LakeMismatchError
from penstock.pipeline.lake.files import LocalFiles, files_at
from penstock.pipeline.lake.journal import snapshot
from penstock.pipeline.lake.schemas import arrow_schema

__all__ = ["ASIDE", "TableCare", "check_file", "check_lake", "check_table", "partition_of", "read_file", "set_aside"]

ASIDE: Final = "_aside"
"""The folder of a lake for unreadable files; readers skip it."""


@dataclass(slots=True)
class TableCare:
    """The state of one table's files."""

    table: str
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    versions: dict[int, int] = field(default_factory=dict)
    """Number of files by column version."""
    good: list[str] = field(default_factory=list)
    """Readable files, relative to the lake."""
    problems: dict[str, str] = field(default_factory=dict)
    """Unreadable files, with the reason."""


def check_lake(lake: str) -> list[TableCare]:
    """Check all tables of a lake that have files, reading every page."""
    return [care for table in TABLES if (care := check_table(lake, table.name, reads_pages=True)).files]


def check_table(lake: str, name: str, *, reads_pages: bool = False) -> TableCare:
    """Check a table's files, by their footers or down to every page.

    Raises ``LakeMismatchError`` for a file of a newer version.
    """
    files, table = files_at(lake), find_table(name)
    if not files.root.is_dir():
        raise MisuseError(f"there is no lake at {lake!r}: no such folder")
    care = TableCare(name)
    for path, size in snapshot(files, table).items():
        care.files, care.size_bytes = care.files + 1, care.size_bytes + size
        place = Path(files.location(path))
        rows, version, problem = check_file(place, table)
        if reads_pages and not problem:
            problem = _check_pages(place)
        if problem:
            care.problems[path] = problem
        else:
            care.rows += rows
            care.versions[version] = care.versions.get(version, 0) + 1
            care.good.append(path)
    return care


def check_file(path: Path, table: LakeTable) -> tuple[int, int, str]:
    """Rows and version of a file, and any problem with it; raises ``LakeMismatchError`` for a newer version."""
    try:
        with pq.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        return 0, 0, _first_line(error)
    told: Mapping[bytes, bytes] = schema.metadata or {}
    name = told.get(TABLE_KEY.encode(), table.name.encode()).decode(errors="replace")
    version = told.get(VERSION_KEY.encode(), b"1").decode(errors="replace")
    if name != table.name:
        return rows, 0, f"is of table {name!r}, not {table.name!r}"
    if not version.isdecimal():
        return rows, 0, f"has the version {version!r}, which is no number"
    if int(version) > table.version:
        raise LakeMismatchError(
            f"{path} has columns of version {version} of table {table.name!r}; this Penstock knows them up to version "
            f"{table.version}: use a newer one"
        )
    missing = [each.name for each in table.columns if each.since <= int(version) and each.name not in schema.names]
    return rows, int(version), f"has no column {missing[0]}" if missing else ""


def read_file(path: Path, table: LakeTable) -> tuple[Any, str]:
    """Read a file as an Arrow table with the current columns, or return None and the problem."""
    _, _, problem = check_file(path, table)
    if problem:
        return None, problem
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            read = file.read()
        columns = []
        for column, wanted in zip(table.columns, arrow_schema(table), strict=True):
            if column.name in read.schema.names:
                columns.append(read.column(column.name).cast(wanted.type))
            else:
                columns.append(pa.array([column.default] * read.num_rows, wanted.type))
        return pa.Table.from_arrays(columns, schema=arrow_schema(table)), ""
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        return None, _first_line(error)


def _check_pages(path: Path) -> str:
    """Find damage inside a file; reads one row group at a time, as files may be large."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                file.read_row_group(group)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        return _first_line(error)
    return ""


def set_aside(files: LocalFiles, problems: Mapping[str, str]) -> list[str]:
    """Move unreadable files out of every reader's way; returns their new paths."""
    moves = [(path, f"{ASIDE}/{path}") for path in sorted(problems)]
    files.move(moves)
    return [new for _, new in moves]


def partition_of(path: str, name: str) -> str | None:
    """The value of a partition column in a file's path.

    >>> partition_of("histories/date=2026-11-15/broker=b%201/x.parquet", "broker")
    'b 1'
    """
    for part in path.split("/")[:-1]:
        key, equals, value = part.partition("=")
        if equals and key == name:
            return unescaped_value(value)
    return None


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
