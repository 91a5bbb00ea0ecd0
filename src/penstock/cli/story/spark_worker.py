"""The Spark part of the story, in a process of its own: archive, bulk trace, audit, in one session.

A process, so that it can be ended at any time with its Java. What it is to do comes on standard input, a line of JSON,
when Spark has started or long before; what each step has found goes to standard output, a line of JSON each.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.lab.experiment import QuietReporter
from penstock.model.errors import PenstockError
from penstock.pipeline.session import SessionSettings, using_session

__all__ = ["Finding", "Work", "main"]

_SMALL: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}
"""For tables of some thousand rows: what Spark does to be fast on large ones takes longer than the work."""


class Work(msgspec.Struct, frozen=True):
    """What is to be done."""

    brokers: str
    """Addresses, separated by commas."""
    lake: str
    out: str
    """Where traces go."""
    ids: list[str]
    first_ms: int
    end_ms: int
    slack_ms: int = 300


class Finding(msgspec.Struct, frozen=True):
    """What one step has found."""

    step: str
    """``session``, ``archive``, ``trace``, ``audit``, or ``error``."""
    seconds: float
    lines: list[str]
    facts: dict[str, Any] = {}
    is_clean: bool = True


def main() -> None:
    """Do the work, and end with 0; or with 1 when something could not be done."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Py4J logs what a batch failed of, with a trace; we tell it in one line.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        _run()
    except PenstockError as error:
        _tell(Finding("error", 0.0, [str(error)], is_clean=False))
        sys.exit(1)


def _run() -> None:
    begun_s = time.monotonic()
    with using_session(SessionSettings(app_name="penstock demo", conf=_SMALL)) as spark:
        _tell(Finding("session", time.monotonic() - begun_s, ["Spark is there"]))
        line = sys.stdin.buffer.readline()
        if not line:
            # Whoever started it has gone.
            return
        work = msgspec.json.decode(line, type=Work)
        with ThreadPoolExecutor(1) as beside:
            # Traces need nothing of the archive, and planning, which takes longest here, keeps one core busy at most.
            traced = beside.submit(_timed, _trace, spark, work)
            _tell(_timed(_archive, spark, work))
            _tell(traced.result())
        _tell(_timed(_audit, spark, work))


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
