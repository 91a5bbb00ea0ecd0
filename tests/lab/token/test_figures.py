"""Operations at once and intervals, counted by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.lab.token.figures import concurrency, intervals, overlap_share, random_access, ratio


def test_time_is_shared_out_by_operations_at_once() -> None:
    # Operations of 4: 0..4, 4..8 (back to back), 10..14, 12..16, 13..17.
    shares = concurrency([0, 4, 10, 12, 13], 4, first_ms=0, last_ms=20)
    assert shares.tolist() == [5.0, 11.0, 3.0, 1.0, 0.0, 0.0, 0.0]
    assert shares.sum() == 20


def test_only_the_time_between_two_instants_counts() -> None:
    shares = concurrency([0, 10, 12], 4, first_ms=11, last_ms=15)
    assert shares.tolist()[:3] == [0.0, 2.0, 2.0]
    assert concurrency([50], 4, first_ms=0, last_ms=20).tolist()[:2] == [20.0, 0.0]


def test_many_at_once_are_counted_too() -> None:
    shares = concurrency([0] * 9, 4, first_ms=0, last_ms=4)
    assert shares[9] == 4.0
    assert shares[6:].sum() == 4.0


def test_intervals_are_between_operations_of_the_same_component() -> None:
    found = intervals([0, 1, 0, 1, 1], [0, 1, 5, 8, 20])
    assert sorted(found.tolist()) == [5, 7, 12]
    assert sorted(intervals([0, 1, 0, 1, 1], [0, 1, 5, 8, 20], first_ms=8).tolist()) == [7, 12]


def test_random_access_has_periods_of_one_to_one_and_a_half() -> None:
    begins = random_access(1, min_ms=600, end_ms=10**6, rng=Random(1))
    gaps = np.diff(begins)
    assert gaps.min() >= 600
    assert gaps.max() <= 900
    assert gaps.mean() == pytest.approx(750, rel=0.02)
    assert begins.max() < 10**6


def test_random_access_is_about_poisson() -> None:
    begins = random_access(150, min_ms=600, end_ms=10**6, rng=Random(2))
    shares = concurrency(begins, 4, first_ms=0, last_ms=10**6) / 10**6
    assert shares[2:].sum() == pytest.approx(0.191, abs=0.01)


def test_a_share_of_nothing_is_none() -> None:
    assert ratio(1, 0) == 0.0
    assert ratio(1, 4) == 0.25


def test_spans_that_overlap_are_counted_once_however_many_they_are() -> None:
    spans = [(0.0, 4.0), (3.0, 6.0), (3.5, 5.0), (6.0, 8.0)]
    assert overlap_share(spans, 0.0, 10.0) == pytest.approx(0.2)
    assert overlap_share(spans, 3.5, 4.5) == pytest.approx(1.0)
    assert overlap_share([], 0.0, 10.0) == 0.0
