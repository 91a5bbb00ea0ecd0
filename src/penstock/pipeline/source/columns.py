"""The columns of the source: six that every message has, and those that a user declares for attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.model.limits import NAME_CHARS_MAX
from penstock.pipeline.source.errors import SourceOptionError

__all__ = ["STANDARD", "Columns", "standard_ddl"]

STANDARD: Final[dict[str, DataType]] = {
    "message_id": StringType(),
    "pubend": StringType(),
    "tick": LongType(),
    "published_at": TimestampType(),
    "attributes": MapType(StringType(), StringType()),
    "payload": BinaryType(),
}
"""Columns of every message; these names are reserved, and attributes so named appear only in ``attributes``."""

_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
_SUPPORTED: Final = "string, boolean, byte, short, int, long, float, double, decimal"


def standard_ddl(columns: str = "") -> str:
    """The schema as Spark DDL: the standard columns, followed by the user's."""
    listed = [f"{name} {kind.simpleString()}" for name, kind in STANDARD.items()]
    return ", ".join([*listed, columns] if columns else listed)


@dataclass(slots=True, frozen=True)
class Columns:
    """The columns that a query gets, in its order."""

    schema: StructType

    def __post_init__(self) -> None:
        """Check that every column can be filled; raises ``SourceOptionError`` if not."""
        seen: set[str] = set()
        for field in self.schema.fields:
            if field.name in seen:
                raise SourceOptionError(f"column {field.name!r} is declared twice")
            seen.add(field.name)
            if field.name in STANDARD:
                _check_standard(field.name, field.dataType)
            else:
                _check_attribute(field.name, field.dataType, nullable=field.nullable)

    @property
    def attributes(self) -> dict[str, DataType]:
        """The columns that are filled from attributes, with their types."""
        return {field.name: field.dataType for field in self.schema.fields if field.name not in STANDARD}


def _check_standard(name: str, kind: DataType) -> None:
    wanted = STANDARD[name]
    if kind.simpleString() != wanted.simpleString():
        raise SourceOptionError(
            f"column {name!r} is {wanted.simpleString()} in every message and cannot be {kind.simpleString()}"
        )


def _check_attribute(name: str, kind: DataType, *, nullable: bool) -> None:
    if not name or len(name) > NAME_CHARS_MAX:
        raise SourceOptionError(
            f"column {name[:40]!r} has {len(name)} characters; an attribute has 1 to {NAME_CHARS_MAX}"
        )
    # A string with its own collation compares differently from its bytes, and is another Arrow type.
    is_text = isinstance(kind, StringType) and kind == StringType()
    if not (is_text or isinstance(kind, (*_WHOLE, BooleanType, FloatType, DoubleType, DecimalType))):
        raise SourceOptionError(
            f"column {name!r} cannot be {kind.simpleString()}: an attribute becomes one of {_SUPPORTED}"
        )
    if not nullable:
        raise SourceOptionError(f"column {name!r} is declared NOT NULL, but a message need not have that attribute")
