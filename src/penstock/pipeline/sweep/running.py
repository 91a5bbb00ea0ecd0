"""Sweeps an experiment over a parameter grid and many seeds, as Spark tasks.

First come a few runs to learn how long a run takes, then all others in tasks of a suitable length. A task's results are
saved as soon as it ends; runs that an earlier invocation finished in the same folder are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from penstock.lab.frame.parameters import ParameterValue
from penstock.model.reporting import Reporter
from penstock.pipeline.sweep.jobs import run_tasks
from penstock.pipeline.sweep.plan import Run, SweepPlan
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.summary import CellSummary, summarised
from penstock.pipeline.sweep.tasks import Outcome, chunked, probes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Failure", "SweepResult", "run_sweep"]


@dataclass(slots=True, frozen=True)
class Failure:
    """A run that raised an error instead of measuring."""

    parameters: Mapping[str, ParameterValue]
    seed: int
    message: str


@dataclass(slots=True, frozen=True)
class SweepResult:
    """The results of a sweep."""

    experiment: str
    parameters: Mapping[str, ParameterValue]
    """The parameters that are the same in every cell."""
    grid: Mapping[str, Sequence[ParameterValue]]
    seeds: int
    runs: int
    """Finished runs, in this invocation or before it."""
    resumed: int
    """How many of these runs were finished before it."""
    cells: Sequence[CellSummary]
    failures: Sequence[Failure]
    results: str
    """The Parquet file with the measurements of all runs."""
    figure: str | None = None

    def to_json(self) -> str:
        """Indented JSON, with the fields in this order."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def run_sweep(spark: SparkSession, plan: SweepPlan, store: SweepStore, reporter: Reporter) -> SweepResult:
    """Execute all runs of a plan that its store does not have yet, and summarise."""
    todo = [run for run in plan.runs if run not in store.found]
    resumed = len(plan.runs) - len(todo)
    if resumed:
        reporter.note(f"{resumed:,} of {len(plan.runs):,} runs are in {store.folder} already")
    failed = _Sweeping(spark, plan, store, reporter).make(todo) if todo else []
    results = store.write_results()
    cells = summarised(plan, store.found)
    return SweepResult(
        plan.experiment.name,
        plan.fixed,
        plan.grid,
        len(plan.seeds),
        sum(cell.runs for cell in cells),
        resumed,
        cells,
        [Failure(plan.swept(each.run.cell), each.run.seed, str(each.failure)) for each in failed],
        str(results),
    )


class _Sweeping:
    """The runs of one invocation."""

    def __init__(self, spark: SparkSession, plan: SweepPlan, store: SweepStore, reporter: Reporter) -> None:
        self._context, self._plan, self._store, self._reporter = spark.sparkContext, plan, store, reporter
        self._seconds: dict[int, list[float]] = {}
        self._failed: dict[Run, Outcome] = {}

    def make(self, todo: Sequence[Run]) -> list[Outcome]:
        """Execute the runs; returns those that failed."""
        self._reporter.stage(f"{len(todo):,} runs of {self._plan.experiment.name}", total=len(todo))
        first = probes(todo, self._slots())
        self._make([[run] for run in first])
        made = set(first)
        rest = [run for run in todo if run not in made]
        known_s = {cell: sum(seconds) / len(seconds) for cell, seconds in self._seconds.items()}
        # Asked again, since on a cluster executors may have joined meanwhile.
        self._make(chunked(rest, known_s, self._slots()))
        return sorted(self._failed.values(), key=lambda each: (each.run.cell, each.run.seed))

    def _slots(self) -> int:
        return max(1, self._context.defaultParallelism)

    def _make(self, tasks: Sequence[Sequence[Run]]) -> None:
        if not tasks:
            return
        for found in run_tasks(self._context, self._plan.experiment, self._plan.cells, tasks):
            self._store.keep(found)
            for each in found:
                self._seconds.setdefault(each.run.cell, []).append(each.seconds)
                if each.failure is not None:
                    self._failed[each.run] = each
            if found:
                self._reporter.advance(len(found))
