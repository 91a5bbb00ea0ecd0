"""The process that works on Spark says one line for each step, and what went wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from typing import Any

import msgspec
import pytest

from penstock.cli.story import spark_worker
from penstock.cli.story.spark_worker import Finding, Work, main
from penstock.pipeline.errors import SessionError

WORK = Work("penstock://a", "lake", "out", ["x"], 1, 2)


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: bytes = msgspec.json.encode(WORK)
) -> list[Finding]:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(line)))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    main()
    return told(capsys)


def told(capsys: pytest.CaptureFixture[str]) -> list[Finding]:
    return [msgspec.json.decode(line, type=Finding) for line in capsys.readouterr().out.splitlines()]


def with_session(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(_settings: Any) -> Iterator[str]:
        yield "spark"

    monkeypatch.setattr(spark_worker, "using_session", session)


def test_steps_are_done_in_order_and_timed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with_session(monkeypatch)
    for step in ("archive", "trace", "audit"):

        def done(spark: str, work: Work, step: str = step) -> Finding:
            assert (spark, work) == ("spark", WORK)
            return Finding(step, -1.0, [f"{step} is done"], {"rows": 3}, is_clean=step != "audit")

        monkeypatch.setattr(spark_worker, f"_{step}", done)
    found = run(monkeypatch, capsys)
    assert [each.step for each in found] == ["session", "archive", "trace", "audit"]
    assert [each.is_clean for each in found] == [True, True, True, False]
    assert all(each.seconds >= 0.0 for each in found)
    assert found[1].lines == ["archive is done"]


def test_a_failure_is_a_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with_session(monkeypatch)

    def fail(_spark: str, _work: Work) -> Finding:
        raise SessionError("the lake is dry")

    monkeypatch.setattr(spark_worker, "_archive", fail)
    with pytest.raises(SystemExit) as end:
        run(monkeypatch, capsys)
    assert end.value.code == 1
    last = told(capsys)[-1]
    assert (last.step, last.lines, last.is_clean) == ("error", ["the lake is dry"], False)


def test_without_anybody_who_wants_work_done_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_session(monkeypatch)
    assert [each.step for each in run(monkeypatch, capsys, b"")] == ["session"]
