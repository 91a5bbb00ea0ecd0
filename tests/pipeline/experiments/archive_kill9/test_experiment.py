"""The experiment ``archive-kill9``: its kills are spread over all phases, and it is found by its name.

A run of it takes minutes and Spark; what it is made of has tests of its own.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from penstock.lab.frame.parameters import parameter_values
from penstock.pipeline.experiments.archive_kill9.driver import PHASES
from penstock.pipeline.experiments.archive_kill9.experiment import ARCHIVE_KILL9, PLAN, draw_phases
from penstock.pipeline.experiments.registry import find_experiment


def test_it_is_found_and_has_the_promised_parameters() -> None:
    assert find_experiment("archive-kill9") is ARCHIVE_KILL9
    assert parameter_values(ARCHIVE_KILL9.parameters, [])["restarts"] == 10
    assert parameter_values(ARCHIVE_KILL9.parameters, [], quick=True)["restarts"] == 2
    assert {"lost", "duplicated"} <= ARCHIVE_KILL9.published.keys()


@pytest.mark.parametrize("seed", range(5))
def test_all_phases_are_met_equally_often(seed: int) -> None:
    assert Counter(draw_phases(Random(seed), 10)) == Counter(dict.fromkeys(PHASES, 2))
    assert set(draw_phases(Random(seed), 2)) == {"publishing", "merging"}


def test_a_seed_draws_one_order_and_seeds_differ() -> None:
    assert draw_phases(Random(1), 10) == draw_phases(Random(1), 10)
    assert len({tuple(draw_phases(Random(seed), 10)) for seed in range(10)}) > 5


def test_logs_outlast_a_run() -> None:
    assert PLAN.defaults["retain_ms"] >= 3_600_000
    assert any(PLAN.pubends.values())
