"""Turns rows into messages: column ``payload``, map ``attributes``, and every other column as an attribute of its name.

The column with the pubend of each row, if there is one, is no attribute.

The task that reads a row reports problems with it before anything is committed: if a broker refused it later, it would
only block everything behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from penstock.model.errors import MisuseError
from penstock.model.message import Message
from penstock.model.values import AttributeValue
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.staging import Row

__all__ = ["RowReader"]

_PAYLOAD: Final = "payload"
_ATTRIBUTES: Final = "attributes"
_MADE: Final = frozenset({"message_id", "pubend", "tick", "published_at"})
"""Columns of the source that a publisher cannot set; the pubend only as the column that chooses it."""
_SCALARS: Final = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
_SUPPORTED: Final = "string, boolean, byte, short, int, long, float, double"


class RowReader:
    """Makes messages from the rows of a frame; raises ``SinkOptionError`` for unsupported columns."""

    def __init__(
        self, schema: StructType, content_type: str = "", *, pubend: str = "", pubend_column: str = ""
    ) -> None:
        """``pubend`` is where rows go without a column for it, or if it is null."""
        self._content_type = content_type
        self._pubend, self._pubend_column = pubend, pubend_column
        self._names = list(schema.names)
        if len(set(self._names)) < len(self._names):
            repeated = sorted({name for name in self._names if self._names.count(name) > 1})
            raise SinkOptionError(f"column {repeated[0]!r} is there twice")
        if pubend_column:
            _check_pubends(schema, pubend_column)
        if not set(self._names) - {pubend_column}:
            raise SinkOptionError("there are no columns to publish")
        for field in schema.fields:
            if field.name != pubend_column:
                _check(field.name, field.dataType)
        special = (_PAYLOAD, _ATTRIBUTES, pubend_column)
        try:
            Message({name: None for name in self._names if name not in special}, b"", content_type)
        except MisuseError as error:
            raise SinkOptionError(str(error)) from None

    def rows(self, batch: Any) -> Iterator[Row]:
        """Yield the messages of a record batch, in order, each with its pubend."""
        columns = {name: batch.column(place).to_pylist() for place, name in enumerate(self._names)}
        payloads = columns.pop(_PAYLOAD, None)
        maps = columns.pop(_ATTRIBUTES, None)
        pubends = columns.pop(self._pubend_column, None)
        names = list(columns)
        for place, values in enumerate(zip(*columns.values(), strict=True) if columns else [()] * batch.num_rows):
            attributes: dict[str, AttributeValue] = {}
            for name, value in (maps[place] or ()) if maps is not None else ():
                if value is not None:
                    attributes[name] = value
            attributes.update((name, value) for name, value in zip(names, values, strict=True) if value is not None)
            pubend = self._pubend if pubends is None else self._pubend_of(pubends[place], attributes)
            yield Row(pubend, self._message(attributes, None if payloads is None else payloads[place]))

    def _pubend_of(self, named: str | None, attributes: dict[str, AttributeValue]) -> str:
        pubend = self._pubend if named is None else named
        if not pubend:
            problem = f"column {self._pubend_column!r} is " + ("null" if named is None else "empty")
            hint = ", and there is no option pubend" if named is None else ""
            raise SinkError(f"a row names no pubend: {problem}{hint} ({_shown(attributes)})")
        return pubend

    def _message(self, attributes: dict[str, AttributeValue], payload: str | bytes | None) -> Message:
        content = payload.encode() if isinstance(payload, str) else payload or b""
        try:
            return Message(attributes, content, self._content_type)
        except MisuseError as error:
            raise SinkError(f"a row cannot be published: {error} ({_shown(attributes)})") from None


def _shown(attributes: dict[str, AttributeValue]) -> str:
    """Enough of a row to find it."""
    shown = ", ".join(f"{name}={str(value)[:20]!r}" for name, value in list(attributes.items())[:5])
    return f"its attributes begin with {shown}"


def _check_pubends(schema: StructType, name: str) -> None:
    """Refuse a column that cannot name pubends."""
    if name in (_PAYLOAD, _ATTRIBUTES):
        raise SinkOptionError(f"option pubendColumn is {name!r}, which has another meaning: rename the column")
    kinds = {field.name: field.dataType for field in schema.fields}
    if name not in kinds:
        raise SinkOptionError(
            f"option pubendColumn: there is no column {name!r}; there are: {', '.join(kinds) or 'none'}"
        )
    if not isinstance(kinds[name], StringType):
        raise SinkOptionError(f"column {name!r} names pubends, and cannot be {kinds[name].simpleString()}: cast it")


def _check(name: str, kind: DataType) -> None:
    if name in _MADE:
        raise SinkOptionError(f"column {name!r} is made by publishing, and cannot be chosen: drop or rename it")
    if name == _PAYLOAD:
        if not isinstance(kind, StringType | BinaryType):
            raise SinkOptionError(f"column 'payload' is binary or string, and cannot be {kind.simpleString()}")
    elif name == _ATTRIBUTES:
        if kind.simpleString() != MapType(StringType(), StringType()).simpleString():
            raise SinkOptionError(f"column 'attributes' is map<string,string>, and cannot be {kind.simpleString()}")
    elif not isinstance(kind, _SCALARS):
        raise SinkOptionError(
            f"column {name!r} cannot be {kind.simpleString()}: an attribute is one of {_SUPPORTED}; cast it"
        )
