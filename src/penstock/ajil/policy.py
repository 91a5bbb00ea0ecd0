"""Slowdown policies: how much of its quota a channel in the reaction domain loses ([Ajil] sections 4.2 and 5.6).

The global percentage is relative to the estimate: p = (E - L) / E. Relative to the limit it would cut more than the
excess, and traffic would oscillate twice as much. The paper's naive policy is here for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.ajil.amounts import Floats

__all__ = ["FlatTax", "GlobalPercentage", "LocalPercentage", "NaiveZero", "SlowdownPolicy"]


class SlowdownPolicy(Protocol):
    """Decides how much of each quota is cut."""

    def cut(self, quota: Floats, multiplier: Floats, *, estimate: float, limit: float) -> Floats:
        """The full cut of each quota in this epoch; may exceed the quota."""


@dataclass(slots=True, frozen=True)
class FlatTax:
    """Each channel slows down by a constant."""

    tax: float
    """Per epoch."""

    def cut(self, quota: Floats, multiplier: Floats, *, estimate: float, limit: float) -> Floats:  # noqa: ARG002
        """The tax times the multiplier."""
        return multiplier * self.tax


@dataclass(slots=True, frozen=True)
class LocalPercentage:
    """Each channel slows down by a fixed share of its quota."""

    fraction: float

    def cut(self, quota: Floats, multiplier: Floats, *, estimate: float, limit: float) -> Floats:  # noqa: ARG002
        """The share times the multiplier."""
        return multiplier * (self.fraction * quota)


@dataclass(slots=True, frozen=True)
class GlobalPercentage:
    """Each channel slows down by the share of the traffic that exceeds the limit."""

    def cut(self, quota: Floats, multiplier: Floats, *, estimate: float, limit: float) -> Floats:
        """The excess share times the multiplier."""
        return multiplier * ((estimate - limit) / estimate * quota)


@dataclass(slots=True, frozen=True)
class NaiveZero:
    """Each channel stops altogether, whenever it is in the domain."""

    def cut(self, quota: Floats, multiplier: Floats, *, estimate: float, limit: float) -> Floats:  # noqa: ARG002
        """The whole quota."""
        return np.array(quota)
