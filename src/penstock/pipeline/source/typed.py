"""Decodes attributes of many messages into typed Arrow columns; decodes only the declared attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from penstock.model.values import AttributeValue
from penstock.pipeline.source.fitting import UNFIT, Kind, kind_of
from penstock.pipeline.source.options import Mismatch

__all__ = ["MismatchedValueError", "TypedColumns"]

_REFUSALS: Final = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
_UNUSUAL: Final = re.compile(r'["\\\x00-\x1f]')
_decode_any: Final = msgspec.msgpack.Decoder(dict[str, str | int | float | bool | None]).decode


class MismatchedValueError(Exception):
    """A value does not fit its column; a caller that knows the message reports it."""

    def __init__(self, row: int, column: str, value: AttributeValue) -> None:
        super().__init__(row, column, value)
        self.row, self.column, self.value = row, column, value


@dataclass(slots=True, frozen=True)
class _Column:
    name: str
    kind: Kind
    values_of: Callable[[Any], Any]


class TypedColumns:
    """Builds the declared columns of a batch."""

    def __init__(self, types: Mapping[str, DataType], mismatch: Mismatch) -> None:
        self._mismatch = mismatch
        kinds = {name: kind_of(data_type) for name, data_type in types.items()}
        fields = [(f"c{place}", kind.decoded, None) for place, kind in enumerate(kinds.values())]
        # A struct field cannot have such a name, so the slower path searches all attributes of a message.
        self._is_careful = any(_UNUSUAL.search(name) for name in kinds)
        rename = None if self._is_careful else {f"c{place}": name for place, name in enumerate(kinds)}
        # Rows hold no references to each other: the garbage collector need not track millions of them.
        self._row = msgspec.defstruct("Row", fields, rename=rename, gc=False)
        self._decode = msgspec.msgpack.Decoder(self._row).decode
        self._columns = [
            _Column(name, kind, attrgetter(f"c{place}")) for place, (name, kind) in enumerate(kinds.items())
        ]

    def arrays(self, attributes: list[bytes]) -> dict[str, Any]:
        """Build the columns by name; raises ``MismatchedValueError`` if a value must fit and does not."""
        if not self._columns:
            return {}
        rows = self._rows(attributes)
        return {column.name: self._array(column, list(map(column.values_of, rows))) for column in self._columns}

    def _rows(self, attributes: list[bytes]) -> list[Any]:
        decode = self._decode
        if not self._is_careful:
            with suppress(msgspec.ValidationError):
                return [decode(each) for each in attributes]
        return [self._careful_row(place, each) for place, each in enumerate(attributes)]

    def _careful_row(self, place: int, attributes: bytes) -> Any:
        """Decode a row with values that may not fit: those are dropped, the others stay as they are."""
        if not self._is_careful:
            with suppress(msgspec.ValidationError):
                return self._decode(attributes)
        found = _decode_any(attributes)
        values = [(column, found.get(column.name)) for column in self._columns]
        return self._row(*(None if self._fitted(place, *each) is None else each[1] for each in values))

    def _array(self, column: _Column, values: list[Any]) -> Any:
        if column.kind.is_direct:
            try:
                array = pa.array(values, type=column.kind.arrow)
            except _REFUSALS:
                array = None
            if array is not None and not _has_nan(array):
                return array
        fitted = [self._fitted(place, column, value) for place, value in enumerate(values)]
        return pa.array(fitted, type=column.kind.arrow)

    def _fitted(self, place: int, column: _Column, value: AttributeValue) -> Any:
        if value is None:
            return None
        fitted = column.kind.fit(value)
        if fitted is not UNFIT:
            return fitted
        if self._mismatch == "fail":
            raise MismatchedValueError(place, column.name, value)
        return None


def _has_nan(array: Any) -> bool:
    return pa.types.is_floating(array.type) and bool(pc.any(pc.is_nan(array)).as_py())
