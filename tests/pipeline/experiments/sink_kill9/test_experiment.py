"""The experiment ``sink-kill9``: its kills are spread over all phases, and what it finds is judged right.

A run of it takes minutes and Spark; what it is made of has tests of its own.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from penstock.lab.frame.parameters import parameter_values
from penstock.pipeline.experiments.registry import find_experiment
from penstock.pipeline.experiments.sink_kill9.driver import PHASES
from penstock.pipeline.experiments.sink_kill9.experiment import PLAN, SINK_KILL9, SinkVerdict, draw_lives, judge_sink


def test_it_is_found_and_has_the_promised_parameters() -> None:
    assert find_experiment("sink-kill9") is SINK_KILL9
    values = parameter_values(SINK_KILL9.parameters, [])
    assert (values["kills"], values["executor_kills"]) == (10, 10)
    assert {"lost", "duplicated"} <= SINK_KILL9.published.keys()
    assert PLAN.defaults["retain_ms"] >= 3_600_000


@pytest.mark.parametrize("seed", range(5))
def test_all_phases_are_met_equally_often_and_executors_never_before_there_are_any(seed: int) -> None:
    lives = draw_lives(Random(seed), 10, 10)
    assert Counter(phase for phase, _ in lives) == Counter(dict.fromkeys(PHASES, 2))
    assert sum(executors for _, executors in lives) == 10
    assert all(executors == 0 for phase, executors in lives if phase == "start")
    assert {phase for phase, _ in draw_lives(Random(seed), 2, 1)} == {"committed", "publishing"}


def test_seeds_draw_different_orders() -> None:
    assert draw_lives(Random(1), 10, 10) == draw_lives(Random(1), 10, 10)
    assert len({tuple(draw_lives(Random(seed), 10, 10)) for seed in range(10)}) > 5


def test_the_verdict_counts_what_is_lost_twice_and_strange() -> None:
    assert judge_sink(4, 5, [3, 1, 2, 4]) == SinkVerdict(4, 0, 0, 0)
    assert judge_sink(4, 5, [3, 1, 2, 4, 5]) == SinkVerdict(5, 0, 0, 0)
    assert judge_sink(4, 5, [3, 3, 3, 1, 4, 6]) == SinkVerdict(6, 1, 2, 1)
