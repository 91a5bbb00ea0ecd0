"""Decides whether a subscriber-hosting broker answers a DCQ with a UCA ([Gryphon] section 3.1, eqs. 6 to 8).

A broker that is not recovering alerts if its horizon rate is below 1 by a margin, or if it lags by more than a
threshold (eq. 7, whose sign is wrong in print). A recovering broker alerts unless its rate is above 1 by another
margin. Each query gets at most one answer.

Not in the paper: in either profile, a broker that is not recovering and has received nearly everything the pubend has
sent need not alert (``alert_lag_ms``; 0 for the paper's rule). The horizon of a pubend that sends little moves in
leaps, and looks slow in between. If the query itself came late, a small lag behind it proves nothing.

How late queries come reveals backlogs below the broker's own queues (also beyond [Gryphon]). DCQs overtake data in a
broker's outboxes, but not data that sockets and links already hold. That backlog does not show as lag behind the query,
only as delay of the query itself. Brokers' clocks differ, so only the difference to the fastest query of the last
minute or two counts; clocks hardly drift in that time. After a clock was set, no query is late until the usual delay is
known again.
"""

from __future__ import annotations

from math import inf
from typing import Final

from penstock.congestion.horizon_rate import HorizonRate
from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.settings import CongestionSettings

__all__ = ["Alerts", "QueryDelay", "alert"]

_SPAN_MS: Final = 60_000
"""The fastest query is looked for in the present span of this length and the one before."""
_LATE_MS_MAX: Final = 10_000
"""A query later than this did not wait on a link: a clock was set."""


def alert(
    settings: CongestionSettings, seq: int, *, rate: float, lag_ms: int, is_recovering: bool, late_ms: int = 0
) -> Uca | None:
    """The alert that a broker with this horizon rate and lag owes a query that came this late, if any."""
    if is_recovering:
        return Uca(seq, inf, rate) if rate < 1 + settings.recovering_margin else None
    is_slow = rate < 1 - settings.nonrecovering_margin and max(lag_ms, late_ms) >= settings.alert_lag_ms
    if is_slow or lag_ms > settings.lag_ms_max:
        return Uca(seq, rate, inf, lag_ms)
    return None


class Alerts:
    """Answers the queries for one edge stream."""

    def __init__(self, settings: CongestionSettings) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self.lag_ms = 0
        """Lag of the doubt horizon behind the last query."""
        self.last: Uca | None = None
        """The last alert."""
        self._seq = -1
        self._delay = QueryDelay()

    def on_dcq(self, dcq: Dcq, horizon: int, rate: HorizonRate, *, now_ms: int) -> Uca | None:
        """The alert to answer a query with, if any."""
        if dcq.seq <= self._seq:
            return None
        self._seq = dcq.seq
        # The horizon is the first unknown tick, the position the last known one: a stream that is level has no lag.
        self.lag_ms = max(dcq.position + 1 - horizon, 0) >> 16
        late_ms = self._delay.on_query(dcq.sent_ms, now_ms=now_ms)
        recovering = rate.is_recovering(now_ms=now_ms)
        uca = alert(
            self.settings, dcq.seq, rate=rate.rate, lag_ms=self.lag_ms, is_recovering=recovering, late_ms=late_ms
        )
        self.last = uca or self.last
        return uca


class QueryDelay:
    """The delay of one pubend's queries above the least one."""

    def __init__(self) -> None:
        self._since_ms = 0
        self._least_ms: int | None = None
        self._least_before_ms: int | None = None

    def on_query(self, sent_ms: int | None, *, now_ms: int) -> int:
        """How late a query is that was sent at this time by its sender's clock; 0 if that time is unknown."""
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
