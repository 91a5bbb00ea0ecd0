"""Congestion control of one edge stream at its subscriber-hosting broker: horizon rate, alerts, NACK window.

[Gryphon] sections 3 and 4. Only the shared edge stream has this control: a single subscriber's catch-up must not slow
its publishers; if it needs a NACK window, it uses a ``NackControl`` alone.

Not in the paper: a host that has heard no query for long was cut off, not congested. It then restarts its horizon rate
at 1; otherwise its recovery would begin with alerts of a rate near 0, whatever it demands.
"""

from __future__ import annotations

from typing import Final

from penstock.congestion.alerts import Alerts
from penstock.congestion.horizon_rate import HorizonRate
from penstock.congestion.messages import Dcq, Uca
from penstock.congestion.sdcc import NackControl, NackGroup
from penstock.congestion.settings import CongestionSettings

__all__ = ["EdgeControl"]

_DEAF_INTERVALS: Final = 5
"""A host that misses more queries than this in a row was cut off."""


class EdgeControl:
    """Measures congestion and alerts for one pubend at a host."""

    def __init__(
        self,
        settings: CongestionSettings,
        horizon: int,
        *,
        receive_window_ms: int,
        now_ms: int,
        group: NackGroup | None = None,
    ) -> None:
        self._settings = settings
        self.horizon_rate = HorizonRate(settings, horizon, now_ms=now_ms)
        self.alerts = Alerts(settings)
        self.nacks = NackControl(settings, receive_window_ms=receive_window_ms, group=group)
        self._asked_ms: int | None = None

    def tune(self, settings: CongestionSettings) -> None:
        """Applies other settings from now on."""
        self._settings = settings
        self.horizon_rate.settings = self.alerts.settings = self.nacks.settings = settings

    def next_deadline(self) -> int | None:
        """When to take the next sample of the doubt horizon."""
        return self.horizon_rate.next_deadline() if self._settings.pdcc else None

    def on_deadline(self, horizon: int, ignored_ticks: int, *, now_ms: int) -> None:
        """Takes a sample of the doubt horizon, if it is due."""
        self.horizon_rate.on_ignored(ignored_ticks, now_ms=now_ms)
        self.horizon_rate.on_deadline(horizon, now_ms=now_ms)

    def on_dcq(self, dcq: Dcq, horizon: int, ignored_ticks: int, *, now_ms: int) -> Uca | None:
        """The alert to answer a query with, if any."""
        self.on_deadline(horizon, ignored_ticks, now_ms=now_ms)
        if not self._settings.pdcc:
            return None
        deaf_ms = _DEAF_INTERVALS * max(self._settings.dcq_interval_ms, self._settings.dcq_interval_limited_ms)
        if self._asked_ms is not None and now_ms - self._asked_ms > deaf_ms:
            self.horizon_rate.restart(horizon, now_ms=now_ms)
        self._asked_ms = now_ms
        return self.alerts.on_dcq(dcq, horizon, self.horizon_rate, now_ms=now_ms)

    def is_recovering(self, *, now_ms: int) -> bool:
        """Whether the stream has ignored ticks lately."""
        return self.horizon_rate.is_recovering(now_ms=now_ms)
