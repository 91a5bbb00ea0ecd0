"""Summarises a sweep cell by cell: the mean of each metric over the seeds, and its 95 % interval.

The interval is Student's, for the mean of n independent runs: mean ± t · s / √n. A single run has none. The quantile of
t is computed here, by the finite series of its distribution (Abramowitz and Stegun, 26.7.3 and 26.7.4), or by an
expansion around the normal quantile (26.7.5) where the series would be long and the expansion is accurate enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Final

from penstock.lab.frame.parameters import ParameterValue
from penstock.pipeline.sweep.plan import Run, SweepPlan

__all__ = ["CellSummary", "Estimate", "estimate", "student_t", "summarised"]

CONFIDENCE: Final = 0.95
_SERIES_MAX: Final = 400
_HALVINGS: Final = 80


@dataclass(slots=True, frozen=True)
class Estimate:
    """A mean over runs, and the 95 % confidence interval of the true mean."""

    runs: int
    mean: float
    deviation: float | None
    """The standard deviation of single runs; None for one run."""
    low: float | None
    high: float | None


@dataclass(slots=True, frozen=True)
class CellSummary:
    """The results in one cell of the grid."""

    parameters: Mapping[str, ParameterValue]
    """The swept parameters."""
    runs: int
    metrics: Mapping[str, Estimate]


def summarised(plan: SweepPlan, found: Mapping[Run, Mapping[str, float]]) -> list[CellSummary]:
    """Estimate every metric in every cell, from the runs that measured it."""
    cells = []
    for cell in range(len(plan.cells)):
        runs = [found[run] for seed in plan.seeds if (run := Run(cell, seed)) in found]
        values: dict[str, list[float]] = {}
        for measured in runs:
            for metric, value in measured.items():
                values.setdefault(metric, []).append(value)
        estimates = {metric: estimate(each) for metric, each in values.items()}
        cells.append(CellSummary(plan.swept(cell), len(runs), estimates))
    return cells


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and interval of some values."""
    count, mean = len(values), fmean(values)
    if count == 1:
        return Estimate(1, mean, None, None, None)
    # Around the mean, since subtracting the squared sum from the sum of squares cancels all digits of large values.
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = student_t(count - 1) * deviation / math.sqrt(count)
    return Estimate(count, mean, deviation, mean - half, mean + half)


def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The bound ±t within which a Student variable with these degrees of freedom lies with this confidence."""
    assert degrees >= 1
    if degrees > _SERIES_MAX:
        return _expanded(degrees, confidence)
    # Bisection over the angle, in which the distribution is smooth and bounded.
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    """The probability that a Student variable is between ± tan(angle) · √degrees."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(1 if odd else 0, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _expanded(degrees: int, confidence: float) -> float:
    x = NormalDist().inv_cdf((1 + confidence) / 2)
    first = (x**3 + x) / 4
    second = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    third = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    return x + first / degrees + second / degrees**2 + third / degrees**3
