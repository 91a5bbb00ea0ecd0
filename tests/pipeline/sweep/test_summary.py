"""Mean and Student's interval per cell and metric."""

from __future__ import annotations

import math

import pytest

from penstock.pipeline.sweep.plan import Run, planned
from penstock.pipeline.sweep.summary import estimate, student_t, summarised
from pipeline.toys import WAVE


@pytest.mark.parametrize(
    ("degrees", "t"),
    # From printed tables of the distribution, two-sided 95 %.
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (5, 2.57058),
        (9, 2.26216),
        (10, 2.22814),
        (30, 2.04227),
        (60, 2.00030),
        (99, 1.98422),
        (120, 1.97993),
        (1000, 1.96234),
        (1_000_000, 1.95997),
    ],
)
def test_quantiles_are_those_of_the_tables(degrees: int, t: float) -> None:
    assert student_t(degrees) == pytest.approx(t, abs=6e-5 if degrees == 1 else 6e-6)


def test_other_confidences_and_the_seam_between_both_ways_of_computing() -> None:
    assert student_t(10, 0.99) == pytest.approx(3.16927, abs=1e-5)
    assert student_t(400) - student_t(401) == pytest.approx(student_t(399) - student_t(400), rel=0.01)


def test_the_interval_of_a_mean() -> None:
    known = estimate([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (known.runs, known.mean) == (8, 5.0)
    assert known.deviation == pytest.approx(math.sqrt(32 / 7))
    assert known.high == pytest.approx(5 + 2.364624 * math.sqrt(32 / 7) / math.sqrt(8), abs=1e-5)
    assert known.low == pytest.approx(10 - (known.high or 0))


def test_one_run_has_no_interval_and_equal_runs_have_one_without_width() -> None:
    assert estimate([3.0]).deviation is estimate([3.0]).low is estimate([3.0]).high is None
    large = 1e15 + 1
    assert (estimate([large] * 3).low, estimate([large] * 3).high) == (large, large)


def test_cells_are_summed_up_apart_with_the_runs_that_were_finished() -> None:
    plan = planned(WAVE, grid=["size=1,2"], seeds="1..3")
    found = {Run(0, 1): {"a": 1.0}, Run(0, 3): {"a": 3.0, "b": 7.0}, Run(0, 99): {"a": 50.0}}
    first, second = summarised(plan, found)
    assert (first.parameters, first.runs) == ({"size": 1}, 2)
    assert (first.metrics["a"].mean, first.metrics["b"].runs) == (2.0, 1)
    assert (second.runs, second.metrics) == (0, {})
