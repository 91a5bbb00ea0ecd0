"""Consolidates UCAs at an intermediate broker: running minima, one alert per query ([Gryphon] fig. 5).

The printed figure lost the line that keeps the minimum of the recovering rates; it mirrors the other one.

Beyond the paper: the greatest lag and the name of the slowest host are kept in the same way, and minima that have
waited too long may be dropped (``minima_ms``): a much later alert would carry a rate that no host has any more.
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
        """The newest query for which an alert was passed up; the paper starts at 0, which is a valid query here."""

    def on_uca(self, uca: Uca) -> Uca | None:
        """Takes an alert from downstream; returns the one to pass up now, if any. One held back feeds the next."""
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
