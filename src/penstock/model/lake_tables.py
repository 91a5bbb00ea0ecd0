"""The tables of the lake, declared once for brokers that write them and jobs that read them (DESIGN, Layout: pipeline).

Names and kinds only: who writes or reads makes the types of its own library from them (``penstock.pipeline.lake``). A
table is a folder of Parquet files, in folders by its partition columns as Hive has them: ``date=2026-11-15/pubend=q``.
The version of a table's columns is in every file (``file_metadata``); it grows with every change of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.model.errors import MisuseError

__all__ = [
    "PUBLICATIONS",
    "TABLES",
    "TABLE_KEY",
    "VERSION_KEY",
    "Column",
    "Kind",
    "LakeTable",
    "escaped_value",
    "find_table",
    "partition_path",
    "unescaped_value",
]

Kind: TypeAlias = Literal["text", "bytes", "integer", "number", "truth", "time", "date", "texts"]
"""What a column holds: an integer has 64 bits with sign, a time microseconds in UTC, texts are names with values."""

TABLE_KEY: Final = "penstock.table"
VERSION_KEY: Final = "penstock.schema_version"

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | frozenset(map(chr, range(32)))
"""What Hive and Spark escape in the name of a folder, and the brace that closes, which is special in patterns."""


@dataclass(slots=True, frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind
    help: str
    """What it holds, in a few words."""


@dataclass(slots=True, frozen=True)
class LakeTable:
    """One table of the lake."""

    name: str
    """Also the name of its folder."""
    version: int
    """Of its columns, from 1."""
    columns: tuple[Column, ...]
    """In the files, in this order."""
    partitions: tuple[Column, ...]
    """In the names of folders, outermost first, and not in the files."""

    def file_metadata(self) -> dict[str, str]:
        """What every file of the table says about itself."""
        return {TABLE_KEY: self.name, VERSION_KEY: str(self.version)}


PUBLICATIONS: Final = LakeTable(
    "publications",
    1,
    columns=(
        Column("message_id", "text", "the message's identifier in text form, 26 characters"),
        Column("tick", "integer", "its position in the pubend's stream: milliseconds · 65,536 + counter"),
        Column("published_at", "time", "when it was published, by the publisher's adjusted clock"),
        Column("attributes", "texts", "its attributes as text"),
        Column("payload", "bytes", "its content"),
    ),
    partitions=(
        Column("date", "date", "the day of the tick, in UTC"),
        Column("pubend", "text", "the stream it was published to"),
    ),
)
"""Everything that was archived.

The date is the tick's and not the publisher's: a tick is in the log and never changes, so that whoever reads again
finds the same; and it only grows, so that each pubend is done with a day for good, while one publisher with a wrong
clock could otherwise open a folder for any day.
"""

TABLES: Final = (PUBLICATIONS,)


def find_table(name: str) -> LakeTable:
    """The table of that name, or an error that says which there are."""
    for table in TABLES:
        if table.name == name:
            return table
    raise MisuseError(f"no table {name!r} in the lake; known are {', '.join(table.name for table in TABLES)}")


def partition_path(table: LakeTable, values: Mapping[str, str]) -> str:
    """The folder of some partition values, below the table's.

    >>> partition_path(PUBLICATIONS, {"date": "2026-11-15", "pubend": "a/b"})
    'date=2026-11-15/pubend=a%2Fb'
    """
    return "/".join(f"{column.name}={escaped_value(values[column.name])}" for column in table.partitions)


def escaped_value(value: str) -> str:
    """A partition value as part of a folder's name, as Hive and Spark write it; never empty."""
    assert value, "a partition value must not be empty"
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)


def unescaped_value(text: str) -> str:
    """The partition value that a part of a folder's name stands for."""
    first, *others = text.split("%")
    return first + "".join(chr(int(each[:2], 16)) + each[2:] for each in others)
