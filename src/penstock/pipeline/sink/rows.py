"""Turns rows into messages: column ``payload``, map ``attributes``, and every other column as an attribute of its name.

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

__all__ = ["RowReader"]

_PAYLOAD: Final = "payload"
_ATTRIBUTES: Final = "attributes"
_MADE: Final = frozenset({"message_id", "pubend", "tick", "published_at"})
"""Columns of the source that a publisher cannot set."""
_SCALARS: Final = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
_SUPPORTED: Final = "string, boolean, byte, short, int, long, float, double"


class RowReader:
    """Makes messages from the rows of a frame; raises ``SinkOptionError`` for unsupported columns."""

    def __init__(self, schema: StructType, content_type: str = "") -> None:
        self._content_type = content_type
        self._names = list(schema.names)
        if not self._names:
            raise SinkOptionError("there are no columns to publish")
        if len(set(self._names)) < len(self._names):
            repeated = sorted({name for name in self._names if self._names.count(name) > 1})
            raise SinkOptionError(f"column {repeated[0]!r} is there twice")
        for field in schema.fields:
            _check(field.name, field.dataType)
        try:
            Message({name: None for name in self._names if name not in (_PAYLOAD, _ATTRIBUTES)}, b"", content_type)
        except MisuseError as error:
            raise SinkOptionError(str(error)) from None

    def messages(self, batch: Any) -> Iterator[Message]:
        """Yield the messages of a record batch, in order."""
        columns = {name: batch.column(place).to_pylist() for place, name in enumerate(self._names)}
        payloads = columns.pop(_PAYLOAD, None)
        maps = columns.pop(_ATTRIBUTES, None)
        names = list(columns)
        for place, values in enumerate(zip(*columns.values(), strict=True) if columns else [()] * batch.num_rows):
            attributes: dict[str, AttributeValue] = {}
            for name, value in (maps[place] or ()) if maps is not None else ():
                if value is not None:
                    attributes[name] = value
            attributes.update((name, value) for name, value in zip(names, values, strict=True) if value is not None)
            yield self._message(attributes, None if payloads is None else payloads[place])

    def _message(self, attributes: dict[str, AttributeValue], payload: str | bytes | None) -> Message:
        content = payload.encode() if isinstance(payload, str) else payload or b""
        try:
            return Message(attributes, content, self._content_type)
        except MisuseError as error:
            shown = ", ".join(f"{name}={str(value)[:20]!r}" for name, value in list(attributes.items())[:5])
            raise SinkError(f"a row cannot be published: {error} (its attributes begin with {shown})") from None


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
