"""The experiment ``failover-kill9``: a short run with real processes keeps the promise, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.databases import missing_reason
from penstock.lab.failover.experiment import FAILOVER_KILL9
from penstock.lab.failover.plan import KINDS
from penstock.lab.frame.errors import ParameterError
from penstock.model.reporting import QuietReporter

needed = pytest.mark.skipif(bool(missing_reason()), reason=missing_reason() or "there is one")
TIMED = ("pauses_too_long",)
"""What depends on how fast the machine is."""


def children() -> set[str]:
    threads = Path("/proc/self/task").iterdir()
    return {pid for thread in threads for pid in (thread / "children").read_text().split()}


@needed
@pytest.mark.live
def test_a_short_run_loses_nothing_and_leaves_no_process_behind(tmp_path: Path) -> None:
    before = children()
    logs = tmp_path / "logs"
    result = run_experiment(
        FAILOVER_KILL9, ["profile=swift", "rate=100", f"logs={logs}"], seed=1, quick=True, figures=tmp_path
    )
    assert children() <= before
    measured = result.measured
    laws = {name: value for name, value in FAILOVER_KILL9.published.items() if name not in TIMED}
    assert {name: measured[name] for name in laws} == laws
    assert [measured[f"{kind}_blows"] for kind in KINDS] == [1] * len(KINDS)
    assert measured["acked"] == measured["published"] > 0
    assert measured["jobs_done"] + measured["jobs_in_doubt"] >= measured["jobs"] > 0
    assert measured["takeovers"] >= 5
    assert result.figure is not None
    assert {f"{name}.log" for name in ("pb1", "pb2", "pb3", "sb1", "sb2", "db1", "db2")} <= {
        each.name for each in logs.iterdir()
    }


@needed
@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_it_finds_no_process_left(tmp_path: Path, number: signal.Signals) -> None:
    class Impatient(QuietReporter):
        """Has enough as soon as it is told of progress."""

        def advance(self, steps: int = 1) -> None:
            os.kill(os.getpid(), number)

    before = children()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(FAILOVER_KILL9, ["profile=swift", "rate=20"], figures=tmp_path, reporter=Impatient())
    assert children() <= before


def test_a_profile_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="'hasty' is none of: calm, swift"):
        run_experiment(FAILOVER_KILL9, ["profile=hasty"], figures=tmp_path)


def test_logs_of_another_run_are_not_mixed_with_those_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "pb1.log").touch()
    with pytest.raises(ParameterError, match="folder for logs is not empty"):
        run_experiment(FAILOVER_KILL9, [f"logs={tmp_path}"], figures=tmp_path)
