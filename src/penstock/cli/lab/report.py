"""``penstock lab report``: puts all experiments on one HTML page, run now or read from earlier results.

In a full report, simulated experiments are also swept over seeds as Spark tasks, beside the single run that drew the
chart.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.lab.side_by_side import run_side_by_side
from penstock.cli.pipeline.frame import Master, at_work
from penstock.cli.processors import processors
from penstock.cli.progress import ProgressReporter
from penstock.lab import Experiment
from penstock.lab.report import (
    CHAPTERS,
    Entry,
    Finding,
    made_finding,
    read_finding,
    report_page,
    swept_finding,
)
from penstock.model.errors import MisuseError, PenstockError
from penstock.model.reporting import Reporter
from penstock.pipeline.experiments.registry import EXPERIMENTS
from penstock.pipeline.session import SessionSettings, check_requirements
from penstock.pipeline.sweep.plan import Run, planned
from penstock.pipeline.sweep.running import run_sweep
from penstock.pipeline.sweep.store import SweepStore
from penstock.pipeline.sweep.tasks import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EXAMPLES", "Sweeper", "report"]

EXAMPLES = """
A full report runs each simulated experiment with every seed on Spark (mean and 95 % interval), draws the chart of the
first seed, and runs the live ones once: hours. `--quick` runs small versions of the simulated ones, once each: minutes,
and bands that a small version cannot meet are not judged. `--resume` goes on with a report that was interrupted.
`--read` runs nothing. Ends with 1 if a figure lies outside its band, or an experiment failed.

Examples:

