"""Texts and times of many identifiers at once, as Arrow columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.message_id import MESSAGE_ID_BYTES, MESSAGE_ID_CHARS, MessageId

__all__ = ["Halves", "halves_of", "published_at", "texts"]

Halves = npt.NDArray[np.uint64]
"""Two columns: who and where, then when."""

_PAIR_BITS: Final = 10
_PAIR_MASK: Final = np.uint64(0x3FF)
_SHIFTS: Final = range(120, -1, -_PAIR_BITS)


def _pairs() -> npt.NDArray[np.uint16]:
    """The two characters of each ten bits, as the identifiers themselves spell them."""
    ends = [str(MessageId.from_halves(0, number))[-2:] for number in range(1 << _PAIR_BITS)]
    return np.frombuffer("".join(ends).encode("ascii"), dtype=np.uint16)


_PAIRS: Final = _pairs()


def halves_of(bodies: list[bytes]) -> Halves:
    """The identifiers at the beginning of some bodies, as pairs of numbers."""
    joined = b"".join([body[:MESSAGE_ID_BYTES] for body in bodies])
    return np.frombuffer(joined, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def texts(halves: Halves) -> Any:
    """The text of each identifier."""
    high, low = halves[:, 0], halves[:, 1]
    pairs = np.empty((len(halves), MESSAGE_ID_CHARS // 2), dtype=np.uint16)
    for place, shift in enumerate(_SHIFTS):
        pairs[:, place] = _PAIRS[_bits(high, low, shift)]
    offsets = np.arange(0, (len(halves) + 1) * MESSAGE_ID_CHARS, MESSAGE_ID_CHARS, dtype=np.int32)
    return pa.StringArray.from_buffers(len(halves), pa.py_buffer(offsets), pa.py_buffer(pairs))


def published_at(halves: Halves) -> Any:
    """The time in each identifier, which is the publisher's."""
    us = (halves[:, 1] >> np.uint64(16)).astype(np.int64) * 1_000
    return pa.array(us, type=pa.timestamp("us", tz="UTC"))


def _bits(high: Halves, low: Halves, shift: int) -> Halves:
    """Ten bits of 128, from the place named on."""
    if shift >= 64:
        return (high >> np.uint64(shift - 64)) & _PAIR_MASK
    bits = low >> np.uint64(shift)
    if shift > 64 - _PAIR_BITS:
        bits = bits | high << np.uint64(64 - shift)
    return bits & _PAIR_MASK
