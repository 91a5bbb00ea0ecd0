"""The rows of the tracking paper's Table 2: which strategies were measured, with which buffers and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import TABLE_2

__all__ = ["BUFFERS", "FULL_BYTES", "ROW_EFPP", "Configuration", "configurations", "metric_of", "row_label"]

BUFFERS: Final = {"64K": 10_000, "1M": 135_000}
"""Bytes of the buffer that holds filters of a size, by the beginning of the row's name."""

ROW_EFPP: Final = {row: {"99.999": 1e-5, "99": 0.01, "95": 0.05}[row.partition("-")[2]] for row in TABLE_2}
"""The false positive probability that each row stands for."""

FULL_BYTES: Final = {
    "64K-99.999": 3.25,
    "64K-99": 1.5,
    "64K-95": 1.125,
    "1M-99.999": 3.375,
    "1M-99": 1.5,
    "1M-95": 1.0,
}
"""Published bytes per message in full filters."""

_PERSIST_S: Final = {10_000: (1, 2), 135_000: (1, 2, 8, 18, 27)}


@dataclass(slots=True, frozen=True)
class Configuration:
    """One way to track: a strategy, its memory, and how often it stores."""

    strategy: str
    buffer_bytes: int
    persist_s: int
    row: str = ""
    """The name of the filters' row; empty for exact records."""

    @property
    def metric(self) -> str:
        """The ending of the names of its metrics."""
        kind = metric_of(self.row) if self.row else f"exact_{self.buffer_bytes // 1_000}k"
        return f"{kind}_tp{self.persist_s}"

    @property
    def label(self) -> str:
        """A description for charts."""
        kind = f"BF {self.row.partition('-')[2]} %" if self.row else "exact"
        return f"{kind}, {self.buffer_bytes // 1_000} K, Tp {self.persist_s} s"

    def settings(self, *, keep_filling: bool) -> TrackingSettings:
        """The settings for a broker."""
        if not self.row:
            return TrackingSettings(
                strategy="exact", buffer_bytes=self.buffer_bytes, persist_ms=1_000 * self.persist_s, keep_filling=False
            )
        return TrackingSettings(
            efpp=ROW_EFPP[self.row],
            shape=TABLE_2[self.row],
            buffer_bytes=self.buffer_bytes,
            persist_ms=1_000 * self.persist_s,
            keep_filling=keep_filling,
        )


def configurations() -> Iterator[Configuration]:
    """All configurations, by buffer and interval; those that the paper left out are filled in."""
    for size, buffer_bytes in BUFFERS.items():
        for persist_s in _PERSIST_S[buffer_bytes]:
            yield Configuration("exact", buffer_bytes, persist_s)
            for row in TABLE_2:
                if row.startswith(size):
                    yield Configuration("bloom", buffer_bytes, persist_s, row)


def metric_of(row: str) -> str:
    """A row's name as part of the name of a metric.

    >>> metric_of("64K-99.999")
    '64k_99_999'
    """
    return row.lower().replace("-", "_").replace(".", "_")


def row_label(row: str) -> str:
    """A row's name for people.

    >>> row_label("1M-95")
    '1 Mbit, 95 %'
    """
    size, _, accuracy = row.partition("-")
    return f"{size[:-1]} {size[-1]}bit, {accuracy} %"
