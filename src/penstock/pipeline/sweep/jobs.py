"""Runs a sweep's tasks on Spark and yields the results of each as soon as it ends.

A job returns its results when its last task has ended: too late to save them from an interruption. So tasks put them
into an accumulator, which Spark delivers here at the end of each task, exactly once, without needing a file system that
the workers share.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.lab import Experiment
from penstock.lab.frame.parameters import ParameterValue
from penstock.pipeline.errors import SessionError
from penstock.pipeline.launching import failure_of
from penstock.pipeline.progress import job_group
from penstock.pipeline.sweep.plan import Run
from penstock.pipeline.sweep.tasks import Outcome, outcomes

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext

__all__ = ["run_tasks"]

_LOOK_EVERY_S: Final = 0.1
_CANCEL_S: Final = 10.0


class _Gathering:
    """How outcomes are merged, here and in each task. (PySpark's AccumulatorParam, by duck typing.)"""

    def zero(self, value: deque[Outcome]) -> deque[Outcome]:
        return type(value)()

    def addInPlace(self, gathered: deque[Outcome], more: Iterable[Outcome]) -> deque[Outcome]:  # noqa: N802
        gathered.extend(more)
        return gathered


class _Job(threading.Thread):
    """The thread that waits for Spark, so that the main thread can collect results, and can be interrupted."""

    def __init__(self, context: SparkContext, title: str) -> None:
        super().__init__(name="sweep job", daemon=True)
        self._context, self._title = context, title
        self.group: str | None = None
        self.error: Exception | None = None
        self.started = threading.Event()

    def prepare(self, work: object, tasks: Sequence[Sequence[Run]]) -> None:
        self._work, self._tasks = work, tasks

    def run(self) -> None:
        try:
            with job_group(self._context, self._title) as self.group:
                self.started.set()
                self._context.parallelize(self._tasks, len(self._tasks)).foreachPartition(self._work)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001  (it is raised again where the job was asked for)
            self.error = error
        finally:
            self.started.set()


def run_tasks(
    context: SparkContext,
    experiment: Experiment,
    cells: Sequence[Mapping[str, ParameterValue]],
    tasks: Sequence[Sequence[Run]],
) -> Iterator[list[Outcome]]:
    """Run the tasks; keeps yielding the results of tasks that ended since the last time, until all have ended."""
    found: deque[Outcome] = deque()
    gathered: Accumulator[deque[Outcome]] = context.accumulator(found, _Gathering())  # type: ignore[arg-type]

    def work(lists: Iterable[Sequence[Run]]) -> None:
        for runs in lists:
            gathered.add(deque(outcomes(experiment, cells, runs)))

    job = _Job(context, f"sweep of {experiment.name}")
    job.prepare(work, tasks)
    job.start()
    try:
        while job.is_alive():
            job.join(_LOOK_EVERY_S)
            yield _taken(found)
    finally:
        _end(context, job)
    yield _taken(found)
    if job.error is not None:
        raise SessionError(failure_of(job.error)) from job.error


def _taken(found: deque[Outcome]) -> list[Outcome]:
    # Spark's thread may append meanwhile: take only what is there now.
    return [found.popleft() for _ in range(len(found))]


def _end(context: SparkContext, job: _Job) -> None:
    if not job.is_alive():
        return
    job.started.wait(_CANCEL_S)
    if job.group is not None:
        context.cancelJobGroup(job.group)
    job.join(_CANCEL_S)
