"""Does the story's work on Spark in a process of its own: archive, bulk trace and audit, in one session.

A process can be ended at any time together with its Java. Work arrives on standard input, one line of JSON each, when
Spark has started or long before; findings go to standard output, one line of JSON per step. Java is slow at whatever
it does for the first time, so all steps are rehearsed while the story is told, at a lower priority. What a rehearsal
archives stays archived; its other results are dropped.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.model.errors import PenstockError
from penstock.model.reporting import QuietReporter
from penstock.pipeline.session import SessionSettings, using_session

__all__ = ["Finding", "Inbox", "Work", "main"]

_SMALL: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # Packs hundreds of files of some kilobytes into few tasks.
    "spark.sql.files.openCostInBytes": "65536",
}
"""For tables of some thousand rows: Spark's optimisations for large ones take longer than the work."""
_NICE: Final = 10


class Work(msgspec.Struct, frozen=True):
    """A piece of work."""

    brokers: str
    """Addresses, separated by commas."""
    lake: str
    out: str
    """The folder for traces."""
    ids: list[str]
    first_ms: int
    end_ms: int
    steps: list[str]
    """Which of ``archive``, ``trace`` and ``audit`` to do, in parallel."""
    slack_ms: int = 300
    is_rehearsal: bool = False
    """Whether it only warms up Spark; it is skipped if other work is waiting."""


class Finding(msgspec.Struct, frozen=True):
    """The result of one step."""

    step: str
    """``session``, ``archive``, ``trace``, ``audit``, or ``error``."""
    seconds: float
    lines: list[str]
    facts: dict[str, Any] = {}
    is_clean: bool = True


class Inbox:
    """Queues work as it arrives; a thread reads it, so that the worker knows what is waiting."""

    def __init__(self) -> None:
        self._waiting: deque[Work | None] = deque()
        self._change = threading.Condition()

    def put(self, work: Work | None) -> None:
        """Add work; None means that no more comes."""
        with self._change:
            self._waiting.append(work)
            self._change.notify()

    def take(self) -> Work | None:
        """Take the next work worth doing: a rehearsal is not, once real work or the end is waiting."""
        with self._change:
            while True:
                while not self._waiting:
                    self._change.wait()
                work = self._waiting.popleft()
                if work is None or not work.is_rehearsal or self._is_idle():
                    return work

    def _is_idle(self) -> bool:
        return all(each is not None and each.is_rehearsal for each in self._waiting)

    def read(self) -> None:
        """Read standard input to its end."""
        for line in sys.stdin.buffer:
            self.put(msgspec.json.decode(line, type=Work))
        # At its end the parent has handed over everything, or is gone.
        self.put(None)


def main() -> None:
    """Do the work, and exit with 0, or with 1 if some of it failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # A group of its own: Ctrl-C at the terminal is for the parent, which ends this process in order. No session of its
    # own: the scheduler would grant a separate session half of the machine, whatever its niceness.
    os.setpgid(0, 0)
    os.nice(_NICE)
    # Py4J logs why a batch failed, with a traceback; we report it in one line.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        _run()
    except PenstockError as error:
        _tell(Finding("error", 0.0, [str(error)], is_clean=False))
        sys.exit(1)


def _run() -> None:
    inbox = Inbox()
    threading.Thread(target=inbox.read, name="work", daemon=True).start()
    begun_s, rehearsed = time.monotonic(), 0
    with using_session(SessionSettings(app_name="penstock demo", parallelism=1, conf=_SMALL)) as spark:
        _tell(Finding("session", round(time.monotonic() - begun_s, 1), ["Spark is there"]))
        while (work := inbox.take()) is not None:
            if work.is_rehearsal:
                rehearsed += _rehearsed(spark, work)
                continue
            for found in _done(spark, work):
                _tell(_with_rehearsed(found, rehearsed))


def _rehearsed(spark: Any, work: Work) -> int:
    """Rehearse, and return the number of rows archived; a failure is left for the real work to report."""
    from pyspark.errors import PySparkException

    try:
        return sum(each.facts.get("rows", 0) for each in _done(spark, work))
    except (PenstockError, PySparkException):
        return 0


def _done(spark: Any, work: Work) -> list[Finding]:
    """Do all steps of a work in parallel: planning, which takes longest here, keeps at most one core busy."""
    steps = {"archive": _archive, "trace": _trace, "audit": _audit}
    pool = ThreadPoolExecutor(len(steps))
    try:
        futures = [pool.submit(_timed, steps[each], spark, work) for each in work.steps]
        return [each.result() for each in futures]
    finally:
        # When told to end, do not wait for the other steps: they fail when Spark stops.
        pool.shutdown(wait=False, cancel_futures=True)


def _with_rehearsed(found: Finding, rows: int) -> Finding:
    """Add the rows that rehearsals have archived."""
    if found.step != "archive" or not rows:
        return found
    lines = [*found.lines, f"{rows:,} rows had been archived before, while the story was told"]
    return msgspec.structs.replace(found, lines=lines, facts={**found.facts, "rows": found.facts["rows"] + rows})


def _timed(step: Callable[[Any, Work], Finding], spark: Any, work: Work) -> Finding:
    begun_s = time.monotonic()
    found = step(spark, work)
    return msgspec.structs.replace(found, seconds=round(time.monotonic() - begun_s, 1))


def _archive(spark: Any, work: Work) -> Finding:
    from penstock.pipeline.archive import Archive, ArchiveSettings, archive_stream, overlay_of

    settings = ArchiveSettings(work.brokers, work.lake, every_s=None)
    with Archive.opened(settings, overlay_of(settings)) as archive:
        summary = archive.run(archive_stream(spark, settings), QuietReporter())
    return Finding("archive", 0.0, [summary.line()], {"rows": summary.rows})


def _trace(spark: Any, work: Work) -> Finding:
    from penstock.pipeline.trace import TraceOptions, run_trace

    options = TraceOptions(work.lake, Path(work.out), ids=tuple(work.ids), slack_ms=work.slack_ms)
    summary = run_trace(spark, options)
    facts = {"ids": summary.ids, "found": summary.found, "receivers": summary.receivers, "ways": summary.ways}
    return Finding("trace", 0.0, summary.lines()[:2], facts)


def _audit(spark: Any, work: Work) -> Finding:
    from penstock.pipeline.audit import audit_lake
    from penstock.pipeline.audit.job import AuditRange

    summary = audit_lake(spark, work.lake, AuditRange(work.first_ms, work.end_ms), slack_ms=work.slack_ms)
    facts = {"messages": summary.messages, "subscriptions": summary.subscriptions, "counts": summary.counts}
    return Finding("audit", 0.0, summary.lines(), facts, is_clean=summary.is_clean)


def _tell(finding: Finding) -> None:
    sys.stdout.write(msgspec.json.encode(finding).decode() + "\n")
    sys.stdout.flush()
