"""Overlays whose neighbours err as often as they should: ``tracking-search`` finds that, and misses no true hop."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.lab import run_experiment
from penstock.lab.tracking.search import TRACKING_SEARCH, SearchField
from penstock.tracking.sizing import FilterShape, choose_shape


def test_two_filters_of_every_neighbour_match_any_time_in_the_window() -> None:
    shape = choose_shape(0.05, size_bytes_max=4_096)
    field = SearchField(Random(1), hops=2, neighbours=3, shape=shape, asked_efpp=0.05)
    assert field.matching_sets(1_700_000_000_100) == [2] * 6
    assert field.matching_sets(1_600_000_000_000) == [0] * 6


def test_filters_that_never_err_lead_to_no_unnecessary_search() -> None:
    field = SearchField(Random(2), hops=3, neighbours=2, shape=FilterShape(65_536, 1_000, 16), asked_efpp=0.05)
    tally = field.follow(50)
    assert (tally.searches, tally.receivers, tally.missed) == (0, 0, 0)


@pytest.mark.long
def test_searches_in_vain_are_as_many_as_the_formula_says(tmp_path: Path) -> None:
    result = run_experiment(TRACKING_SEARCH, ["fields=4", "messages=60"], seed=2, figures=tmp_path)
    measured = result.measured
    assert 0.245 < measured["searches_theory"] <= 0.25
    # The binomial's own error: the four overlays of so short a run say little about theirs.
    error = (5 * 0.05 * 0.95 / (4 * 60 * 4)) ** 0.5
    assert abs(measured["searches_mean"] - measured["searches_theory"]) < 4 * error
    assert measured["false_receivers_mean"] < measured["searches_mean"] / 4
    assert measured["missed"] == 0
    assert measured["traces"] == 240
    assert result.figure is not None
    assert Path(result.figure).stat().st_size > 10_000


def test_more_accurate_histories_are_searched_in_vain_less_often(tmp_path: Path) -> None:
    result = run_experiment(TRACKING_SEARCH, ["fields=2", "messages=40", "efpp=0.002"], figures=tmp_path)
    assert result.measured["searches_theory"] <= 0.01
    assert result.measured["searches_mean"] < 0.06
