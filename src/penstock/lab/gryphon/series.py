"""Samples of a run over time, and figures computed from them: rates, means, time to adapt.

Rates are in messages per second over all pubends, unless stated otherwise. An event that never happens counts as taking
the whole observation, so that every figure is finite: if a recovery is as long as the observation, there was none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

__all__ = ["Point", "Sample", "adapt_s", "between", "mean", "mean_rate", "rates", "smoothed", "spearman"]

Point: TypeAlias = tuple[float, float]
"""Time in seconds, and a figure."""


@dataclass(slots=True, frozen=True)
class Sample:
    """The state of an overlay at one time."""

    at_s: float
    published: tuple[int, ...]
    """Messages that have become durable, by pubend."""
    allowed: tuple[float, ...]
    """Allowed rates, by pubend; infinite without limit."""
    delivered: Mapping[str, int]
    """Messages that subscribers have received, by host."""
    lag_s: Mapping[str, float]
    """By host: how far its slowest edge stream is behind."""
    queued_bytes: Mapping[str, int]
    """Bytes waiting to be sent, by link; in live runs, by broker."""
    windows_ms: Mapping[str, tuple[int, ...]]
    """By host: the NACK windows of its streams."""
    horizon_rates: Mapping[str, tuple[float, ...]]
    """By host: the smoothed horizon rates of its streams."""
    recovering: Mapping[str, bool]
    """By host: whether any of its streams is recovering."""


def rates(samples: Sequence[Sample], count: Callable[[Sample], float]) -> list[Point]:
    """How fast a count grew between consecutive samples, at the time of the later one."""
    return [
        (later.at_s, (count(later) - count(earlier)) / (later.at_s - earlier.at_s))
        for earlier, later in pairwise(samples)
        if later.at_s > earlier.at_s
    ]


def smoothed(points: Sequence[Point], seconds: float = 5.0) -> list[Point]:
    """Means over the last ``seconds`` up to each point."""
    found: list[Point] = []
    start, total = 0, 0.0
    for place, (at_s, figure) in enumerate(points):
        total += figure
        while points[start][0] <= at_s - seconds:
            total -= points[start][1]
            start += 1
        found.append((at_s, total / (place + 1 - start)))
    return found


def between(samples: Sequence[Sample], first_s: float, last_s: float) -> list[Sample]:
    """The samples between two times, both included."""
    return [each for each in samples if first_s <= each.at_s <= last_s]


def mean(figures: Sequence[float]) -> float:
    """The mean; 0 if there are no figures."""
    return sum(figures) / len(figures) if figures else 0.0


def mean_rate(samples: Sequence[Sample], count: Callable[[Sample], float], *, first_s: float, last_s: float) -> float:
    """How fast a count grew between two times; 0 if they have fewer than two samples."""
    window = between(samples, first_s, last_s)
    if len(window) < 2:
        return 0.0
    return (count(window[-1]) - count(window[0])) / (window[-1].at_s - window[0].at_s)


def adapt_s(points: Sequence[Point], first_s: float, last_s: float) -> float:
    """Time from a change until the smoothed rate is within a quarter of its mean over the rest; all of it if never."""
    window = [each for each in smoothed(points) if first_s < each[0] <= last_s]
    total = sum(figure for _, figure in window)
    for place, (at_s, figure) in enumerate(window):
        rest = total / (len(window) - place)
        if abs(figure - rest) <= 0.25 * rest and place < len(window) - 1:
            return at_s - first_s
        total -= figure
    return last_s - first_s


def spearman(ones: Sequence[float], others: Sequence[float]) -> float:
    """Spearman's rank correlation; equal figures share their mean rank; 0 if all figures of one side are equal."""
    first, second = _ranks(ones), _ranks(others)
    middle = (len(first) - 1) / 2
    product = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    scale = sum((a - middle) ** 2 for a in first) * sum((b - middle) ** 2 for b in second)
    return product / scale**0.5 if scale else 0.0


def _ranks(figures: Sequence[float]) -> list[float]:
    return [
        sum(other < figure for other in figures) + (sum(other == figure for other in figures) - 1) / 2
        for figure in figures
    ]
