"""``penstock demo`` with real processes: everything is delivered, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from penstock.cli import demo_verdict
from penstock.cli.app import app
from penstock.cli.demo import _counts, _Rates, _table
from penstock.cli.demo_run import DemoSubscriber, Tally

LIMIT_S = 120.0


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_demo_delivers_exactly_what_was_asked_for() -> None:
    before = children(os.getpid())
    result = CliRunner().invoke(app, ["demo", "--seconds", "2", "--subscribers", "8", "--rate", "300", "--json"])
    assert result.exit_code == 0, result.stderr
    outcome = msgspec.json.decode(result.stdout)
    assert outcome["exact"]
    assert outcome["matched"] == outcome["delivered"] > outcome["sent"] > 0
    assert outcome["brokers"]["pb1"]["published"] == outcome["sent"] + 2
    assert len(outcome["subscribers"]) == 8
    assert "sent " in result.stderr
    assert children(os.getpid()) == before


def test_a_demo_for_people_ends_with_a_table() -> None:
    result = CliRunner().invoke(app, ["demo", "--seconds", "0.2", "--subscribers", "2"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("│ exact") == 2
    assert "every subscriber got exactly what it asked for" in result.stdout


def test_a_single_wrong_delivery_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    right = demo_verdict.judge
    monkeypatch.setattr(
        "penstock.cli.demo.judge", lambda selector, sent, received, **more: right(selector, sent, received[1:], **more)
    )
    result = CliRunner().invoke(app, ["demo", "--seconds", "0.2", "--subscribers", "6", "--rate", "2000"])
    assert result.exit_code == 1
    assert "1 missing" in result.stdout
    assert "did not get exactly what they asked for" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes(number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "demo", "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("sent "):
            assert process.poll() is None
        brokers = children(process.pid)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert len(brokers) == 4
    assert not any(Path(f"/proc/{pid}").exists() for pid in brokers)


def test_rates_are_counts_per_second_since_the_last_look() -> None:
    tally = Tally([DemoSubscriber("sb1", "TRUE", [b"1", b"2"])])
    tally.brokers["pb1"] = {"published": 5, "forwarded": 0, "delivered": 0}
    counts = _counts(tally)
    assert counts["delivered"] == 2
    rates = _Rates()
    assert rates.of(counts)["delivered"] > 0
    assert rates.of(counts)["delivered"] == 0
    assert _table(tally, rates.of(counts)).row_count == 3
