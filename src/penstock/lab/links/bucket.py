"""A token bucket that says how many bytes may pass a link now, and when there will be more."""

from __future__ import annotations

from typing import Final

__all__ = ["TokenBucket"]

_UNLIMITED: Final = 2**62


class TokenBucket:
    """Lets bytes pass at a rate; what was not used is saved up to a limit.

    >>> bucket = TokenBucket(1000.0, 100, now_s=0.0)
    >>> bucket.available(now_s=0.0), bucket.available(now_s=0.05), bucket.available(now_s=9.0)
    (0, 50, 100)
    >>> bucket.take(100)
    >>> bucket.wait_s(20, now_s=9.0)
    0.02
    """

    def __init__(self, rate_bytes_s: float, burst_bytes: int, *, now_s: float) -> None:
        assert burst_bytes > 0, f"a burst of {burst_bytes} bytes lets nothing pass"
        self._rate, self._burst = rate_bytes_s, burst_bytes
        self._tokens, self._at_s = 0.0, now_s

    @property
    def rate_bytes_s(self) -> float:
        """Bytes per second; 0 for no limit."""
        return self._rate

    def change(self, rate_bytes_s: float, burst_bytes: int, *, now_s: float) -> None:
        """Go on at another rate; what was saved counts as far as the new limit goes."""
        self._fill(now_s)
        self._rate, self._burst = rate_bytes_s, burst_bytes

    def available(self, *, now_s: float) -> int:
        """Bytes that may pass now."""
        self._fill(now_s)
        return int(self._tokens) if self._rate else _UNLIMITED

    def take(self, size: int) -> None:
        """So many bytes pass; no more than there are."""
        if self._rate:
            assert size <= self._tokens, f"{size} bytes pass, but only {self._tokens:.0f} may"
            self._tokens -= size

    def wait_s(self, size: int, *, now_s: float) -> float:
        """Time until so many bytes may pass, or as many as may ever pass at once."""
        self._fill(now_s)
        lacking = min(size, self._burst) - self._tokens
        return lacking / self._rate if self._rate and lacking > 0 else 0.0

    def _fill(self, now_s: float) -> None:
        # A clock that steps back gives nothing, and takes nothing.
        self._tokens = min(self._tokens + self._rate * max(0.0, now_s - self._at_s), float(self._burst))
        self._at_s = now_s
