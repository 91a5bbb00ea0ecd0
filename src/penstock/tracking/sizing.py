"""Relates the size of a filter to its accuracy, both ways ([Tracking] sections 4.1 and 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1, floor, log1p
from types import MappingProxyType
from typing import Final

from penstock.model.errors import MisuseError
from penstock.tracking.hashing import HASHES_MAX

__all__ = ["BITS_MAX", "TABLE_2", "FilterShape", "choose_shape", "efpp", "fpp", "fpp_for_efpp"]

BITS_MAX: Final = 2**31
"""Largest m: indices are computed by a multiplication in 64 bits."""


@dataclass(slots=True, frozen=True)
class FilterShape:
    """The parameters (m, n, k) of a Bloom filter."""

    m: int
    """Bits; a multiple of 8."""
    n: int
    """Capacity: the keys it may hold."""
    k: int
    """Hash functions."""

    def __post_init__(self) -> None:
        if not 8 <= self.m <= BITS_MAX or self.m % 8:
            raise MisuseError(f"m {self.m} is not a multiple of 8 in 8 .. {BITS_MAX}")
        if self.n <= 0:
            raise MisuseError(f"n {self.n} is not positive")
        if not 0 < self.k <= HASHES_MAX:
            raise MisuseError(f"k {self.k} is not in 1 .. {HASHES_MAX}")

    @property
    def fpp(self) -> float:
        """The false positive probability of a full filter."""
        return fpp(self.m, self.n, self.k)

    @property
    def size_bytes(self) -> int:
        """Size of the bits in bytes."""
        return self.m // 8

    @property
    def bytes_per_key(self) -> float:
        """Bytes per key in a full filter."""
        return self.size_bytes / self.n


TABLE_2: Final[Mapping[str, FilterShape]] = MappingProxyType(
    {
        "64K-99.999": FilterShape(65_536, 2_521, 16),
        "64K-99": FilterShape(65_536, 5_461, 8),
        "64K-95": FilterShape(65_536, 7_281, 8),
        "1M-99.999": FilterShape(1_048_576, 38_836, 12),
        "1M-99": FilterShape(1_048_576, 87_381, 6),
        "1M-95": FilterShape(1_048_576, 131_072, 6),
    }
)
"""The filters of the paper's Table 2, by size and accuracy in percent (1 - efpp, with matching sets of two)."""


def fpp(m: int, n: int, k: int) -> float:
    """Formula (1): the false positive probability of a filter of m bits and k hashes that holds n keys."""
    if m == 1:
        return 1.0 if n else 0.0
    return float((-expm1(k * n * log1p(-1 / m))) ** k)


def efpp(fpp: float, matching_set: int) -> float:
    """Formula (2): the expected false positive probability when this many filters are asked."""
    return -expm1(matching_set * log1p(-fpp)) if fpp < 1 else float(matching_set > 0)


def fpp_for_efpp(efpp: float, matching_set: int) -> float:
    """The inverse of formula (2): the false positive probability one filter may have."""
    if not 0 < efpp < 1:
        raise MisuseError(f"efpp {efpp} is not between 0 and 1")
    if matching_set <= 0:
        raise MisuseError(f"matching set bound {matching_set} is not positive")
    return -expm1(log1p(-efpp) / matching_set)


def choose_shape(efpp: float, *, size_bytes_max: int, matching_set: int = 2, k_max: int = 16) -> FilterShape:
    """The filter with the most keys that fits these bytes and gives this accuracy.

    Its m is a power of two, so that filters of different brokers are alike. More than 16 hashes gain next to nothing.
    """
    if size_bytes_max < 1:
        raise MisuseError(f"{size_bytes_max} bytes hold no filter")
    allowed = fpp_for_efpp(efpp, matching_set)
    m = min(8 << size_bytes_max.bit_length() - 1, BITS_MAX)
    n, k = max((_capacity(m, k, allowed), -k) for k in range(1, k_max + 1))
    if n == 0:
        raise MisuseError(f"a filter of {m} bits holds not even one message at an efpp of {efpp}: allow it more bytes")
    return FilterShape(m, n, -k)


def _capacity(m: int, k: int, allowed: float) -> int:
    """The most keys for which the false positive probability stays within the allowed one."""
    n = floor(log1p(-(allowed ** (1 / k))) / (k * log1p(-1 / m)))
    # The two formulas differ in their last digits.
    while n and fpp(m, n, k) > allowed:
        n -= 1
    return n
