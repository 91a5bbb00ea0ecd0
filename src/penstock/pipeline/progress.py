"""Shows the progress of the Spark jobs that run within a block, and cancels them when the block is left early.

Jobs are recognised by their group. A separate thread polls Spark a few times per second, since the thread that waits
for a job can do nothing else. The bar moves in hundredths of the known tasks: Spark learns of later stages only as it
runs, so the bar may stall, but it never moves back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from penstock.model.reporting import Reporter

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["job_group", "watched"]

_STEPS: Final = 100
_ASK_EVERY_S: Final = 0.25


@contextmanager
def watched(spark: SparkSession, reporter: Reporter, title: str) -> Iterator[None]:
    """Within the block, the reporter shows the progress of this thread's jobs."""
    reporter.stage(title, total=_STEPS)
    with job_group(spark.sparkContext, title) as group:
        watcher = _Watcher(spark.sparkContext, group, reporter)
        watcher.start()
        try:
            yield
        except BaseException:
            watcher.finish(complete=False)
            raise
        watcher.finish(complete=True)


@contextmanager
def job_group(context: SparkContext, title: str) -> Iterator[str]:
    """Within the block, this thread's jobs form one group; they are cancelled if an exception leaves it."""
    group = f"penstock-{uuid4()}"
    context.setJobGroup(group, title, interruptOnCancel=False)
    try:
        yield group
    except BaseException:
        # Spark may have failed altogether, leaving nothing to cancel.
        with suppress(Exception):
            context.cancelJobGroup(group)
        raise
    finally:
        with suppress(Exception):
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


class _Watcher(threading.Thread):
    """Polls Spark for how many tasks of a group are done."""

    def __init__(self, context: SparkContext, group: str, reporter: Reporter) -> None:
        super().__init__(name="spark progress", daemon=True)
        self._tracker, self._group, self._reporter = context.statusTracker(), group, reporter
        self._over = threading.Event()
        self._shown = 0

    def run(self) -> None:
        while not self._over.wait(_ASK_EVERY_S):
            # A session that is shutting down cannot answer; the block will report why.
            with suppress(Exception):
                self._show(self._done())

    def finish(self, *, complete: bool) -> None:
        self._over.set()
        self.join()
        if complete:
            self._show(_STEPS)

    def _done(self) -> int:
        """Hundredths of the known tasks that are done; the last hundredth is reserved for the end of the block."""
        tasks = done = 0
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            for stage in [] if info is None else info.stageIds:
                stage_info = self._tracker.getStageInfo(stage)
                if stage_info is not None:
                    tasks += stage_info.numTasks
                    done += stage_info.numCompletedTasks
        return min(_STEPS - 1, _STEPS * done // tasks) if tasks else 0

    def _show(self, steps: int) -> None:
        if steps > self._shown:
            self._reporter.advance(steps - self._shown)
            self._shown = steps
