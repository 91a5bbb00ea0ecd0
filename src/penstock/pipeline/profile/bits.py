"""Bit vectors over a sample of publications: which selectors want the same messages ([PADRES] section 4.1, PRESS).

One row per selector, one bit per sampled publication. The arithmetic does not need a broker's covering set: what its
subscriptions want together is the OR of their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bits", "added", "bits_of", "overlaps", "popcounts", "union"]

Bits: TypeAlias = npt.NDArray[np.uint64]
_BLOCK = 256


def bits_of(selectors: int, samples: Sequence[bytes]) -> Bits:
    """Build bit rows from the selectors that wanted each publication, given as packed 32-bit numbers.

    >>> bits_of(2, [np.array([0, 1], np.uint32).tobytes(), np.array([1], np.uint32).tobytes()])
    array([[1],
           [3]], dtype=uint64)
    """
    bits = np.zeros((selectors, -(-len(samples) // 64)), np.uint64)
    for place, wanted in enumerate(samples):
        bits[np.frombuffer(wanted, np.uint32), place // 64] |= np.uint64(1 << place % 64)
    return bits


def popcounts(bits: Bits) -> npt.NDArray[np.int64]:
    """Count the set bits of each row, or of a single one."""
    return np.asarray(np.bitwise_count(bits).sum(axis=-1, dtype=np.int64))


def union(bits: Bits, rows: Iterable[int]) -> Bits:
    """The OR of these rows."""
    return np.asarray(np.bitwise_or.reduce(bits[list(rows)], axis=0, initial=np.uint64(0)))


def added(bits: Bits, known: Bits) -> npt.NDArray[np.int64]:
    """Count the bits of each row that are not in ``known``.

    The paper's table 1: 110111 ANDNOT 110001 = 000110.

    >>> added(np.array([[0b110111]], np.uint64), np.array([0b110001], np.uint64)).tolist()
    [2]
    """
    return popcounts(bits & ~known)


def overlaps(bits: Bits, rows: Sequence[int], *, most: int) -> Mapping[int, list[tuple[int, int]]]:
    """For each row, the other rows that share the most bits with it, and how many, best first."""
    chosen = bits[list(rows)]
    found: dict[int, list[tuple[int, int]]] = {}
    for start in range(0, len(rows), _BLOCK):
        block = chosen[start : start + _BLOCK]
        # A bit matrix times its transpose: 64 publications per operation.
        common = np.zeros((len(block), len(rows)), np.int64)
        for word in range(chosen.shape[1]):
            common += np.bitwise_count(block[:, word, None] & chosen[None, :, word])
        for place, counts in enumerate(common):
            counts[start + place] = 0
            best = np.argsort(-counts, kind="stable")[:most]
            found[rows[start + place]] = [(rows[other], int(counts[other])) for other in best if counts[other]]
    return found
