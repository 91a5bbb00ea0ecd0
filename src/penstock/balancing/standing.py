"""The standing of a broker or cluster: its state, and when it is steady after a session ([PADRES] section 3.2)."""

from __future__ import annotations

from penstock.balancing.detection import Band, Triggers, band_of
from penstock.balancing.metrics import Load
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State, Stimulus, after
from penstock.model.metrics import BALANCED

__all__ = ["Standing"]


class Standing:
    """The state of one broker or cluster; it changes only by the transition table."""

    def __init__(self, settings: BalancingSettings, triggers: Triggers) -> None:
        self._settings, self._triggers = settings, triggers
        self.state = State.OK
        self.since_ms = 0
        """When it entered this state."""
        self.changed = False
        """Whether the state has changed since it was last published."""
        self._steady_ms: int | None = None
        """The last detection run in which no metric had moved by much since the run before; at first, the first run."""
        self._former: Load | None = None

    def apply(self, stimulus: Stimulus, *, now_ms: int) -> bool:
        """Apply a stimulus; returns whether it led to another state."""
        following = after(self.state, stimulus)
        if following is None:
            return False
        self.state, self.since_ms, self.changed = following, now_ms, True
        self._former = None
        return True

    def look(self, load: Load, *, now_ms: int, is_loaded: bool | None = None) -> None:
        """Update the state by a detection run: overload, relief, steadiness. ``is_loaded`` overrides the usual rule."""
        loaded = band_of(load, self._settings) is not Band.CALM if is_loaded is None else is_loaded
        is_steady = self._has_not_moved(load)
        if is_steady or self._steady_ms is None:
            self._steady_ms = now_ms
        self.apply(Stimulus.LOADED if loaded else Stimulus.RELIEVED, now_ms=now_ms)
        if self.state is State.STABILIZING:
            has_waited = now_ms - self.since_ms >= self._settings.stabilize_ms
            if has_waited and is_steady:
                self.apply(Stimulus.STEADY, now_ms=now_ms)
        self._former = load

    def overload(self, *, now_ms: int) -> float:
        """The threshold above which it must shed load now.

        The paper's inert period between the two thresholds has no end: a broker could stay there, out of balance, for
        ever. Ours ends.
        """
        is_inert = self.state is State.NOT_AVAILABLE and now_ms - self.since_ms >= self._settings.inert_ms
        return self._settings.lower_overload if is_inert else self._settings.higher_overload

    def start_offloading(self, load: Load, *, now_ms: int) -> bool:
        """Start offloading if the state allows it; returns whether it does."""
        return self.apply(self._stimulus(load, now_ms), now_ms=now_ms)

    def is_moving(self, *, now_ms: int) -> bool:
        """Whether metrics are moving, and have been for less than the time allowed to settle after a session.

        The limit is needed where few messages are measured at a time: there metrics always move.
        """
        return self._steady_ms is None or 0 < now_ms - self._steady_ms < self._settings.stabilize_ms

    def may_offload(self, load: Load, *, now_ms: int) -> bool:
        """Whether the state allows offloading now."""
        return after(self.state, self._stimulus(load, now_ms)) is not None

    def _stimulus(self, load: Load, now_ms: int) -> Stimulus:
        band = band_of(load, self._settings, overload=self.overload(now_ms=now_ms))
        return Stimulus.OFFLOADS_OVERLOADED if band is Band.OVERLOADED else Stimulus.OFFLOADS

    def _has_not_moved(self, load: Load) -> bool:
        former = self._former
        if former is None:
            return False
        limit = self._settings.stabilize_share
        return all(abs(self._triggers.difference(metric, load, former)) <= limit for metric in BALANCED)