- `penstock lab report --read docs/results --out report.html`
- `penstock lab report --quick --results /tmp/results`
- `penstock lab report --only gryphon-e1 --only gryphon-e2 --seeds 1..5`
- `penstock lab report --results docs/results --resume`
"""
_TITLE: Final = "Penstock: published beside measured"
_OWN_SEEDS: Final = "seeds"
"""The parameter of experiments that average over seeds themselves: in a sweep, each run uses one seed."""


def report(
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
    read: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run nothing: show the results of this folder.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Keeps results and charts.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="Small runs, one seed, nothing live.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this experiment; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="1..10", help="Seeds of each simulated experiment.")] = "1..10",
    resume: Annotated[
        bool, typer.Option("--resume", help="Run only what has no full result in that folder yet.")
    ] = False,
    master: Master = "local[*]",
) -> None:
    """Write one HTML page of all experiments: published, measured, bands, charts, and where we differ."""
    chosen = _chosen(only or [])
    if read is not None:
        if not read.is_dir():
            raise MisuseError(f"no folder {read} with results")
        made = {entry.key: read_finding(entry, experiment, read) for entry, experiment in chosen}
        findings = {key: finding for key, finding in made.items() if finding is not None}
        failed: list[str] = []
    else:
        with _making(seeds, master, quick=quick, resume=resume) as maker:
            findings, failed = maker.make(chosen, results)
    _write(out, report_page(CHAPTERS, findings, title=_TITLE, words=_words(read, seeds, quick=quick)))
    outside = [f"{key} {metric}" for key, each in findings.items() for metric in _outside(each)]
    console.line(f"report: {out} ({len(findings)} of {len(chosen)} experiments)")
    for each in outside:
        console.note(f"outside its band: {each}")
    if failed or outside:
        raise typer.Exit(FAILURE)


def _chosen(only: list[str]) -> list[tuple[Entry, Experiment]]:
    known = {each.name: each for each in EXPERIMENTS}
    entries = [entry for chapter in CHAPTERS for entry in chapter.entries if entry.name in known]
    if unknown := [name for name in only if name not in {entry.name for entry in entries}]:
        raise MisuseError(f"no experiment {', '.join(unknown)} in the report; `penstock lab list` shows them all")
    return [(entry, known[entry.name]) for entry in entries if not only or entry.name in only]


class _Maker:
    """Makes findings by running experiments."""

    def __init__(
        self, reporter: Reporter, sweeper: Sweeper | None, seeds: str, *, quick: bool, resume: bool = False
    ) -> None:
        self._reporter, self._sweeper, self._seeds, self._quick = reporter, sweeper, seeds, quick
        self._resume = resume and not quick

    def make(self, chosen: list[tuple[Entry, Experiment]], folder: Path) -> tuple[dict[str, Finding], list[str]]:
        """Return the findings by key, and the keys of the experiments that failed."""
        findings: dict[str, Finding] = {}
        failed = []
        if self._quick:
            chosen = [(entry, experiment) for entry, experiment in chosen if not entry.is_live]
            if len({entry.name for entry, _ in chosen}) > 1:
                return self._made_side_by_side(chosen, folder)
        for entry, experiment in chosen:
            try:
                findings[entry.key] = self._made(entry, experiment, folder)
            except PenstockError as error:
                failed.append(entry.key)
                console.note(f"{entry.key} failed: {error}")
        return findings, failed

    def _made_side_by_side(
        self, chosen: list[tuple[Entry, Experiment]], folder: Path
    ) -> tuple[dict[str, Finding], list[str]]:
        names = list(dict.fromkeys(entry.name for entry, _ in chosen))
        self._reporter.stage(f"{len(names)} experiments, {processors()} at a time", total=len(names))
        failures = run_side_by_side(names, folder, self._on_done)
        for name, said in failures.items():
            console.note(f"{name} failed: {said}")
        done = [(entry, experiment) for entry, experiment in chosen if entry.name not in failures]
        found = {entry.key: read_finding(entry, experiment, folder, swept=False) for entry, experiment in done}
        return {key: each for key, each in found.items() if each is not None}, list(failures)

    def _on_done(self, name: str) -> None:
        self._reporter.note(name)
        self._reporter.advance()

    def _made(self, entry: Entry, experiment: Experiment, folder: Path) -> Finding:
        words = f"seeds {self._seeds}"
        kept = self._kept(entry, experiment, folder, swept=True)
        if kept is not None and (kept.seeds == words or entry.is_live or entry.is_timed):
            return kept
        self._reporter.note(entry.key)
        single = self._kept(entry, experiment, folder, swept=False)
        if single is None:
            single = made_finding(entry, experiment, folder, seed=1, quick=self._quick, reporter=self._reporter)
        if self._sweeper is None or entry.is_live or entry.is_timed:
            return single
        return self._sweeper.swept(entry, experiment, folder, single)

    def _kept(self, entry: Entry, experiment: Experiment, folder: Path, *, swept: bool) -> Finding | None:
        """The finding that an earlier report kept of a full run, if this report resumes."""
        found = read_finding(entry, experiment, folder, swept=swept) if self._resume else None
        return None if found is None or found.is_small else found


class Sweeper:
    """Makes findings over many seeds."""

    def __init__(self, spark: SparkSession, seeds: str, reporter: Reporter, *, resume: bool) -> None:
        self._spark, self._seeds, self._reporter, self._resume = spark, seeds, reporter, resume

    def swept(self, entry: Entry, experiment: Experiment, folder: Path, single: Finding) -> Finding:
        """The means over all seeds, with their intervals; reuses the single run if its seed is among them."""
        is_mean = any(each.name == _OWN_SEEDS for each in experiment.parameters)
        settings = [*entry.settings, *([f"{_OWN_SEEDS}=1"] if is_mean else [])]
        plan = planned(experiment, grid=[], settings=settings, seeds=self._seeds, quick=False)
        kept = folder / "sweeps" / entry.key
        if not self._resume and kept.exists():
            # Runs kept by an earlier report may come from older code.
            shutil.rmtree(kept)
        store = SweepStore(kept, plan)
        if not is_mean:
            same = [run for run in plan.runs if single.seeds == f"seed {run.seed}"]
            store.keep(Outcome(Run(run.cell, run.seed), single.means, None, 0.0) for run in same)
        swept = run_sweep(self._spark, plan, store, self._reporter)
        if swept.failures:
            raise PenstockError(f"seed {swept.failures[0].seed}: {swept.failures[0].message}")
        return swept_finding(entry, experiment, folder, swept.cells[0].metrics, seeds=f"seeds {self._seeds}")


@contextmanager
def _making(seeds: str, master: str, *, quick: bool, resume: bool) -> Iterator[_Maker]:
    if quick:
        with ProgressReporter() as reporter:
            yield _Maker(reporter, None, seeds, quick=True)
        return
    check_requirements()
    with at_work(SessionSettings(master=master, app_name="penstock report")) as (spark, reporter):
        sweeper = Sweeper(spark, seeds, reporter, resume=resume)
        yield _Maker(reporter, sweeper, seeds, quick=False, resume=resume)


def _outside(finding: Finding) -> list[str]:
    return [metric for metric, is_within in finding.verdicts().items() if not is_within]


def _words(read: Path | None, seeds: str, *, quick: bool) -> str:
    if read is not None:
        return "Made from results that were kept; below each figure stands the command that makes it anew."
    if quick:
        return "A quick report: small versions of the simulated experiments, one seed each; bands are for full runs."
    return f"Simulated experiments with seeds {seeds}: means with 95 % intervals; charts of seed 1; live ones once."


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"cannot write the report to {path}: {error.strerror}") from None
