"""Tasks on Spark: outcomes come as tasks end, and a failure or an interruption of the job is told and cleaned up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.errors import SessionError
from penstock.pipeline.sweep.jobs import run_tasks
from penstock.pipeline.sweep.plan import Run, planned
from penstock.pipeline.sweep.tasks import outcomes
from pipeline.toys import ENDS_WORKER, WAVE, send_by_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_outcomes_are_those_of_plain_python_each_once(spark: SparkSession) -> None:
    send_by_value()
    plan = planned(WAVE, grid=["size=1,2"], seeds="1..5")
    tasks = [plan.runs[:1], plan.runs[1:4], plan.runs[4:]]
    found = [each for batch in run_tasks(spark.sparkContext, WAVE, plan.cells, tasks) for each in batch]
    plain = {each.run: each.measured for each in outcomes(WAVE, plan.cells, plan.runs)}
    assert len(found) == len(plan.runs)
    assert {each.run: each.measured for each in found} == plain


def test_a_worker_that_ends_fails_the_job_and_the_log_is_named(spark: SparkSession) -> None:
    send_by_value()
    plan = planned(ENDS_WORKER, seeds="1..4")
    found: list[Run] = []
    batches = run_tasks(spark.sparkContext, ENDS_WORKER, plan.cells, [[run] for run in plan.runs])
    with pytest.raises(SessionError, match=r"Spark failed: .*; its log is .*driver\.log"):
        found.extend(each.run for batch in batches for each in batch)
    assert Run(0, 3) not in found


def test_leaving_early_cancels_the_job(spark: SparkSession) -> None:
    send_by_value()
    plan = planned(WAVE, seeds="1..4")
    batches = run_tasks(spark.sparkContext, WAVE, plan.cells, [[run] for run in plan.runs])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
