"""Measures the horizon rate of an edge stream, and tells whether its broker is recovering ([Gryphon] section 4).

The horizon rate t is how many ticks the horizon advances per unit of time (eq. 11; eq. 4 is printed upside down), in
tick-seconds per second: at 1 it keeps up with the pubend, whatever that publishes. It is smoothed (eq. 5), starting
from 1. A broker is recovering if it has lately ignored ticks beyond its receive window. Sending NACKs does not count:
one lost message is enough to cause them.

The paper leaves the sampling period open. A late sample weighs as much as all the samples it stands for.
"""

from __future__ import annotations

from penstock.congestion.settings import CongestionSettings

__all__ = ["HorizonRate"]

_TICKS_PER_MS = 1 << 16


class HorizonRate:
    """The horizon rate of one edge stream."""

    def __init__(self, settings: CongestionSettings, horizon: int, *, now_ms: int) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self.rate = 1.0
        """The smoothed rate, in tick-seconds per second."""
        self._horizon, self._sampled_ms = horizon, now_ms
        self._ignored_ticks = 0
        self._ignored_ms: int | None = None

    def next_deadline(self) -> int:
        """When to take the next sample."""
        return self._sampled_ms + self.settings.sample_ms

    def on_deadline(self, horizon: int, *, now_ms: int) -> bool:
        """Takes a sample if it is due; returns whether it was."""
        elapsed_ms = now_ms - self._sampled_ms
        if elapsed_ms < self.settings.sample_ms:
            if elapsed_ms < 0:
                # The clock was set back: the previous sample cannot be compared.
                self._horizon, self._sampled_ms = horizon, now_ms
            return False
        # A horizon never moves back; a stream that restarted elsewhere has no rate yet.
        sample = max(0, horizon - self._horizon) / _TICKS_PER_MS / elapsed_ms
        kept = (1 - self.settings.smoothing) ** (elapsed_ms / self.settings.sample_ms)
        self.rate = kept * self.rate + (1 - kept) * sample
        self._horizon, self._sampled_ms = horizon, now_ms
        return True

    def restart(self, horizon: int, *, now_ms: int) -> None:
        """Restarts the measurement here: earlier samples say nothing about the present speed."""
        self.rate = 1.0
        self._horizon, self._sampled_ms = horizon, now_ms

    def on_ignored(self, ignored_ticks: int, *, now_ms: int) -> None:
        """Takes the number of ticks the stream has ignored so far because they lay beyond its window."""
        if ignored_ticks > self._ignored_ticks:
            self._ignored_ms = now_ms
        self._ignored_ticks = ignored_ticks

    def is_recovering(self, *, now_ms: int) -> bool:
        """Whether ticks were ignored lately."""
        return self._ignored_ms is not None and now_ms - self._ignored_ms <= self.settings.recovering_ms
