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
from penstock.cli.story.spark_worker import Finding, Inbox, Work, main
from penstock.pipeline.errors import SessionError

WORK = Work("penstock://a", "lake", "out", ["x"], 1, 2, ["archive", "trace", "audit"])


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lines: bytes = msgspec.json.encode(WORK)
) -> list[Finding]:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(lines)))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("os.setpgid", lambda *_: None)
    monkeypatch.setattr("os.nice", lambda _: 0)
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


def rehearsal(steps: list[str]) -> Work:
    return msgspec.structs.replace(WORK, steps=steps, is_rehearsal=True)


def test_what_a_rehearsal_has_archived_counts_and_nothing_else_of_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_session(monkeypatch)
    works = [rehearsal(["archive"]), msgspec.structs.replace(WORK, steps=["archive"])]
    inbox = iter([*works, None])
    monkeypatch.setattr(Inbox, "take", lambda _: next(inbox))
    monkeypatch.setattr(spark_worker, "_archive", lambda *_: Finding("archive", 0.0, ["3 rows"], {"rows": 3}))
    found = run(monkeypatch, capsys, b"")
    assert [each.step for each in found] == ["session", "archive"]
    assert found[1].facts == {"rows": 6}
    assert found[1].lines == ["3 rows", "3 rows had been archived before, while the story was told"]


def test_a_rehearsal_that_fails_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_session(monkeypatch)
    inbox = iter([rehearsal(["trace"]), None])
    monkeypatch.setattr(Inbox, "take", lambda _: next(inbox))

    def fail(_spark: str, _work: Work) -> Finding:
        raise SessionError("the lake is dry")

    monkeypatch.setattr(spark_worker, "_trace", fail)
    assert [each.step for each in run(monkeypatch, capsys, b"")] == ["session"]


def test_nothing_is_rehearsed_once_the_work_has_come() -> None:
    inbox = Inbox()
    for work in (rehearsal(["archive"]), rehearsal(["audit"])):
        inbox.put(work)
    first = inbox.take()
    assert first is not None
    assert first.steps == ["archive"]
    inbox.put(WORK)
    inbox.put(None)
    assert [inbox.take(), inbox.take()] == [WORK, None]
