"""A token bucket: decides how many messages may get a tick now at a pubend's allowed rate.

[Gryphon] section 4 counts per interval and withholds acknowledgements; here publishers wait before a tick is assigned,
and every logged message is acknowledged. The bucket is shallow, so that no burst follows a pause.
"""

from __future__ import annotations

from math import ceil, floor

from penstock.congestion.settings import CongestionSettings

__all__ = ["Shaper"]

_WHOLE = 1e-9
"""Rounding error allowed when fractions add up to a whole token."""


class Shaper:
    """Spreads the messages of one pubend over time."""

    def __init__(self, settings: CongestionSettings, *, now_ms: int) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self._rate: float | None = None
        self._tokens = 0.0
        self._filled_ms = now_ms

    @property
    def rate_msg_s(self) -> float | None:
        """Messages per second; None without limit."""
        return self._rate

    def set_rate(self, rate_msg_s: float | None, *, now_ms: int) -> None:
        """Sets the rate; tokens already saved up are kept, within the new bound."""
        assert rate_msg_s is None or rate_msg_s > 0, f"rate {rate_msg_s} is not positive"
        if rate_msg_s == self._rate:
            return
        self._fill(now_ms)
        self._rate = rate_msg_s
        self._tokens = min(self._tokens, self._depth)

    def grant(self, wanted: int, *, now_ms: int) -> int:
        """How many of these messages may get their ticks now; they count as published."""
        self._fill(now_ms)
        if self._rate is None:
            return wanted
        granted = min(wanted, max(floor(self._tokens + _WHOLE), 0))
        self._tokens -= granted
        return granted

    def next_ms(self, *, now_ms: int) -> int:
        """When the next message may get its tick."""
        self._fill(now_ms)
        if self._rate is None or self._tokens + _WHOLE >= 1:
            return now_ms
        return now_ms + max(ceil((1 - self._tokens - _WHOLE) * 1000 / self._rate), 1)

    def check_invariants(self) -> None:
        """Fails if more tokens are saved up than the bucket can hold."""
        assert self._rate is None or self._tokens <= self._depth + _WHOLE

    @property
    def _depth(self) -> float:
        # One whole message, plus what accrues while the broker is busy: otherwise every turn of it would lose some.
        return 1.0 if self._rate is None else 1.0 + self._rate * self.settings.burst_ms / 1000

    def _fill(self, now_ms: int) -> None:
        elapsed_ms = max(now_ms - self._filled_ms, 0)
        self._filled_ms = now_ms
        if self._rate is not None:
            self._tokens = min(self._tokens + self._rate * elapsed_ms / 1000, self._depth)
