"""Estimates a broker's load after subscribers have come or gone ([PADRES] section 4.2).

The paper's d'm = dm · (n + Δn) / n is a line through the origin. A live index does not follow it: there d = a + b · n
is fitted to the measurements. Ir and Or follow from their definitions. CPU is assumed to change with the input
utilisation, memory with the subscriptions (both ours: the paper does not say).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any, Final

from penstock.balancing.metrics import Load, LoadMeter
from penstock.model.metrics import METRICS

__all__ = ["DelayFit", "Figures", "accuracy", "figures_of"]

_FORGET: Final = 0.97
"""The weight a measurement keeps when the next one comes: a line is fitted to about the last thirty."""
_SPREAD_MIN: Final = 0.05
"""The number of subscriptions must have varied by this share before a fitted line is trusted."""


@dataclass(slots=True, frozen=True)
class Figures:
    """The quantities that determine one broker's load; numbers, or arrays for many cases at once."""

    rate_msg_s: Any
    """Publications coming in, per second."""
    subscriptions: Any
    """Subscriptions in the matching engine."""
    bytes_out_s: Any
    bandwidth: float
    """Bytes per second the broker can send."""
    delay_base_s: float
    """Matching delay without any subscription: a of the line."""
    delay_slope_s: float
    """Matching delay per subscription: b of the line."""
    cpu: Any = 0.0
    memory: Any = 0.0
    memory_per_subscription: float = 0.0

    @property
    def delay_s(self) -> Any:
        """Matching delay."""
        return self.delay_base_s + self.delay_slope_s * self.subscriptions

    @property
    def input(self) -> Any:
        """Input utilisation, Ir."""
        return self.rate_msg_s * self.delay_s

    @property
    def output(self) -> Any:
        """Output utilisation, Or."""
        return self.bytes_out_s / self.bandwidth

    def load(self) -> Load:
        """These figures as a load; only for single numbers."""
        return Load(**{each.key: float(each.of(self)) for each in METRICS})

    def changed(self, *, rate: Any = 0.0, subscriptions: Any = 0, bytes_out: Any = 0.0) -> Figures:
        """The figures of the same broker after these changes, up or down."""
        after = replace(
            self,
            rate_msg_s=self.rate_msg_s + rate,
            subscriptions=self.subscriptions + subscriptions,
            bytes_out_s=self.bytes_out_s + bytes_out,
        )
        return replace(
            after,
            cpu=self.cpu + (after.input - self.input),
            memory=self.memory + self.memory_per_subscription * subscriptions,
        )

    def is_sound(self) -> bool:
        """Whether a broker can have these figures: peers' figures are not trusted blindly."""
        values = [getattr(self, each.name) for each in fields(self)]
        if not all(isinstance(each, int | float) and isfinite(each) and 0 <= each <= 1e15 for each in values):
            return False
        return self.bandwidth > 0


class DelayFit:
    """A line fitted to measured matching delays over the number of subscriptions; old measurements fade."""

    def __init__(self, *, is_proportional: bool = False) -> None:
        self._is_proportional = is_proportional
        self._weight = self._n = self._d = self._nn = self._nd = 0.0

    def add(self, subscriptions: float, delay_s: float) -> None:
        """Add a measurement."""
        if subscriptions <= 0 or delay_s <= 0:
            return
        self._weight = self._weight * _FORGET + 1
        self._n = self._n * _FORGET + subscriptions
        self._d = self._d * _FORGET + delay_s
        self._nn = self._nn * _FORGET + subscriptions * subscriptions
        self._nd = self._nd * _FORGET + subscriptions * delay_s

    def line(self, subscriptions: float, delay_s: float) -> tuple[float, float]:
        """Base and slope of the line, which goes through the present point; zeros if nothing was measured.

        Without enough variation it is the paper's line. It never falls, and is never steeper than the paper's. A broker
        that never had subscriptions, such as a head with publishers only, has a base and no slope.
        """
        if not self._weight:
            return (max(delay_s, 0.0) if subscriptions <= 0 else 0.0), 0.0
        mean_n, mean_d = self._n / self._weight, self._d / self._weight
        if subscriptions <= 0 or delay_s <= 0:
            subscriptions, delay_s = mean_n, mean_d
        slope = delay_s / subscriptions
        spread = self._nn / self._weight - mean_n**2
        if not self._is_proportional and spread > (_SPREAD_MIN * mean_n) ** 2:
            fitted = (self._nd / self._weight - mean_n * mean_d) / spread
            # The line neither falls nor starts below zero: noise must not promise the impossible.
            slope = min(max(fitted, 0.0), slope)
        # Rounding may leave a trace below zero, and peers reject negative figures.
        return max(delay_s - slope * subscriptions, 0.0), slope


def figures_of(meter: LoadMeter, fit: DelayFit) -> Figures:
    """The quantities that determine a broker's load, as measured."""
    base, slope = fit.line(meter.subscriptions_mean, meter.delay_s)
    latest = meter.latest
    return Figures(
        rate_msg_s=meter.rate_msg_s,
        subscriptions=latest.subscriptions if latest else 0,
        bytes_out_s=meter.bytes_out_s,
        bandwidth=meter.output_bandwidth,
        delay_base_s=base,
        delay_slope_s=slope,
        cpu=meter.load.cpu,
        memory=meter.load.memory,
        memory_per_subscription=latest.memory_per_subscription if latest else 0.0,
    )


def accuracy(estimated: float, actual: float) -> float:
    """The accuracy of an estimate, as a fraction: 1 is exact; below zero counts as zero."""
    if estimated == actual:
        return 1.0
    return max(0.0, 1.0 - abs(estimated - actual) / max(abs(actual), 1e-12))
