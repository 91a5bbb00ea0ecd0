"""The hash of message identifiers, one definition for brokers, batches and Spark ([Tracking] section 5.1).

A key is two unsigned 64-bit numbers, the halves of a `MessageId`: ``high`` and ``low``. Version 1, all modulo 2^64:

    a        = high + low + 0x9E3779B97F4A7C15
    b        = a + low                                    first step of MurmurHash3's finaliser (x64, 128 bits)
    a, b     = fmix64(a), fmix64(b)                       its two multiplications and three shifts
    h1, h2   = a + b, a + 2·b                             its last step
    h3       = h1 with its 32-bit halves exchanged
    g(i)     = h1 + i·h2 + (i·(i+1)/2)·h3                 enhanced double hashing, i = 0 .. k-1
    index(i) = ((g(i) >> 32) · m) >> 32                   multiply and shift, for m below 2^32 bits

A delivery is keyed by identifier and subscriber: ``high`` is XORed with the key of the subscriber, the 8-byte BLAKE2b
hash of the name (person ``penstock-sub-1``). Nothing is salted, because filters are exchanged; nothing may change
without a new `HASH_VERSION`, because filters are kept for years (the tests have golden vectors).

Deviation from the paper: not MD5, which takes seven times as long for a batch. The third hash is there because plain
double hashing lets a key that resembles a stored one in both hashes resemble it in all k places.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EXPIRED_KEY",
    "HASHES_MAX",
    "HASH_VERSION",
    "Column",
    "IndexMaker",
    "columns",
    "index_columns",
    "index_matrix",
    "mixed",
    "mixed_columns",
    "subscriber_key",
]

HASH_VERSION: Final = 1
"""Stored with every filter; filters of another version cannot be asked."""
HASHES_MAX: Final = 64
"""Largest k."""

Column: TypeAlias = NDArray[np.uint64]
"""One half of many keys, or one number per key."""

_U64: Final = 2**64 - 1
_START: Final = 0x9E3779B97F4A7C15
"""Keeps a key of zeros from hashing to zeros, with all its indices in one place."""
_FIRST: Final = 0xFF51AFD7ED558CCD
_SECOND: Final = 0xC4CEB9FE1A85EC53
_BOTH: Final = _U64 << 128 | _U64
_SHIFT33: Final = np.uint64(33)
_SHIFT32: Final = np.uint64(32)
_LINEAR: Final = np.arange(HASHES_MAX, dtype=np.uint64).reshape(-1, 1)
_SQUARES: Final = _LINEAR * (_LINEAR + np.uint64(1)) // np.uint64(2)
_LANE_BITS: Final = 96
"""Room for a sum of all g(i), and for its upper half times m."""


def subscriber_key(name: str) -> int:
    """The 64-bit number that stands for a subscriber in the keys of deliveries."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=b"penstock-sub-1").digest(), "big")


EXPIRED_KEY: Final = subscriber_key("\0expired")
"""Stands for the receiver of messages that expired at a broker; no client or subscription can have that name."""


def mixed(high: int, low: int) -> tuple[int, int]:
    """The two 64-bit hashes of one key."""
    # Both halves are mixed at once, in lanes of 128 bits: arithmetic on long integers costs per operation.
    a = high + low + _START
    lanes = (a & _U64) | (a + low & _U64) << 128
    lanes = ((lanes ^ lanes >> 33) & _BOTH) * _FIRST & _BOTH
    lanes = ((lanes ^ lanes >> 33) & _BOTH) * _SECOND & _BOTH
    lanes ^= lanes >> 33
    a, b = lanes & _U64, lanes >> 128
    return a + b & _U64, a + 2 * b & _U64


def mixed_columns(high: Column, low: Column) -> tuple[Column, Column]:
    """The two 64-bit hashes of many keys."""
    # Both halves at once: with a few hundred keys, the number of steps is what costs.
    lanes = np.empty((2, len(high)), dtype=np.uint64)
    a, b = lanes
    np.add(high, low, out=a)
    a += np.uint64(_START)
    np.add(a, low, out=b)
    lanes ^= lanes >> _SHIFT33
    lanes *= np.uint64(_FIRST)
    lanes ^= lanes >> _SHIFT33
    lanes *= np.uint64(_SECOND)
    lanes ^= lanes >> _SHIFT33
    a += b
    b += a
    return a, b


class IndexMaker:
    """Computes the k indices below m of one key at a time, in long integers."""

    __slots__ = ("_bytes", "_linear", "_m", "_ones", "_squares", "_unpack", "_upper")

    def __init__(self, m: int, k: int) -> None:
        assert 0 < m < 2**32, f"m is {m}"
        assert 0 < k <= HASHES_MAX, f"k is {k}"
        lanes = [1 << _LANE_BITS * i for i in range(k)]
        self._m = m
        self._ones = sum(lanes)
        self._linear = sum(i * lane for i, lane in enumerate(lanes))
        self._squares = sum(i * (i + 1) // 2 * lane for i, lane in enumerate(lanes))
        self._upper = sum((2**32 - 1 << 32) * lane for lane in lanes)
        self._bytes = _LANE_BITS // 8 * k
        self._unpack = struct.Struct("<" + "8xI" * k).unpack

    def indices(self, high: int, low: int) -> tuple[int, ...]:
        """The indices of one key."""
        h1, h2 = mixed(high, low)
        h3 = (h1 << 32 | h1 >> 32) & _U64
        # A lane is wide enough that no g(i) reaches the next; the mask removes the bits above 64 and those below 32.
        sums = h1 * self._ones + h2 * self._linear + h3 * self._squares & self._upper
        return self._unpack((sums * self._m).to_bytes(self._bytes, "little"))


def index_columns(high: Column, low: Column, m: int, k: int) -> Iterator[Column]:
    """The indices below m of many keys, one column for each of the k hashes; the caller may keep each column."""
    g, step = mixed_columns(high, low)
    third = g << _SHIFT32 | g >> _SHIFT32
    bits = np.uint64(m)
    for _ in range(k):
        yield (g >> _SHIFT32) * bits >> _SHIFT32
        step += third
        g += step


def index_matrix(high: Column, low: Column, m: int, k: int) -> NDArray[np.uint64]:
    """The indices of many keys, one row per hash; quicker than columns for a few hundred keys, with fewer steps."""
    h1, h2 = mixed_columns(high, low)
    h3 = h1 << _SHIFT32 | h1 >> _SHIFT32
    g = _LINEAR[:k] * h2
    g += _SQUARES[:k] * h3
    g += h1
    g >>= _SHIFT32
    g *= np.uint64(m)
    g >>= _SHIFT32
    return g


def columns(keys: bytes | bytearray | memoryview) -> tuple[Column, Column]:
    """Splits concatenated 16-byte identifiers into the columns of their halves."""
    halves = np.frombuffer(keys, dtype=">u8").reshape(-1, 2)
    return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)
