"""Bodies of messages into Arrow record batches of exactly the columns, types and order that Spark expects."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.model.body import decode_id
from penstock.model.message_id import MESSAGE_ID_BYTES
from penstock.model.tick import Tick, format_tick
from penstock.pipeline.source.columns import STANDARD, Columns
from penstock.pipeline.source.errors import SourceError
from penstock.pipeline.source.identifiers import Halves, halves_of, published_at, texts
from penstock.pipeline.source.maps import attribute_maps
from penstock.pipeline.source.options import Mismatch
from penstock.pipeline.source.typed import MismatchedValueError, TypedColumns

__all__ = ["Decoder"]

_HEAD: Final = MESSAGE_ID_BYTES + 4
_SHOWN_CHARS: Final = 60


class Decoder:
    """Turns the messages of one pubend into batches."""

    def __init__(self, pubend: str, columns: Columns, mismatch: Mismatch) -> None:
        self._pubend = pubend
        self._names = columns.schema.names
        self._types = {name: kind.simpleString() for name, kind in columns.attributes.items()}
        self._arrow = to_arrow_schema(columns.schema, timezone="UTC")
        self._typed = TypedColumns(columns.attributes, mismatch)
        self._standard = [name for name in self._names if name in STANDARD]

    def batch(self, ticks: list[int], bodies: list[bytes]) -> Any:
        """One record batch; raises ``SourceError`` if a value must fit and does not, or a body is none."""
        try:
            with _no_collection():
                arrays = self._arrays(_Bodies(self._pubend, ticks, bodies))
        except MismatchedValueError as error:
            raise self._mismatched(error, ticks, bodies) from None
        except (msgspec.DecodeError, IndexError, ValueError) as error:
            first, last = format_tick(Tick(ticks[0])), format_tick(Tick(ticks[-1]))
            where = f"pubend {self._pubend} from {first} to {last}"
            raise SourceError(f"the log of {where} has a message that cannot be decoded: {error}") from None
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._names], schema=self._arrow)

    def _arrays(self, bodies: _Bodies) -> dict[str, Any]:
        arrays = {name: _MAKERS[name](bodies) for name in self._standard}
        if self._types:
            arrays |= self._typed.arrays(bodies.attributes)
        return arrays

    def _mismatched(self, error: MismatchedValueError, ticks: list[int], bodies: list[bytes]) -> SourceError:
        shown = repr(error.value)
        shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
        where = f"message {decode_id(bodies[error.row])} (pubend {self._pubend}, tick {ticks[error.row]})"
        return SourceError(f"{shown} of {where} does not fit column {error.column!r} of {self._types[error.column]}")


@contextmanager
def _no_collection() -> Iterator[None]:
    """Tens of thousands of short-lived values without cycles are no reason to search the whole process for some."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Bodies:
    """Messages of one pubend, cut up as far as somebody wants to know."""

    def __init__(self, pubend: str, ticks: list[int], bodies: list[bytes]) -> None:
        if min(map(len, bodies)) <= _HEAD:
            raise ValueError(f"a body has {min(map(len, bodies))} bytes")
        self.pubend, self.ticks, self.bodies = pubend, ticks, bodies
        self._halves: Halves | None = None
        self._ends: list[int] | None = None
        self._attributes: list[bytes] | None = None

    @property
    def halves(self) -> Halves:
        if self._halves is None:
            self._halves = halves_of(self.bodies)
        return self._halves

    @property
    def ends(self) -> list[int]:
        """Where the attributes of each body end."""
        if self._ends is None:
            lengths = np.frombuffer(b"".join([body[MESSAGE_ID_BYTES:_HEAD] for body in self.bodies]), dtype=">u4")
            self._ends = (lengths.astype(np.int64) + _HEAD).tolist()
        return self._ends

    @property
    def attributes(self) -> list[bytes]:
        if self._attributes is None:
            self._attributes = [body[_HEAD:end] for body, end in zip(self.bodies, self.ends, strict=True)]
        return self._attributes

    def payloads(self) -> list[bytes]:
        return [body[end + 1 + body[end] :] for body, end in zip(self.bodies, self.ends, strict=True)]


_MAKERS: Final[dict[str, Callable[[_Bodies], Any]]] = {
    "message_id": lambda bodies: texts(bodies.halves),
    "pubend": lambda bodies: pa.repeat(pa.scalar(bodies.pubend, pa.string()), len(bodies.bodies)),
    "tick": lambda bodies: pa.array(np.array(bodies.ticks, dtype=np.int64)),
    "published_at": lambda bodies: published_at(bodies.halves),
    "attributes": lambda bodies: attribute_maps(bodies.attributes),
    "payload": lambda bodies: pa.array(bodies.payloads(), type=pa.binary()),
}
