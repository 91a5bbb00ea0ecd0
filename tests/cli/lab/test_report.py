"""``penstock lab report`` writes one page from kept results, quick runs or sweeps; its exit code is the verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.cli.lab import report as lab_report
from penstock.cli.lab.report import Sweeper
from penstock.lab import Experiment
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import Parameter
from penstock.lab.report import Entry, Finding, Measure, made_finding
from penstock.model.errors import PenstockError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.experiments.registry import find_experiment
from penstock.pipeline.sweep.plan import SweepPlan
from penstock.pipeline.sweep.running import Failure, SweepResult, run_sweep
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.tasks import Outcome

ENTRY = Entry("square")


def report(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", "report", *arguments])


def keep(folder: Path, *, lost: float) -> None:
    measured = {"published": 5.0, "lost": lost, "duplicated": 0.0}
    told = {"experiment": "delivery-chaos", "seed": 1, "parameters": {}, "published": {}, "measured": measured}
    (folder / "delivery-chaos.json").write_text(json.dumps({**told, "figure": None}))


def test_kept_results_are_shown(tmp_path: Path) -> None:
    keep(tmp_path, lost=0)
    out = tmp_path / "page.html"
    result = report("--read", str(tmp_path), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "1 of" in result.stdout
    assert "delivery-chaos" in out.read_text()


def test_a_figure_outside_its_band_is_a_failure(tmp_path: Path) -> None:
    keep(tmp_path, lost=3)
    result = report("--read", str(tmp_path), "--out", str(tmp_path / "page.html"))
    assert result.exit_code == 1
    assert "outside its band: delivery-chaos lost" in result.stderr


def test_a_quick_report_runs_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(entry: Entry, *arguments: object, **more: object) -> object:
        experiment = find_experiment("matching-scale")
        settings = ("max_size=100", "publications=10", "symbols=2")
        return made_finding(
            Entry(entry.name, settings=settings), experiment, tmp_path, seed=1, quick=True, reporter=QuietReporter()
        )

    monkeypatch.setattr(lab_report, "made_finding", small)
    out = tmp_path / "page.html"
    result = report("--quick", "--only", "matching-scale", "--results", str(tmp_path), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "links_us_100" in out.read_text()


def test_a_quick_report_of_several_reads_what_they_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def side_by_side(names: list[str], folder: Path, on_done: Callable[[str], None]) -> dict[str, str]:
        asked.extend(names)
        keep(folder, lost=0)
        (folder / "delivery-chaos.sweep.json").write_text("left by an earlier report, and not looked at")
        on_done("delivery-chaos")
        return {"token-scale": "no time"}

    monkeypatch.setattr(lab_report, "run_side_by_side", side_by_side)
    out, only = tmp_path / "page.html", ("--only", "delivery-chaos", "--only", "token-scale", "--only", "token-live")
    result = report("--quick", *only, "--results", str(tmp_path), "--out", str(out))
    assert result.exit_code == 1
    # What is live is not quick.
    assert sorted(asked) == ["delivery-chaos", "token-scale"]
    assert "token-scale failed: no time" in result.stderr
    assert "delivery-chaos" in out.read_text()


def test_a_report_that_is_resumed_runs_what_has_no_full_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def made(entry: Entry, *_: object, **__: object) -> Finding:
        ran.append(entry.key)
        return Finding(entry, find_experiment(entry.name), {}, "seed 1")

    monkeypatch.setattr(lab_report, "made_finding", made)
    keep(tmp_path, lost=0)
    (tmp_path / "token-live.sweep.json").write_text('{"seeds": "seeds 1..2", "measures": {}}')
    for name, value in (("tracking-search", 10**9), ("tracking-truth", 1)):
        # Not what a full run has.
        parameters = {each.name: value for each in find_experiment(name).parameters if each.quick is not None}
        told = {"experiment": name, "seed": 1, "parameters": parameters, "published": {}, "measured": {}}
        (tmp_path / f"{name}.json").write_text(json.dumps({**told, "figure": None}))
    names = ["delivery-chaos", "tracking-search", "tracking-truth", "token-scale", "token-live"]
    chosen = lab_report._chosen(names)
    for resume in (True, False):
        maker = lab_report._Maker(QuietReporter(), None, "1..3", quick=False, resume=resume)
        findings, failed = maker.make(chosen, tmp_path)
        assert sorted(findings) == sorted(names)
        assert not failed
    assert sorted(ran) == sorted([*names, "tracking-search", "tracking-truth", "token-scale"])


def test_only_what_is_neither_live_nor_a_matter_of_time_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[str] = []

    class FakeSweeper:
        def swept(self, entry: Entry, _experiment: object, _folder: Path, single: Finding) -> Finding:
            swept.append(entry.key)
            return single

    def made(entry: Entry, *_: object, **__: object) -> Finding:
        return Finding(entry, find_experiment(entry.name), {}, "seed 1")

    monkeypatch.setattr(lab_report, "made_finding", made)
    maker = lab_report._Maker(QuietReporter(), cast("Any", FakeSweeper()), "1..3", quick=False)
    maker.make(lab_report._chosen(["matching-scale", "token-scale", "token-live"]), tmp_path)
    assert swept == ["token-scale"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--read", "no-such-folder"], "no folder no-such-folder"), (["--quick", "--only", "nonsense"], "no experiment")],
)
def test_mistakes_are_named(arguments: list[str], message: str) -> None:
    result = report(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


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
    monkeypatch.setattr(lab_report, "run_sweep", found)
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
