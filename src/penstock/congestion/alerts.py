"""Whether a subscriber-hosting broker answers a DCQ with a UCA ([Gryphon] section 3.1, eqs. 6 to 8).

Not recovering, it alerts if its horizon rate is below 1 by a margin, or if it lags behind by more than a threshold
(eq. 7, whose sign is wrong in print). Recovering, it alerts unless it moves faster than 1 by another margin. One query
gets at most one answer.

Not in the paper: a broker that is not recovering and has all that the pubend has said, or nearly, need not alert,
in either profile (``alert_lag_ms``; 0 for the paper's rule). The horizon of a pubend that says little moves in leaps,
and looks slow in between. It has not, however little it lags behind the query, if the query itself came late.
"""

from __future__ import annotations

from math import inf

from penstock.congestion.delay import QueryDelay
from penstock.congestion.horizon_rate import HorizonRate
from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.settings import CongestionSettings

__all__ = ["Alerts", "alert"]


def alert(
    settings: CongestionSettings, seq: int, *, rate: float, lag_ms: int, is_recovering: bool, late_ms: int = 0
) -> Uca | None:
    """The alert of a broker with this horizon rate and lag, if it has to give one on a query that came so late."""
    if is_recovering:
        return Uca(seq, inf, rate) if rate < 1 + settings.recovering_margin else None
    is_slow = rate < 1 - settings.nonrecovering_margin and max(lag_ms, late_ms) >= settings.alert_lag_ms
    if is_slow or lag_ms > settings.lag_ms_max:
        return Uca(seq, rate, inf, lag_ms)
    return None


class Alerts:
    """The answers of one edge stream."""

    def __init__(self, settings: CongestionSettings) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self.lag_ms = 0
        """How far the doubt horizon was behind the last query."""
        self.last: Uca | None = None
        """The last alert."""
        self._seq = -1
        self._delay = QueryDelay()

    def on_dcq(self, dcq: Dcq, horizon: int, rate: HorizonRate, *, now_ms: int) -> Uca | None:
        """A query has come; the alert to answer it with, if any."""
        if dcq.seq <= self._seq:
            return None
        self._seq = dcq.seq
        # The horizon is the first tick that is unknown, the position the last that is: equal streams do not lag.
        self.lag_ms = max(dcq.position + 1 - horizon, 0) >> 16
        late_ms = self._delay.on_query(dcq.sent_ms, now_ms=now_ms)
        recovering = rate.is_recovering(now_ms=now_ms)
        uca = alert(
            self.settings, dcq.seq, rate=rate.rate, lag_ms=self.lag_ms, is_recovering=recovering, late_ms=late_ms
        )
        self.last = uca or self.last
        return uca
