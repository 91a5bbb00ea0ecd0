"""The actual publication rate of a pubend, now and some time ago: counts in buckets of time."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["RateMeter"]

_BUCKET_MS: Final = 100
_BUCKETS_MAX: Final = 300
"""Buckets that are kept: half a minute."""


class RateMeter:
    """Counts messages as they get their ticks."""

    def __init__(self, *, now_ms: int) -> None:
        self._began_ms = now_ms
        self._buckets: deque[tuple[int, int]] = deque(maxlen=_BUCKETS_MAX)
        """Number of the bucket and messages in it; ascending, without empty ones."""

    def count(self, messages: int, *, now_ms: int) -> None:
        """So many messages are published now."""
        bucket = now_ms // _BUCKET_MS
        if self._buckets and self._buckets[-1][0] >= bucket:
            # The clock may have been set back: then they count for the latest time there was.
            bucket, before = self._buckets.pop()
            messages += before
        self._buckets.append((bucket, messages))

    def rate(self, *, until_ms: int, window_ms: int) -> float:
        """Messages per second in a window of time that ends then; less of it if the count began within it."""
        last = until_ms // _BUCKET_MS
        first = max(last - max(window_ms // _BUCKET_MS, 1), self._began_ms // _BUCKET_MS)
        # The bucket that the time falls into is not full yet, so the window ends before it.
        messages = sum(count for bucket, count in reversed(self._buckets) if first <= bucket < last)
        return messages * 1000 / ((last - first) * _BUCKET_MS) if first < last else 0.0
