"""What is read from figures over time."""

from __future__ import annotations

import pytest

from penstock.lab.gryphon.series import Sample, adapt_s, between, mean, mean_rate, rates, smoothed, spearman


def sample(at_s: float, count: int) -> Sample:
    return Sample(at_s, (count,), (), {}, {}, {}, {}, {}, {})


SAMPLES = [sample(second, count) for second, count in enumerate((0, 10, 30, 60))]


def test_rates_are_those_between_two_samples() -> None:
    assert rates(SAMPLES, lambda each: each.published[0]) == [(1, 10), (2, 20), (3, 30)]
    assert rates([SAMPLES[0], SAMPLES[0]], lambda each: each.published[0]) == []


def test_smoothing_looks_back_only() -> None:
    assert smoothed([(1, 10), (2, 20), (3, 30)], seconds=2) == [(1, 10), (2, 15), (3, 25)]


def test_means_and_windows() -> None:
    assert [each.at_s for each in between(SAMPLES, 1, 2)] == [1, 2]
    assert mean([]) == 0
    assert mean([1, 2]) == 1.5
    assert mean_rate(SAMPLES, lambda each: each.published[0], first_s=0, last_s=3) == 20
    assert mean_rate(SAMPLES, lambda each: each.published[0], first_s=2.5, last_s=3) == 0


def test_time_to_adapt_ends_where_the_rate_is_near_its_mean_over_the_rest() -> None:
    points = [(float(at), 500.0) for at in range(1, 11)] + [(float(at), 100.0) for at in range(11, 61)]
    # The mean over five seconds is within a quarter of the rest when they are all low but for a small part.
    assert adapt_s(points, 10, 60) == 5
    assert adapt_s(points, 0, 10) == 1


def test_what_never_adapts_counts_as_all_of_the_time() -> None:
    points = [(float(at), 2.0**at) for at in range(1, 31)]
    assert adapt_s(points, 0, 30) == 30


@pytest.mark.parametrize(
    ("others", "correlation"),
    [([4, 3, 2, 1], -1), ([1, 2, 3, 4], 1), ([5, 5, 5, 5], 0), ([4, 2, 3, 1], -0.8), ([2, 2, 1, 1], -0.8944)],
)
def test_rank_correlation(others: list[float], correlation: float) -> None:
    assert spearman([1, 2, 3, 4], others) == pytest.approx(correlation, abs=1e-4)
