"""A Bloom filter in one buffer, for one key at a time and for many at once ([Tracking] section 3.1).

Bit i is bit i modulo 8 of byte i // 8. Both ways to add and to ask are interchangeable: what one added, the
other finds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.model.errors import MisuseError
from penstock.tracking.hashing import Column, IndexMaker, index_columns, index_matrix
from penstock.tracking.sizing import FilterShape, fpp

__all__ = ["BloomFilter"]

_MASKS: Final = tuple(1 << bit for bit in range(8))
_MASK_COLUMN: Final = np.array(_MASKS, dtype=np.uint8)
_DENSE: Final = 256
"""With more than one bit to set per this many bits of the filter, it is quicker to go through all of them."""
_BLOCK: Final = 512
"""Keys hashed at once: with more, every step would get new memory from the system, and pay for each page."""
_SHRINK_MIN: Final = 4_096
"""With fewer keys than this, weeding out absent ones during a lookup is not worth it."""

_index_makers: dict[tuple[int, int], IndexMaker] = {}


class BloomFilter:
    """A set of keys that never denies one it has, and rarely claims one it has not."""

    __slots__ = ("_bits", "_bytes", "_indices", "count", "shape")

    def __init__(self, shape: FilterShape, bits: bytes | None = None, count: int = 0) -> None:
        """An empty filter, or the one with these bits."""
        if bits is not None and len(bits) != shape.size_bytes:
            raise MisuseError(f"a filter of {shape.m} bits is not {len(bits)} bytes")
        self.shape = shape
        self.count = count
        """Keys added; one added twice counts twice, as the filter cannot tell."""
        self._bits = bytearray(shape.size_bytes if bits is None else bits)
        self._bytes: NDArray[np.uint8] = np.frombuffer(self._bits, dtype=np.uint8)
        self._indices = _index_maker(shape).indices

    @property
    def fpp(self) -> float:
        """The false positive probability with its current keys."""
        return fpp(self.shape.m, self.count, self.shape.k)

    def add(self, high: int, low: int) -> None:
        """Add one key."""
        bits = self._bits
        for index in self._indices(high, low):
            bits[index >> 3] |= _MASKS[index & 7]
        self.count += 1

    def contains(self, high: int, low: int) -> bool:
        """Whether one key may have been added; never False for one that was."""
        bits = self._bits
        return all(bits[index >> 3] & _MASKS[index & 7] for index in self._indices(high, low))

    def add_columns(self, high: Column, low: Column) -> None:
        """Add many keys."""
        if not len(high):
            return
        for place in range(0, len(high), _BLOCK):
            some = slice(place, place + _BLOCK)
            self._set(index_matrix(high[some], low[some], self.shape.m, self.shape.k).reshape(-1))
        self.count += len(high)

    def _set(self, indices: Column) -> None:
        places = _as_places(indices)
        if len(indices) * _DENSE < self.shape.m:
            np.bitwise_or.at(self._bytes, places >> 3, _MASK_COLUMN[places & 7])
        else:
            unpacked = np.zeros(self.shape.m, dtype=np.bool_)
            unpacked[places] = True
            self._bytes |= np.packbits(unpacked, bitorder="little")

    def contains_columns(self, high: Column, low: Column) -> NDArray[np.bool_]:
        """Whether each of many keys may have been added."""
        if len(high) < _SHRINK_MIN:
            are_set = self._are_set(index_matrix(high, low, self.shape.m, self.shape.k))
            found: NDArray[np.bool_] = np.logical_and.reduce(are_set, axis=0)
            return found
        return self._contains_shrinking(high, low)

    def union(self, other: BloomFilter) -> BloomFilter:
        """A filter with the keys of both; its capacity is unchanged."""
        if (self.shape.m, self.shape.k) != (other.shape.m, other.shape.k):
            raise MisuseError(f"filters {self.shape} and {other.shape} cannot be united: m and k differ")
        made = BloomFilter(self.shape, count=self.count + other.count)
        np.bitwise_or(self._bytes, other._bytes, out=made._bytes)
        return made

    def bits_set(self) -> int:
        """How many bits are set."""
        return int(np.bitwise_count(self._bytes).sum(dtype=np.int64))

    def to_bytes(self) -> bytes:
        """The bits."""
        return bytes(self._bits)

    def _are_set(self, indices: Column) -> NDArray[np.bool_]:
        places = _as_places(indices)
        found: NDArray[np.bool_] = self._bytes[places >> 3] & _MASK_COLUMN[places & 7] != 0
        return found

    def _contains_shrinking(self, high: Column, low: Column) -> NDArray[np.bool_]:
        """Like `contains_columns`, but drops absent keys on the way, most of them after two lookups."""
        columns = index_columns(high, low, self.shape.m, 2)
        found = self._are_set(next(columns))
        if self.shape.k > 1:
            found &= self._are_set(next(columns))
        if self.shape.k > 2:
            (left,) = np.nonzero(found)
            for place in range(0, len(left), _SHRINK_MIN):
                some = left[place : place + _SHRINK_MIN]
                for column in index_columns(high[some], low[some], self.shape.m, self.shape.k):
                    found[some] &= self._are_set(column)
        return found


def _as_places(indices: Column) -> NDArray[np.int64]:
    """These indices, all below 2**32, as numpy's index type: it converts others one by one."""
    return indices.view(np.int64)


def _index_maker(shape: FilterShape) -> IndexMaker:
    """The index maker shared by filters of one shape; a process has few shapes."""
    key = shape.m, shape.k
    if key not in _index_makers:
        if len(_index_makers) >= 64:
            _index_makers.clear()
        _index_makers[key] = IndexMaker(shape.m, shape.k)
    return _index_makers[key]
