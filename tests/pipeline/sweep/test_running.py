"""A sweep on Spark: all runs once, resumed where it was, failures told apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.sweep import running
from penstock.pipeline.sweep.jobs import run_tasks
from penstock.pipeline.sweep.plan import Run, SweepPlan, planned
from penstock.pipeline.sweep.running import SweepResult, run_sweep
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.tasks import Outcome
from pipeline.toys import ODD_FAILS, WAVE, send_by_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Recorder:
    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.done = 0
        self.notes: list[str] = []

    def stage(self, title: str, total: int | None = None) -> None:
        self.stages.append((title, total))

    def advance(self, steps: int = 1) -> None:
        self.done += steps

    def note(self, text: str) -> None:
        self.notes.append(text)


def swept(spark: SparkSession, plan: SweepPlan, folder: Path) -> tuple[SweepResult, Recorder]:
    send_by_value()
    recorder = Recorder()
    return run_sweep(spark, plan, SweepStore(folder, plan), recorder), recorder


def test_all_runs_are_made_once_and_summed_up(spark: SparkSession, tmp_path: Path) -> None:
    plan = planned(WAVE, grid=["size=1,20"], seeds="1..10")
    result, recorder = swept(spark, plan, tmp_path)
    assert recorder.stages == [("20 runs of wave", 20)]
    assert recorder.done == 20
    assert (result.runs, result.resumed, result.failures) == (20, 0, [])
    assert [cell.metrics["seed_twice"].mean for cell in result.cells] == [11, 11]
    assert result.cells[1].metrics["height"].mean == pytest.approx(result.cells[0].metrics["height"].mean + 19)
    assert spark.read.parquet(result.results).filter("metric = 'height' and size = 20").count() == 10


def test_the_result_as_json_has_everything(spark: SparkSession, tmp_path: Path) -> None:
    plan = planned(WAVE, grid=["size=1,20"], seeds="1..2")
    written = json.loads(swept(spark, plan, tmp_path)[0].to_json())
    assert written["grid"] == {"size": [1, 20]}
    assert written["parameters"] == {"mode": "calm", "seed": 1.5}
    cell = written["cells"][1]
    assert (cell["parameters"], cell["runs"]) == ({"size": 20}, 2)
    assert set(cell["metrics"]["height"]) == {"runs", "mean", "deviation", "low", "high"}


def test_an_interrupted_sweep_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(WAVE, grid=["size=1,2"], seeds="1..6")
    made: list[Run] = []

    def interrupted(*arguments: object) -> Iterator[list[Outcome]]:
        for found in run_tasks(*arguments):  # type: ignore[arg-type]
            yield found
            if found:
                raise KeyboardInterrupt

    def watched(*arguments: object) -> Iterator[list[Outcome]]:
        for found in run_tasks(*arguments):  # type: ignore[arg-type]
            made.extend(each.run for each in found)
            yield found

    monkeypatch.setattr(running, "run_tasks", interrupted)
    with pytest.raises(KeyboardInterrupt):
        swept(spark, plan, tmp_path)
    kept = set(SweepStore(tmp_path, plan).found)
    assert kept
    monkeypatch.setattr(running, "run_tasks", watched)
    result, recorder = swept(spark, plan, tmp_path)
    assert kept | set(made) == set(plan.runs)
    assert not kept & set(made)
    assert (result.runs, result.resumed) == (12, len(kept))
    assert recorder.notes == [f"{len(kept)} of 12 runs are in {tmp_path} already"]
    whole, _ = swept(spark, plan, tmp_path / "whole")
    assert whole.cells == result.cells


def test_more_seeds_add_to_what_is_there_and_nothing_is_made_when_all_is(spark: SparkSession, tmp_path: Path) -> None:
    swept(spark, planned(WAVE, seeds="1..4"), tmp_path)
    more, recorder = swept(spark, planned(WAVE, seeds="1..6"), tmp_path)
    assert (more.runs, more.resumed, recorder.done) == (6, 4, 2)
    again, recorder = swept(spark, planned(WAVE, seeds="1..6"), tmp_path)
    assert (again.resumed, recorder.stages) == (6, [])
    assert again.cells == more.cells


def test_failed_runs_are_told_by_seed_and_tried_again_the_next_time(spark: SparkSession, tmp_path: Path) -> None:
    plan = planned(ODD_FAILS, grid=["size=1,2"], seeds="1..4")
    result, recorder = swept(spark, plan, tmp_path)
    assert recorder.done == 8
    assert [(each.parameters["size"], each.seed) for each in result.failures] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    assert result.failures[0].message.startswith("ValueError: seed 1 is odd")
    assert [cell.runs for cell in result.cells] == [2, 2]
    again, recorder = swept(spark, plan, tmp_path)
    assert (again.resumed, recorder.done, len(again.failures)) == (4, 4, 4)
