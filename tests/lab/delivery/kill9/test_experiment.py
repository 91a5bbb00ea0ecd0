"""The experiment ``delivery-kill9``: a short run with real processes keeps the promise, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.delivery.kill9.experiment import DELIVERY_KILL9
from penstock.model.reporting import QuietReporter

FIGURES = [
    "kills",
    "stops",
    "cuts",
    "published",
    "acked",
    "delivered",
    "lost",
    "duplicated",
    "reordered",
    "wrongly_filtered",
    "recovery_p99_ms",
]


def children() -> set[str]:
    threads = Path("/proc/self/task").iterdir()
    return {pid for thread in threads for pid in (thread / "children").read_text().split()}


@pytest.mark.live
def test_a_short_run_loses_nothing_and_leaves_no_process_behind(tmp_path: Path) -> None:
    before = children()
    result = run_experiment(DELIVERY_KILL9, ["seconds=6", "rate=100"], seed=1, figures=tmp_path)
    assert children() <= before
    assert [name for name in result.measured if name in FIGURES] == FIGURES
    assert all(result.measured[name] > 0 for name in FIGURES[:6])
    assert result.measured["acked"] == result.measured["published"]
    assert {name: result.measured[name] for name in DELIVERY_KILL9.published} == DELIVERY_KILL9.published
    assert result.figure is not None


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_it_finds_no_process_left(tmp_path: Path, number: signal.Signals) -> None:
    class Impatient(QuietReporter):
        """Has enough as soon as it is told of progress."""

        def advance(self, steps: int = 1) -> None:
            os.kill(os.getpid(), number)

    before = children()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(DELIVERY_KILL9, ["seconds=60", "rate=20"], figures=tmp_path, reporter=Impatient())
    assert children() <= before
