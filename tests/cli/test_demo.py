"""``penstock demo`` with real processes: the story is played, everything is delivered, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from penstock.cli import demo as command
from penstock.cli.app import app
from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story import FAST, Outcome
from penstock.cli.story.crowd import Member
from penstock.cli.story.telling import judge_all
from penstock.model.message_id import MessageId
from penstock.pipeline.errors import JavaMissingError

LIMIT_S = 240.0
QUICK = replace(FAST, spreading_s=3.0, harm_s=2.0, view_s=0.5, token_s=4.0)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.live
def test_the_story_is_played_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    1. With less patience than usual, and without Spark, all chapters are told.
    2. The verdict is good whatever they could show in time, and the page is there.
    3. No process is left.
    """
    before, report = children(os.getpid()), tmp_path / "demo.html"
    monkeypatch.setattr(command, "FAST", QUICK)
    small = ["--fast", "--no-spark", "--subscribers", "24", "--rate", "60", "--report", str(report), "--json"]
    result = CliRunner().invoke(app, ["demo", *small])
    assert result.exit_code == 0, result.stderr
    outcome = msgspec.json.decode(result.stdout)
    assert outcome["good"]
    assert (outcome["lost"], outcome["duplicated"], outcome["audit_clean"]) == (0, 0, None)
    assert outcome["matched"] == outcome["delivered"] > 0
    assert len(outcome["subscribers"]) == 24
    chapters = {each["key"]: each for each in outcome["chapters"]}
    assert list(chapters) == ["balancing", "links", "limit", "token", "trace", "spark"]
    assert chapters["spark"]["as_expected"] is None
    assert chapters["limit"]["facts"]["limit"] > 0
    assert chapters["trace"]["facts"]["agrees"]
    assert "└──" in chapters["trace"]["drawing"]
    assert "clients sb1" in result.stderr
    assert str(report) in result.stderr
    assert "lost 0, duplicated 0" in report.read_text(encoding="utf-8")
    assert children(os.getpid()) == before


def test_a_single_wrong_delivery_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told(*_: object) -> Outcome:
        sent = [SentMessage(MessageId(1, 1, n, 0), {"n": n}) for n in range(3)]
        member = Member("subscriber-001", "n >= 0", ids=[each.id.to_bytes() for each in sent[1:]])
        return Outcome(FAST, [], [], judge_all([member], sent), 3, None)

    monkeypatch.setattr(command, "tell", told)
    monkeypatch.setattr(command, "RelayedOverlay", NoOverlay)
    result = CliRunner().invoke(app, ["demo", "--no-spark", "--report", str(tmp_path / "x.html")])
    assert result.exit_code == 1
    assert "published 3, delivered 2, lost 1, duplicated 0" in result.stdout
    assert "something was lost" in result.stderr
    assert "1 missing" in (tmp_path / "x.html").read_text(encoding="utf-8")


class NoOverlay:
    """Stands for brokers that nobody asks."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> NoOverlay:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_without_java_it_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise JavaMissingError("Spark needs Java 17; sudo apt-get install openjdk-17-jre-headless")

    async def told(*_: object) -> Outcome:
        return Outcome(FAST, [], [], [], 0, None)

    monkeypatch.setattr("penstock.cli.story.spark.check_requirements", missing)
    monkeypatch.setattr(command, "tell", told)
    monkeypatch.setattr(command, "RelayedOverlay", NoOverlay)
    result = CliRunner().invoke(app, ["demo", "--fast", "--report", str(tmp_path / "x.html")])
    assert result.exit_code == 0
    assert "will be left out: Spark needs Java 17; sudo apt-get install openjdk-17-jre-headless" in result.stderr


def test_a_report_that_cannot_be_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "demo.html"):
        result = CliRunner().invoke(app, ["demo", "--report", str(path)])
        assert result.exit_code == 2
        assert str(path.parent if path != tmp_path else path) in result.stderr


@pytest.mark.live
def test_a_signal_ends_all_processes(tmp_path: Path) -> None:
    command_line = [sys.executable, "-c", "from penstock.cli import main; main()", "demo", "--no-spark"]
    command_line += ["--subscribers", "8", "--report", str(tmp_path / "x.html")]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "clients sb1" not in process.stderr.readline():
            assert process.poll() is None
        started = children(process.pid)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    # Seven brokers and six links.
    assert len(started) == 13
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
