"""Progress of Spark jobs: the bar follows the tasks, ends complete, and a block left early cancels its jobs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.progress import job_group, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Recorder:
    """A reporter that writes down what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.advances: list[int] = []
        self.moved = threading.Event()

    def stage(self, title: str, total: int | None = None) -> None:
        self.stages.append((title, total))

    def advance(self, steps: int = 1) -> None:
        self.advances.append(steps)
        self.moved.set()

    def note(self, text: str) -> None:
        raise AssertionError(text)


def test_the_bar_ends_complete(spark: SparkSession) -> None:
    recorder = Recorder()
    with watched(spark, recorder, "counting"):
        assert spark.range(1000).repartition(4).count() == 1000
    assert recorder.stages == [("counting", 100)]
    assert sum(recorder.advances) == 100


def test_the_bar_moves_while_the_block_is_open(spark: SparkSession) -> None:
    recorder = Recorder()
    with watched(spark, recorder, "counting"):
        spark.range(10).count()
        assert recorder.moved.wait(60)
        assert 0 < sum(recorder.advances) < 100
    assert sum(recorder.advances) == 100


def test_a_block_that_fails_leaves_the_bar_where_it_was(spark: SparkSession) -> None:
    recorder = Recorder()
    with pytest.raises(KeyError), watched(spark, recorder, "failing"):
        raise KeyError
    assert sum(recorder.advances) < 100


def test_jobs_of_a_group_left_by_an_exception_are_cancelled(spark: SparkSession) -> None:
    context = spark.sparkContext
    ended: list[str] = []

    def wait_for_ever(_: int) -> None:
        import threading

        threading.Event().wait(600)

    def endless(group: str) -> None:
        context.setJobGroup(group, "endless")
        try:
            context.parallelize([0, 1], 2).foreach(wait_for_ever)
        except Exception as error:  # noqa: BLE001
            ended.append(str(error))

    def interrupted(thread: list[threading.Thread]) -> None:
        with job_group(context, "interrupted") as group:
            thread.append(threading.Thread(target=endless, args=[group]))
            thread[0].start()
            while not context.statusTracker().getJobIdsForGroup(group):
                thread[0].join(0.05)
            raise KeyboardInterrupt

    thread: list[threading.Thread] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(thread)
    thread[0].join(60)
    assert not thread[0].is_alive()
    assert "cancelled" in ended[0]


def test_after_the_block_jobs_are_of_no_group(spark: SparkSession) -> None:
    with job_group(spark.sparkContext, "inner") as group:
        spark.range(3).count()
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
    spark.range(3).count()
    assert jobs
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group) == jobs
