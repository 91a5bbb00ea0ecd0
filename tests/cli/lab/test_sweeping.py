"""The sweeps of a full report: which runs Spark is asked to make, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.cli.lab import sweeping
from penstock.cli.lab.sweeping import Sweeper
from penstock.lab import Experiment
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import Parameter
from penstock.lab.report import Entry, Finding, Measure
from penstock.model.errors import PenstockError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.sweep.plan import SweepPlan
from penstock.pipeline.sweep.running import Failure, SweepResult, run_sweep
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.tasks import Outcome

ENTRY = Entry("square")


def square(context: Context) -> Mapping[str, float]:
    return {"square": float(context.seed**2)}


def experiment(*parameters: Parameter) -> Experiment:
    return Experiment("square", "the square of a seed", "nobody", parameters, {}, square)


class InPlace:
    """Makes runs here instead of on Spark, and remembers which."""

    def __init__(self) -> None:
        self.made: list[tuple[int, dict[str, Any]]] = []
        self.failures: list[Failure] = []

    def __call__(self, spark: Any, plan: SweepPlan, store: SweepStore, reporter: Any) -> SweepResult:
        todo = [run for run in plan.runs if run not in store.found]
        self.made = [(run.seed, dict(plan.cells[run.cell])) for run in todo]
        store.keep(Outcome(run, {"square": float(run.seed**2)}, None, 0.1) for run in todo)
        # Nothing is left to be made: it only sums up.
        return replace(run_sweep(spark, plan, store, reporter), failures=self.failures)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> InPlace:
    found = InPlace()
    monkeypatch.setattr(sweeping, "run_sweep", found)
    return found


def swept(folder: Path, made: Experiment, *, seeds: str, resume: bool = False, single: float = 1.0) -> Finding:
    sweeper = Sweeper(cast("Any", None), seeds, QuietReporter(), resume=resume)
    return sweeper.swept(ENTRY, made, folder, Finding(ENTRY, made, {"square": Measure(single)}, "seed 1"))


def test_the_single_run_is_one_of_the_sweep(tmp_path: Path, spark: InPlace) -> None:
    found = swept(tmp_path, experiment(), seeds="1..3")
    assert [seed for seed, _ in spark.made] == [2, 3]
    assert found.means["square"] == pytest.approx((1 + 4 + 9) / 3)
    assert found.seeds == "seeds 1..3"
    assert (tmp_path / "square.sweep.json").exists()


def test_experiments_that_are_means_themselves_are_swept_seed_by_seed(tmp_path: Path, spark: InPlace) -> None:
    swept(tmp_path, experiment(Parameter("seeds", 10, "runs", quick=1)), seeds="1..2", single=99.0)
    assert spark.made == [(1, {"seeds": 1}), (2, {"seeds": 1})], "the single run was a mean over ten"


def test_only_a_resumed_report_takes_what_an_earlier_one_has_left(tmp_path: Path, spark: InPlace) -> None:
    swept(tmp_path, experiment(), seeds="1..2")
    swept(tmp_path, experiment(), seeds="1..4", resume=True)
    assert [seed for seed, _ in spark.made] == [3, 4]
    swept(tmp_path, experiment(), seeds="1..4")
    assert [seed for seed, _ in spark.made] == [2, 3, 4]


def test_a_seed_that_fails_is_named(tmp_path: Path, spark: InPlace) -> None:
    spark.failures = [Failure({}, 2, "an unlucky seed")]
    with pytest.raises(PenstockError, match="seed 2: an unlucky seed"):
        swept(tmp_path, experiment(), seeds="1..3")
