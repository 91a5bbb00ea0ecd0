"""The experiment ``work-kill9``: a short run with real processes keeps the promise, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.work.experiment import WORK_KILL9
from penstock.model.reporting import QuietReporter


def children() -> set[str]:
    threads = Path("/proc/self/task").iterdir()
    return {pid for thread in threads for pid in (thread / "children").read_text().split()}


@pytest.mark.live
def test_a_short_run_does_each_job_once_and_leaves_no_process_behind(tmp_path: Path) -> None:
    before = children()
    result = run_experiment(WORK_KILL9, ["jobs=1500", "calibration_jobs=300"], seed=1, quick=True, figures=tmp_path)
    assert children() <= before
    measured = result.measured
    assert [measured[f"{kind}_kills"] >= 1 for kind in ("worker", "home", "broker")] == [True] * 3
    assert {name: measured[name] for name in WORK_KILL9.published} == WORK_KILL9.published
    assert measured["done"] + measured["excused"] == measured["jobs"] == 1_600
    assert measured["excused"] <= measured["in_doubt"]
    assert measured["jobs_per_s"] > 0
    assert result.figure is not None


@pytest.mark.live
def test_who_interrupts_it_finds_no_process_left(tmp_path: Path) -> None:
    class Impatient(QuietReporter):
        """Has enough as soon as it is told of progress."""

        def advance(self, steps: int = 1) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    before = children()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(WORK_KILL9, ["jobs=500"], quick=True, figures=tmp_path, reporter=Impatient())
    assert children() <= before
