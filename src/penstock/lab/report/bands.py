"""Bands: where a measured figure must lie for a run to count as reproducing what was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Band", "at_least", "at_most", "between", "exactly"]


@dataclass(slots=True, frozen=True)
class Band:
    """The lowest and the highest allowed value; None for no limit."""

    low: float | None = None
    high: float | None = None
    of: str = ""
    """If set, the limits are multiples of this metric of the same run."""

    def __post_init__(self) -> None:
        assert self.low is not None or self.high is not None, "a band without limits says nothing"
        assert self.low is None or self.high is None or self.low <= self.high, "a band is upside down"

    def has(self, value: float, measured: Mapping[str, float]) -> bool | None:
        """Whether a value lies within the band; None if the metric that scales the limits was not measured."""
        unit = 1.0 if not self.of else measured.get(self.of)
        if unit is None:
            return None
        return (self.low is None or value >= self.low * unit) and (self.high is None or value <= self.high * unit)

    @property
    def is_law(self) -> bool:
        """Whether only one value is allowed; this then holds for runs of any size."""
        return self.low == self.high

    @property
    def text(self) -> str:
        """The band as text for people."""
        unit = f" × {self.of}" if self.of else ""
        if self.low is None:
            return f"≤ {_shown(self.high)}{unit}"
        if self.high is None:
            return f"≥ {_shown(self.low)}{unit}"
        if self.low == self.high:
            return f"{_shown(self.low)}{unit}"
        return f"{_shown(self.low)} to {_shown(self.high)}{unit}"


def at_most(high: float, *, of: str = "") -> Band:
    """A band without a lower limit."""
    return Band(None, high, of)


def at_least(low: float) -> Band:
    """A band without an upper limit."""
    return Band(low)


def between(low: float, high: float, *, of: str = "") -> Band:
    """A band with both limits."""
    return Band(low, high, of)


def exactly(value: float) -> Band:
    """A band of one value."""
    return Band(value, value)


def _shown(limit: float | None) -> str:
    """A limit without an exponent, however large."""
    assert limit is not None
    return f"{limit:,.0f}" if abs(limit) >= 100_000 else f"{limit:,g}"
