"""Exact records of messages, the paper's ASYNC strategy: 16 bytes each, and never wrong ([Tracking] section 5).

A record is the identifier. Deliveries have a second column with 8 bytes for the subscriber's key, after all
identifiers of a block: framing, in the terms of the paper, which has a separate log for each subscriber. With such logs
there is no second column, and the subscriber's key is part of the identifiers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.tracking.hashing import Column, columns
from penstock.tracking.sizing import FilterShape

__all__ = ["RECORD_BYTES", "SUBSCRIBER_BYTES", "ExactRecords", "exact_shape"]

RECORD_BYTES: Final = 16
SUBSCRIBER_BYTES: Final = 8


class ExactRecords:
    """The records of one block, in the order they came."""

    __slots__ = ("_ids", "_subscribers", "count", "shape")

    def __init__(self, shape: FilterShape, body: bytes = b"", count: int = 0) -> None:
        """Starts empty, or with the records of a stored block."""
        ids_end = count * RECORD_BYTES
        self.shape = shape
        self.count = count
        self._ids = bytearray(body[:ids_end])
        self._subscribers = bytearray(body[ids_end:])

    @property
    def has_subscribers(self) -> bool:
        """Whether these are deliveries to different subscribers."""
        return self.shape.m > 8 * RECORD_BYTES

    @property
    def fpp(self) -> float:
        """Zero: records are never wrong."""
        return 0.0

    def add_columns(self, high: Column, low: Column, subscribers: Column | None = None) -> None:
        """Add the records of many messages, or of their deliveries to these subscribers."""
        self._ids += np.stack((high, low), axis=1).astype(">u8").tobytes()
        if subscribers is not None:
            self._subscribers += subscribers.astype(">u8").tobytes()
        self.count += len(high)

    def contains(self, high: int, low: int) -> bool:
        """Whether there is a record of this key, which has the subscriber's key in it for a delivery."""
        highs, lows, subscribers = self.columns()
        if subscribers is not None:
            highs = highs ^ subscribers
        return bool(np.any((highs == np.uint64(high)) & (lows == np.uint64(low))))

    def columns(self) -> tuple[Column, Column, Column | None]:
        """The halves of the identifiers, and the subscribers' keys if these are deliveries."""
        high, low = columns(self._ids)
        if not self._subscribers:
            return high, low, None
        return high, low, np.frombuffer(self._subscribers, dtype=">u8").astype(np.uint64)

    def to_bytes(self) -> bytes:
        """The body of a stored block."""
        return bytes(self._ids + self._subscribers)


def exact_shape(buffer_bytes: int, *, has_subscribers: bool) -> FilterShape:
    """The shape of blocks that fill such a buffer: bits per record, number of records, no hashing."""
    record_bytes = RECORD_BYTES + (SUBSCRIBER_BYTES if has_subscribers else 0)
    return FilterShape(8 * record_bytes, max(buffer_bytes // RECORD_BYTES, 1), 1)
