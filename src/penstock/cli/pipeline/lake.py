"""``penstock pipeline compact``, ``audit``, ``check`` and ``retain``: looks after a lake, and proves deliveries."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.pipeline.options import DriverMemory, ExecutorMemory, Master, Parallelism
from penstock.cli.progress import ProgressReporter
from penstock.model.errors import MisuseError
from penstock.pipeline.session import SessionSettings, check_requirements, using_session

__all__ = [
    "AUDIT_EXAMPLES",
    "CHECK_EXAMPLES",
    "COMPACT_EXAMPLES",
    "RETAIN_EXAMPLES",
    "audit",
    "check",
    "compact",
    "retain",
]

COMPACT_EXAMPLES = """
Answers stay the same: nothing that was on record is denied, and nothing is claimed more often than full filters may.

Examples:

- `penstock pipeline compact lake`
- `penstock pipeline compact lake --keep 1h --json`
"""
AUDIT_EXAMPLES = """
Ends with 1 if anything was lost, delivered twice, delivered to somebody who did not ask for it, or is unexplained.

Examples:

- `penstock pipeline audit lake --from 2026-11-15T00:00:00Z --to 2026-11-16T00:00:00Z`
- `penstock pipeline audit lake --from 2026-11-15T00:00:00Z --to 2026-11-16T00:00:00Z --text zip --json`
"""
CHECK_EXAMPLES = """
Ends with 1 if a file cannot be read.

Examples:

- `penstock pipeline check lake`
- `penstock pipeline check lake --set-aside`
"""
RETAIN_EXAMPLES = """
Examples:

- `penstock pipeline retain lake --days 90 --dry-run`
- `penstock pipeline retain lake --days 30 --table telemetry`
"""

Lake = Annotated[str, typer.Argument(metavar="LAKE", help="The folder that brokers ship to.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def compact(
    lake: Lake,
    *,
    keep: Annotated[
        str, typer.Option(metavar="TIME", help="How long merged files stay, for jobs that read them.")
    ] = "0s",
    as_json: AsJson = False,
    master: Master = "local[*]",
    driver_memory: DriverMemory = "1g",
    executor_memory: ExecutorMemory = "1g",
    parallelism: Parallelism = None,
) -> None:
    """Merge half-empty filters of the lake, and drop generations that newer ones have replaced."""
    check_requirements()
    from penstock.pipeline.archive import duration_s
    from penstock.pipeline.compact import compact_histories
    from penstock.pipeline.lake import table_files

    keep_ms = round(1_000 * duration_s(keep))
    table_files(lake, "histories")
    session = SessionSettings(master, driver_memory, executor_memory, parallelism, app_name="penstock compact")
    with ProgressReporter() as reporter:
        reporter.stage(f"starting Spark on {session.master}")
        with using_session(session) as spark:
            now_ms = time.time_ns() // 1_000_000
            summary = compact_histories(spark, lake, now_ms=now_ms, keep_ms=keep_ms, reporter=reporter)
    for path, problem in summary.unreadable.items():
        console.note(f"left alone: {path}: {problem}")
    console.line(summary.to_json() if as_json else summary.line())


def audit(  # noqa: PLR0913 - one per option
    lake: Lake,
    *,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="First time of messages, with its zone.")],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="The time before which messages end.")],
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An attribute that is text though it may look like a number."),
    ] = None,
    slack: Annotated[
        int, typer.Option(metavar="MS", help="Skew and jitter that the brokers' tracking allows (Ts + Tj).")
    ] = 300,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the findings as Parquet.")] = None,
    as_json: AsJson = False,
    master: Master = "local[*]",
    driver_memory: DriverMemory = "1g",
    executor_memory: ExecutorMemory = "1g",
    parallelism: Parallelism = None,
) -> None:
    """Prove that durable subscriptions received what they should have, once; or say what they did not."""
    check_requirements()
    from penstock.pipeline.audit import audit_lake
    from penstock.pipeline.audit.job import AuditRange
    from penstock.pipeline.audit.summary import write_findings
    from penstock.pipeline.lake import table_files

    range_ = AuditRange(_time_ms(start), _time_ms(end))
    table_files(lake, "publications")
    session = SessionSettings(master, driver_memory, executor_memory, parallelism, app_name="penstock audit")
    with ProgressReporter() as reporter:
        reporter.stage(f"starting Spark on {session.master}")
        with using_session(session) as spark:
            summary = audit_lake(spark, lake, range_, text_names=text or (), slack_ms=slack, reporter=reporter)
    for path, problem in summary.unreadable.items():
        console.note(f"left out: {path}: {problem}")
    if out is not None:
        write_findings(summary, out)
    if as_json:
        console.line(summary.to_json())
    else:
        for each in summary.findings[:20]:
            where = ", ".join(each["brokers"])
            console.line(f"{each['judgement']}: message {each['message_id']} for {each['subscriber']} ({where})")
        for line in summary.lines():
            console.line(line)
    if not summary.is_clean:
        raise typer.Exit(FAILURE)


def check(
    lake: Lake,
    *,
    aside: Annotated[bool, typer.Option("--set-aside", help="Move files that cannot be read to `_aside`.")] = False,
    as_json: AsJson = False,
) -> None:
    """See that all files of a lake can be read, and are of versions that are known here."""
    from penstock.pipeline.lake import check_lake, files_at, set_aside

    cares = check_lake(lake)
    problems = {path: problem for care in cares for path, problem in care.problems.items()}
    if as_json:
        told = [{**msgspec.to_builtins(care), "good": len(care.good)} for care in cares]
        console.line(msgspec.json.encode(told).decode())
    else:
        columns = {"table": "left", "files": "right", "rows": "right", "bytes": "right", "versions": "right"}
        rows = (
            (c.table, f"{c.files:,}", f"{c.rows:,}", f"{c.size_bytes:,}", ", ".join(map(str, sorted(c.versions))))
            for c in cares
        )
        console.table(f"lake {lake}", columns, rows)
    for path, problem in problems.items():
        console.note(f"cannot be read: {path}: {problem}")
    if aside and problems:
        for place in set_aside(files_at(lake), problems):
            console.note(f"set aside: {place}")
    if problems:
        raise typer.Exit(FAILURE)


def retain(
    lake: Lake,
    *,
    days: Annotated[int, typer.Option(metavar="N", min=1, help="Days that stay, besides today.")],
    table: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this table; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete old days of a lake; traces say from then on that they do not know, and never no."""
    from penstock.pipeline.lake.retention import retain_days

    before: date = datetime.now(UTC).date() - timedelta(days=days)
    result = retain_days(lake, before, tables=table or (), dry_run=dry_run)
    console.line(msgspec.json.encode(result).decode() if as_json else result.line())


def _time_ms(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MisuseError(f"{text!r} is no time such as 2026-11-15T00:00:00Z") from None
    if found.tzinfo is None:
        raise MisuseError(f"time {text!r} does not say its zone; write for example {text}Z")
    return round(found.timestamp() * 1_000)
