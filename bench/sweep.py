"""Measures what a sweep costs on Spark: the command, including its start, against as many plain processes.

Half of the plain runs come before the command and half after it, so that a machine that is busier at one time than at
another favours neither. Both must find the same.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.report import Report
from penstock.model.reporting import Reporter
from penstock.pipeline.errors import JavaMissingError, SparkMissingError
from penstock.pipeline.experiments.registry import find_experiment
from penstock.pipeline.session import check_requirements
from penstock.pipeline.sweep.plan import Run, planned
from penstock.pipeline.sweep.summary import summarised
from penstock.pipeline.sweep.tasks import Outcome, outcomes

__all__ = ["run"]

_EXPERIMENT = "delivery-chaos"
_PROCESSES = 2


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure a sweep over seeds both ways."""
    try:
        check_requirements()
    except (JavaMissingError, SparkMissingError) as error:
        reporter.note(f"no sweep: {error}")
        return
    seeds = range(seed + 1, seed + (8 if quick else 200) + 1)
    half = len(seeds) // 2
    reporter.stage(f"{half} of {len(seeds)} plain runs in {_PROCESSES} processes")
    found, plain_s = _plain(seeds[:half])
    reporter.stage(f"{len(seeds)} runs by the sweep on local[{_PROCESSES}]")
    summary, sweep_s = _command(seeds)
    reporter.stage(f"the other {len(seeds) - half} plain runs")
    more, more_s = _plain(seeds[half:])
    plan = planned(find_experiment(_EXPERIMENT), settings=["runs=1"], seeds=f"{seeds[0]}..{seeds[-1]}")
    expected = summarised(plan, {each.run: each.measured for each in [*found, *more]})[0]
    means = {metric: known["mean"] for metric, known in summary["cells"][0]["metrics"].items()}
    assert means == {metric: known.mean for metric, known in expected.metrics.items()}, "Spark found something else"
    yield _report(len(seeds), plain_s + more_s, sweep_s)


def _plain(seeds: Sequence[int]) -> tuple[list[Outcome], float]:
    """Run the ideal: processes that take the next seed as soon as they are free."""
    started = perf_counter()
    with multiprocessing.get_context("spawn").Pool(_PROCESSES) as pool:
        found = pool.map(_one, seeds, chunksize=1)
    return found, perf_counter() - started


def _one(seed: int) -> Outcome:
    experiment = find_experiment(_EXPERIMENT)
    [found] = outcomes(experiment, planned(experiment, settings=["runs=1"]).cells, [Run(0, seed)])
    assert found.failure is None, found.failure
    return found


def _command(seeds: Sequence[int]) -> tuple[dict[str, list[dict[str, dict[str, dict[str, float]]]]], float]:
    with TemporaryDirectory() as folder:
        options = ["--set", "runs=1", "--seeds", f"{seeds[0]}..{seeds[-1]}", "--master", f"local[{_PROCESSES}]"]
        kept = ["--out", str(Path(folder, "sweep")), "--figures", folder, "--json", "-"]
        program = [sys.executable, "-c", "from penstock.cli import main; main()", "pipeline", "sweep", _EXPERIMENT]
        started = perf_counter()
        done = subprocess.run(
            [*program, *options, *kept], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return json.loads(done.stdout), perf_counter() - started


def _report(runs: int, plain_s: float, sweep_s: float) -> Report:
    report = Report(
        f"{_EXPERIMENT} over {runs} seeds on {_PROCESSES} cores, with the start of Spark and of the processes",
        ("way", "seconds", "ms per run", "× ideal"),
    )
    for way, seconds in ((f"{_PROCESSES} plain processes", plain_s), ("penstock pipeline sweep", sweep_s)):
        report.rows.append((way, seconds, 1000 * seconds / runs, seconds / plain_s))
    report.figures.update({"sweep_s": sweep_s, "sweep_ideal_s": plain_s, "sweep_times_ideal": sweep_s / plain_s})
    return report
