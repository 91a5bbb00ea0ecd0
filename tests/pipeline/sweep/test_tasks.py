"""What a task does with its runs, and how runs become tasks of a good length."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from penstock.lab import Context
from penstock.pipeline.sweep.plan import Run, planned
from penstock.pipeline.sweep.tasks import TASK_S, TASKS_MAX, chunked, outcomes, probes
from pipeline.toys import ODD_FAILS, WAVE


def runs(cells: int, seeds: int) -> list[Run]:
    return [Run(cell, seed) for cell in range(cells) for seed in range(seeds)]


def _given(measured: dict[str, float], _: Context) -> dict[str, float]:
    return measured


def test_a_run_measures_with_its_own_seed_and_parameters_and_draws_nothing() -> None:
    plan = planned(WAVE, grid=["size=1,20"], seeds="5")
    found = list(outcomes(WAVE, plan.cells, plan.runs))
    assert [each.run for each in found] == plan.runs
    assert [each.failure for each in found] == [None, None]
    assert [each.measured["seed_twice"] for each in found] == [10, 10]
    assert found[1].measured["height"] == found[0].measured["height"] - 1 + 20
    assert found[0].seconds > 0


def test_a_run_that_fails_is_told_with_its_place_and_does_not_stop_the_others() -> None:
    plan = planned(ODD_FAILS, seeds="1..4")
    found = list(outcomes(ODD_FAILS, plan.cells, plan.runs))
    assert [each.failure is None for each in found] == [False, True, False, True]
    assert found[2].failure is not None
    assert found[2].failure.startswith("ValueError: seed 3 is odd (toys.py:")
    assert found[2].measured == {}


def test_figures_that_are_not_finite_and_no_figures_are_failures() -> None:
    cases: list[tuple[dict[str, float], str]]
    cases = [({"a": 1.0, "b": math.nan}, "measured no finite b"), ({}, "measured nothing")]
    for measured, complaint in cases:
        [found] = outcomes(replace(WAVE, run=partial(_given, measured)), [{}], [Run(0, 1)])
        assert (found.measured, found.failure) == ({}, complaint)


def test_first_runs_are_one_of_each_cell_and_keep_every_core_busy() -> None:
    assert probes(runs(1, 10), 4) == [Run(0, 0), Run(0, 1), Run(0, 2), Run(0, 3)]
    assert probes(runs(3, 10), 2) == [Run(0, 0), Run(1, 0), Run(2, 0)]
    assert probes(runs(1, 1), 4) == [Run(0, 0)]


def test_of_many_cells_some_spread_over_all_are_tried_first() -> None:
    assert [run.cell for run in probes(runs(80, 3), 2)] == [0, 10, 20, 30, 40, 50, 60, 70]


def test_long_runs_are_tasks_of_their_own_and_short_ones_are_put_together() -> None:
    assert chunked(runs(1, 5), {0: 10.0}, 2) == [[run] for run in runs(1, 5)]
    tasks = chunked(runs(1, 1000), {0: 0.1}, 2)
    assert {len(task) for task in tasks} == {round(TASK_S / 0.1)}


def test_there_are_at_least_four_tasks_per_core_if_there_are_runs_for_them() -> None:
    assert len(chunked(runs(1, 100), {0: 0.001}, 2)) == 8
    assert len(chunked(runs(1, 3), {0: 0.001}, 2)) == 3


def test_cells_that_take_longer_have_fewer_runs_per_task() -> None:
    tasks = chunked(runs(2, 100), {0: 0.1, 1: 1.0}, 2)
    assert max(len(task) for task in tasks if task[0].cell == 0) == 20
    assert max(len(task) for task in tasks if task[-1].cell == 1) <= 3


def test_a_cell_that_nothing_is_known_of_is_taken_for_a_typical_one() -> None:
    assert len(chunked(runs(2, 100), {0: 1.0}, 2)) == 100


def test_the_number_of_tasks_is_bounded() -> None:
    assert len(chunked(runs(1, TASKS_MAX * 2), {0: 60.0}, 2)) == TASKS_MAX


@given(st.integers(0, 5), st.integers(0, 40), st.dictionaries(st.integers(0, 4), st.floats(0, 1e4)), st.integers(1, 64))
def test_every_run_is_in_one_task_and_none_is_empty(
    cells: int, seeds: int, known_s: dict[int, float], slots: int
) -> None:
    wanted = runs(cells, seeds)
    tasks = chunked(wanted, known_s, slots)
    assert [run for task in tasks for run in task] == wanted
    assert all(tasks)
    first = probes(wanted, slots)
    assert len(set(first)) == len(first)
    assert set(first) <= set(wanted)
    assert not wanted or first
