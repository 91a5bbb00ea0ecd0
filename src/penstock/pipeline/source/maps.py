"""The attributes of many messages as one Arrow column of maps from text to text."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from penstock.model.values import AttributeValue

__all__ = ["attribute_maps", "text_of"]

_decode: Final = msgspec.msgpack.Decoder(dict[str, str | int | float | bool | None]).decode
_CACHED_MAX: Final = 65_536
_MAP: Final = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=True))


class _Texts(dict[float, str]):
    """The texts of floats that came before: prices recur, and spelling one costs more than finding it."""

    def __missing__(self, number: float) -> str:
        text = repr(number)
        # Zero has two spellings and one key, and NaN would never be found again.
        if number and number == number:  # noqa: PLR0124
            if len(self) >= _CACHED_MAX:
                self.clear()
            self[number] = text
        return text


_texts: Final = _Texts()


def text_of(value: AttributeValue) -> str | None:
    """An attribute as text: a number as Python writes it, a truth as ``true`` or ``false``.

    >>> [text_of(value) for value in ("YHOO", 100, 18.25, True, None)]
    ['YHOO', '100', '18.25', 'true', None]
    """
    kind = value.__class__
    if kind is float:
        return _texts[value]  # type: ignore[index]
    if kind is int:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    return value  # type: ignore[return-value]


def attribute_maps(attributes: list[bytes]) -> Any:
    """The column; the order of the attributes is the publisher's."""
    found = [_decode(each) for each in attributes]
    offsets = np.zeros(len(found) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, found), dtype=np.int32, count=len(found)), out=offsets[1:])
    keys = pa.array(list(chain.from_iterable(found)), type=pa.string())
    flat = chain.from_iterable(map(dict.values, found))
    # Spelled out, as a call for each value would take longer than all the rest.
    spelled = [
        each
        if (kind := each.__class__) is str
        else _texts[each]  # type: ignore[index]
        if kind is float
        else str(each)
        if kind is int
        else text_of(each)
        for each in flat
    ]
    values = pa.array(spelled, type=pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=_MAP)
