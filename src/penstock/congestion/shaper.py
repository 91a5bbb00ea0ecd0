"""How many messages may get a tick now, at the rate that a pubend is allowed: a token bucket.

[Gryphon] section 4 counts per interval and withholds acknowledgements; here publishers wait before a tick is assigned,
and what is logged is acknowledged. The bucket is shallow, so that no burst follows a pause.
"""

from __future__ import annotations

from math import ceil, floor

from penstock.congestion.settings import CongestionSettings

__all__ = ["Shaper"]

_WHOLE = 1e-9
"""What a sum of fractions may lack of a whole token."""


class Shaper:
    """The messages of one pubend, spread over time."""

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
        """The rate from now on; what was saved up before is kept, within the new bound."""
        assert rate_msg_s is None or rate_msg_s > 0, f"rate {rate_msg_s} is not positive"
        if rate_msg_s == self._rate:
            return
        self._fill(now_ms)
        self._rate = rate_msg_s
        self._tokens = min(self._tokens, self._depth)

    def grant(self, wanted: int, *, now_ms: int) -> int:
        """How many of so many messages may get their ticks now; they are taken as published."""
        self._fill(now_ms)
        if self._rate is None:
            return wanted
        granted = min(wanted, max(floor(self._tokens + _WHOLE), 0))
        self._tokens -= granted
        return granted

    def grant_batch(self, messages: int, *, now_ms: int) -> bool:
        """Whether a batch may get its ticks now, all of it: the bucket owes what it lacks, the next waits longer."""
        self._fill(now_ms)
        if self._rate is None:
            return True
        if self._tokens + _WHOLE < 1:
            return False
        self._tokens -= messages
        return True

    def next_ms(self, *, now_ms: int) -> int:
        """When the next message may get its tick."""
        self._fill(now_ms)
        if self._rate is None or self._tokens + _WHOLE >= 1:
            return now_ms
        return now_ms + max(ceil((1 - self._tokens - _WHOLE) * 1000 / self._rate), 1)

    def check_invariants(self) -> None:
        """Fails if more is saved up than may come at once."""
        assert self._rate is None or self._tokens <= self._depth + _WHOLE

    @property
    def _depth(self) -> float:
        # Besides one whole message, what comes in while the broker is busy: else every turn of it would lose some.
        return 1.0 if self._rate is None else 1.0 + self._rate * self.settings.burst_ms / 1000

    def _fill(self, now_ms: int) -> None:
        elapsed_ms = max(now_ms - self._filled_ms, 0)
        self._filled_ms = now_ms
        if self._rate is not None:
            self._tokens = min(self._tokens + self._rate * elapsed_ms / 1000, self._depth)
