"""What an intermediate broker does with UCAs: running minima, one alert per query ([Gryphon] fig. 5).

Print lost the line that keeps the minimum of the recovering rates; it is the same as for the others.

Beyond the paper: the greatest lag and the name of the slowest are kept in the same way; and minima may be given up when
they have waited for long (``minima_ms``), since an alert much later would carry a rate that nobody has any more.
"""

from __future__ import annotations

from math import inf

from penstock.congestion.messages import Uca
from penstock.congestion.settings import CongestionSettings

__all__ = ["UcaConsolidation"]


class UcaConsolidation:
    """The alerts of one pubend at one intermediate broker."""

    def __init__(self, settings: CongestionSettings) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self._fed_seq = -1
        self._min_nonrec = self._min_rec = inf
        self._lag_ms, self._slowest = 0, Uca(-1)
        self.seq = -1
        """The newest query that an alert was passed for; that of the paper starts at 0, which ours may be."""

    def on_uca(self, uca: Uca) -> Uca | None:
        """An alert from below; what to pass up now, if anything. What is not passed feeds the next."""
        if self.settings.minima_ms and uca.seq - self._fed_seq > self.settings.minima_ms << 16:
            self._reset()
        self._fed_seq = max(self._fed_seq, uca.seq)
        self._min_nonrec = min(self._min_nonrec, uca.min_nonrec)
        self._min_rec = min(self._min_rec, uca.min_rec)
        self._lag_ms = max(self._lag_ms, uca.lag_ms)
        if uca.slowest < self._slowest.slowest:
            self._slowest = uca
        if uca.seq <= self.seq:
            return None
        passed = Uca(uca.seq, self._min_nonrec, self._min_rec, self._lag_ms, self._slowest.host)
        self.seq = uca.seq
        self._reset()
        return passed

    def _reset(self) -> None:
        self._min_nonrec = self._min_rec = inf
        self._lag_ms, self._slowest = 0, Uca(-1)
