"""The experiment ``stomp-kill9``: a short run with real processes keeps the promise, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab import run_experiment
from penstock.lab.stomp.experiment import STOMP_KILL9


def children() -> set[str]:
    threads = Path("/proc/self/task").iterdir()
    return {pid for thread in threads for pid in (thread / "children").read_text().split()}


@pytest.mark.live
def test_a_short_run_keeps_every_receipt_and_leaves_no_process_behind(tmp_path: Path) -> None:
    before = children()
    result = run_experiment(STOMP_KILL9, [], seed=1, quick=True, figures=tmp_path)
    assert children() <= before
    measured = result.measured
    assert {name: measured[name] for name in STOMP_KILL9.published} == STOMP_KILL9.published
    assert measured["home_kills"] >= 1
    assert measured["broker_kills"] >= 1
    # The first 8 seconds have 200 messages each, and the last half second.
    assert measured["send_receipts"] >= 1_600
    assert measured["sent"] == measured["send_receipts"] + measured["resent"]
    # Everything went to the queue or to two durable subscribers.
    assert measured["ack_receipts"] + measured["in_doubt"] >= 1.5 * measured["send_receipts"]
    assert result.figure is not None
