"""Sweeps one experiment of a full report over seeds, as tasks of Spark, beside the single run that drew its chart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.lab import Experiment
from penstock.lab.report import Entry, Finding, swept_finding
from penstock.model.errors import PenstockError
from penstock.model.reporting import Reporter
from penstock.pipeline.sweep.plan import Run, planned
from penstock.pipeline.sweep.running import run_sweep
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.tasks import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sweeper"]

_OWN_SEEDS: Final = "seeds"
"""The parameter of experiments that are means over seeds themselves: in a sweep, each run is of one."""


class Sweeper:
    """Makes findings over many seeds."""

    def __init__(self, spark: SparkSession, seeds: str, reporter: Reporter, *, resume: bool) -> None:
        self._spark, self._seeds, self._reporter, self._resume = spark, seeds, reporter, resume

    def swept(self, entry: Entry, experiment: Experiment, folder: Path, single: Finding) -> Finding:
        """The means over all seeds, with their intervals; the single run is one of them, if its seed is."""
        is_mean = any(each.name == _OWN_SEEDS for each in experiment.parameters)
        settings = [*entry.settings, *([f"{_OWN_SEEDS}=1"] if is_mean else [])]
        plan = planned(experiment, grid=[], settings=settings, seeds=self._seeds, quick=False)
        kept = folder / "sweeps" / entry.key
        if not self._resume and kept.exists():
            # What an earlier report has left may be of older code.
            shutil.rmtree(kept)
        store = SweepStore(kept, plan)
        if not is_mean:
            same = [run for run in plan.runs if single.seeds == f"seed {run.seed}"]
            store.keep(Outcome(Run(run.cell, run.seed), single.means, None, 0.0) for run in same)
        swept = run_sweep(self._spark, plan, store, self._reporter)
        if swept.failures:
            raise PenstockError(f"seed {swept.failures[0].seed}: {swept.failures[0].message}")
        return swept_finding(entry, experiment, folder, swept.cells[0].metrics, seeds=f"seeds {self._seeds}")
