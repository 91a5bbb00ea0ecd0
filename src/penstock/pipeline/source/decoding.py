"""Decodes message bodies into Arrow record batches with exactly the columns, types and order that Spark expects.

Identifiers become columns of text and time, many at once; attributes become a column of maps from text to text.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.model.body import decode_id
from penstock.model.message_id import MESSAGE_ID_BYTES, MESSAGE_ID_CHARS, MessageId
from penstock.model.tick import Tick, format_tick
from penstock.model.values import AttributeValue
from penstock.pipeline.source.columns import STANDARD, Columns
from penstock.pipeline.source.errors import SourceError
from penstock.pipeline.source.options import Mismatch
from penstock.pipeline.source.typed import MismatchedValueError, TypedColumns

__all__ = ["Decoder", "attribute_maps", "halves_of", "published_at", "text_of", "texts"]

_HEAD: Final = MESSAGE_ID_BYTES + 4
_SHOWN_CHARS: Final = 60
_Halves = npt.NDArray[np.uint64]
"""Identifiers in two columns: publisher and broker, then time."""
_PAIR_BITS: Final = 10
_PAIR_MASK: Final = np.uint64(0x3FF)
_SHIFTS: Final = range(120, -1, -_PAIR_BITS)
_decode: Final = msgspec.msgpack.Decoder(dict[str, str | int | float | bool | None]).decode
_CACHED_MAX: Final = 65_536
_MAP: Final = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=True))


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
        """Decode one record batch; raises ``SourceError`` for a bad body, or a value that must fit and does not."""
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
    """Pause the garbage collector: tens of thousands of short-lived values without cycles would only trigger it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Bodies:
    """Messages of one pubend, split into fields on demand."""

    def __init__(self, pubend: str, ticks: list[int], bodies: list[bytes]) -> None:
        if min(map(len, bodies)) <= _HEAD:
            raise ValueError(f"a body has {min(map(len, bodies))} bytes")
        self.pubend, self.ticks, self.bodies = pubend, ticks, bodies
        self._halves: _Halves | None = None
        self._ends: list[int] | None = None
        self._attributes: list[bytes] | None = None

    @property
    def halves(self) -> _Halves:
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


def _pairs() -> npt.NDArray[np.uint16]:
    """The two characters for every ten-bit value, as identifiers spell them."""
    ends = [str(MessageId.from_halves(0, number))[-2:] for number in range(1 << _PAIR_BITS)]
    return np.frombuffer("".join(ends).encode("ascii"), dtype=np.uint16)


_PAIRS: Final = _pairs()


def halves_of(bodies: list[bytes]) -> _Halves:
    """Read the identifiers at the start of bodies, as pairs of numbers."""
    joined = b"".join([body[:MESSAGE_ID_BYTES] for body in bodies])
    return np.frombuffer(joined, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def texts(halves: _Halves) -> Any:
    """The text of each identifier."""
    high, low = halves[:, 0], halves[:, 1]
    pairs = np.empty((len(halves), MESSAGE_ID_CHARS // 2), dtype=np.uint16)
    for place, shift in enumerate(_SHIFTS):
        pairs[:, place] = _PAIRS[_bits(high, low, shift)]
    offsets = np.arange(0, (len(halves) + 1) * MESSAGE_ID_CHARS, MESSAGE_ID_CHARS, dtype=np.int32)
    return pa.StringArray.from_buffers(len(halves), pa.py_buffer(offsets), pa.py_buffer(pairs))


def published_at(halves: _Halves) -> Any:
    """The time in each identifier, which is the publisher's clock."""
    us = (halves[:, 1] >> np.uint64(16)).astype(np.int64) * 1_000
    return pa.array(us, type=pa.timestamp("us", tz="UTC"))


def _bits(high: _Halves, low: _Halves, shift: int) -> _Halves:
    """Extract ten of the 128 bits, starting at ``shift``."""
    if shift >= 64:
        return (high >> np.uint64(shift - 64)) & _PAIR_MASK
    bits = low >> np.uint64(shift)
    if shift > 64 - _PAIR_BITS:
        bits = bits | high << np.uint64(64 - shift)
    return bits & _PAIR_MASK


class _FloatTexts(dict[float, str]):
    """Caches the text of floats: prices recur, and formatting one costs more than a lookup."""

    def __missing__(self, number: float) -> str:
        text = repr(number)
        # Zero has two spellings but one key, and a lookup would never find NaN.
        if number and number == number:  # noqa: PLR0124
            if len(self) >= _CACHED_MAX:
                self.clear()
            self[number] = text
        return text


_float_texts: Final = _FloatTexts()


def text_of(value: AttributeValue) -> str | None:
    """An attribute as text: a number as Python prints it, a boolean as ``true`` or ``false``.

    >>> [text_of(value) for value in ("YHOO", 100, 18.25, True, None)]
    ['YHOO', '100', '18.25', 'true', None]
    """
    kind = value.__class__
    if kind is float:
        return _float_texts[value]  # type: ignore[index]
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    return value  # type: ignore[return-value]


def attribute_maps(attributes: list[bytes]) -> Any:
    """Build a column of maps from text to text; attributes stay in the publisher's order."""
    found = [_decode(each) for each in attributes]
    offsets = np.zeros(len(found) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, found), dtype=np.int32, count=len(found)), out=offsets[1:])
    keys = pa.array(list(chain.from_iterable(found)), type=pa.string())
    flat = chain.from_iterable(map(dict.values, found))
    # Inlined, as a call per value would take longer than everything else.
    spelled = [
        each
        if (kind := each.__class__) is str
        else _float_texts[each]  # type: ignore[index]
        if kind is float
        else str(each)
        if kind is int
        else text_of(each)
        for each in flat
    ]
    values = pa.array(spelled, type=pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=_MAP)
