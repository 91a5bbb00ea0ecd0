"""Measures how often filters claim ids they never saw, against formula (1) ([Tracking] section 4.1, Table 2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from penstock.model.ports import Rng
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import Column
from penstock.tracking.sizing import FilterShape

__all__ = ["FppMeasurement", "measure_fpp", "message_columns"]

_BLOCK: Final = 65_536
_PUBLISHERS: Final = 200
_PER_MS: Final = 5


@dataclass(slots=True, frozen=True)
class FppMeasurement:
    """The false positives measured with filters of one shape."""

    shape: FilterShape
    filters: int
    probes: int
    """Foreign ids asked for, over all filters."""
    hits: int
    """Foreign ids that a filter claimed."""
    standard_error: float
    """Standard error of ``measured``: from the differences between filters, but at least that of independent trials."""

    @property
    def measured(self) -> float:
        """The share of foreign ids that were claimed."""
        return self.hits / self.probes

    @property
    def theory(self) -> float:
        """The probability by the formula."""
        return self.shape.fpp

    @property
    def deviation(self) -> float:
        """How far ``measured`` is from ``theory``, in standard errors."""
        return (self.measured - self.theory) / self.standard_error


def measure_fpp(shape: FilterShape, *, filters: int, probes: int, rng: Rng) -> FppMeasurement:
    """Fill this many filters with ids as publishers make them, and ask for ids they never saw."""
    assert filters > 1
    assert probes >= filters
    each = -(-probes // filters)
    hits = [_hits(shape, each, rng) for _ in range(filters)]
    mean = sum(hits) / filters
    between = sum((count - mean) ** 2 for count in hits) / (filters - 1) / filters
    independent = each * shape.fpp * (1 - shape.fpp) / filters
    return FppMeasurement(shape, filters, each * filters, sum(hits), sqrt(max(between, independent)) / each)


def message_columns(count: int, *, publisher: int, start_ms: int) -> tuple[Column, Column]:
    """The halves of ids as 200 publishers of one broker make them, five per millisecond: as regular as ids ever are."""
    numbers = np.arange(count, dtype=np.uint64)
    high = (numbers % np.uint64(_PUBLISHERS) + np.uint64(publisher)) << np.uint64(32) | np.uint64(7)
    timestamp = numbers // np.uint64(_PER_MS) + np.uint64(start_ms)
    return high, timestamp << np.uint64(16)


def _hits(shape: FilterShape, probes: int, rng: Rng) -> int:
    made = BloomFilter(shape)
    publisher, start_ms = rng.randrange(2**31), rng.randrange(2**47)
    made.add_columns(*message_columns(shape.n, publisher=publisher, start_ms=start_ms))
    hits = 0
    for done in range(0, probes, _BLOCK):
        # The same publishers at other times: ids that differ from the stored ones in few bits.
        later_ms = start_ms + 1_000_000 + rng.randrange(2**40)
        foreign = message_columns(min(_BLOCK, probes - done), publisher=publisher, start_ms=later_ms)
        hits += int(np.count_nonzero(made.contains_columns(*foreign)))
    return hits
