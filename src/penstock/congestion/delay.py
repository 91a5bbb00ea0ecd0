"""How much later than at its fastest a query comes: what waits below the broker's own queues (beyond [Gryphon]).

DCQs overtake data in a broker's outboxes, but not what sockets and links already hold. What waits there shows in no lag
behind the query, only in the query's own delay. Clocks of brokers differ: so only the difference to the fastest query
of the last minute or two counts, within which clocks hardly drift. Where a clock is set nothing is late until it is
known anew what is usual.
"""

from __future__ import annotations

from typing import Final

__all__ = ["QueryDelay"]

_SPAN_MS: Final = 60_000
"""The fastest query is one of this span of time, or of the one before."""
_LATE_MS_MAX: Final = 10_000
"""What is later than this did not wait on a link: a clock was set."""


class QueryDelay:
    """The delay of the queries of one pubend, above the least."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._least_ms: int | None = None
        self._least_before_ms: int | None = None

    def on_query(self, sent_ms: int | None, *, now_ms: int) -> int:
        """A query has come that was sent at this time of its sender's clock, if that is known; how late it is."""
        if sent_ms is None:
            self._least_ms = self._least_before_ms = None
            return 0
        delay_ms = now_ms - sent_ms
        if self._above_least(delay_ms) > _LATE_MS_MAX:
            self._least_ms = self._least_before_ms = None
        if not 0 <= now_ms - self._since_ms < _SPAN_MS:
            self._since_ms, self._least_before_ms, self._least_ms = now_ms, self._least_ms, None
        self._least_ms = delay_ms if self._least_ms is None else min(self._least_ms, delay_ms)
        return self._above_least(delay_ms)

    def _above_least(self, delay_ms: int) -> int:
        known = [each for each in (self._least_ms, self._least_before_ms) if each is not None]
        return delay_ms - min(known, default=delay_ms)
