"""Packs messages of one pubend with their ticks into the bytes of a stored batch, guarded by a checksum.

A batch is what one append wrote, or a part of it: checksum (4) · messages (4) · ticks as distances from the
first (8 each) · lengths of the bodies (4 each) · bodies. Its first tick is its key in the store, and is covered by
the checksum as well, so that a batch in the wrong place is also detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct, pack, unpack_from
from struct import error as StructError  # noqa: N812 (an exception, whose own name says nothing)
from typing import Final
from zlib import crc32

from penstock.model.tick import Tick

__all__ = ["BatchDamagedError", "is_whole", "pack_batch", "unpack_batch"]

_HEAD: Final = Struct(">II")
_KEY: Final = Struct(">Q")


class BatchDamagedError(ValueError):
    """The bytes of a batch are not what was written."""


def pack_batch(messages: Sequence[tuple[Tick, bytes]]) -> bytes:
    """Pack messages, in the order of their ticks, as bytes to be stored under the first tick."""
    count, first = len(messages), messages[0][0]
    columns = [tick - first for tick, _ in messages] + [len(body) for _, body in messages]
    rest = pack(f">I{count}Q{count}I", count, *columns)
    # The checksum is computed part by part: joining them first would copy the bodies once more.
    checksum = crc32(rest, crc32(_KEY.pack(first)))
    bodies = b"".join([body for _, body in messages])
    return b"".join((crc32(bodies, checksum).to_bytes(4), rest, bodies))


def unpack_batch(first_tick: Tick, stored: bytes | memoryview) -> list[tuple[Tick, bytes]]:
    """The messages of a batch stored under its first tick; raises if the bytes are damaged."""
    view = memoryview(stored)
    try:
        _, count = _HEAD.unpack_from(view)
        if not is_whole(first_tick, view):
            raise BatchDamagedError("the checksum does not match")
        columns = unpack_from(f">{count}Q{count}I", view, _HEAD.size)
    except StructError as error:
        raise BatchDamagedError("the bytes end too early") from error
    starts = accumulate(columns[count:], initial=_HEAD.size + 12 * count)
    bodies = [bytes(view[start:end]) for start, end in pairwise(starts)]
    return [(Tick(first_tick + distance), body) for distance, body in zip(columns, bodies, strict=False)]


def is_whole(first_tick: Tick, stored: bytes | memoryview) -> bool:
    """Whether the bytes are those that were written for this first tick."""
    return stored[:4] == crc32(memoryview(stored)[4:], crc32(_KEY.pack(first_tick))).to_bytes(4)
