"""``penstock pipeline trace``: the ways of many messages at once, from what brokers have shipped ([Tracking] 3.3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.pipeline.options import DriverMemory, EventLog, ExecutorMemory, Master, Parallelism
from penstock.cli.progress import ProgressReporter
from penstock.pipeline.session import SessionSettings, check_requirements, using_session

if TYPE_CHECKING:
    from penstock.pipeline.trace import TraceSummary

__all__ = ["EXAMPLES", "trace"]

EXAMPLES = """
Ids are a table of the lake (`publications`), or a file: Parquet or CSV with a column `message_id` (or `id_high` and
`id_low`), or text with one id a line. Ends with 1 if some texts were no ids; the others are traced all the same.

Examples:

- `penstock pipeline trace lake --ids publications --out traces`
- `penstock pipeline trace lake --ids lost.txt --out lost --json | jq .false_receivers`
- `penstock pipeline trace lake --id 000000E000000G38EZKKWT0000`
"""


def trace(  # noqa: PLR0913 - one per option
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="The folder that brokers ship to.")],
    *,
    ids: Annotated[str, typer.Option(metavar="FILE|TABLE", help="The identifiers to trace.")] = "",
    each: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="One identifier; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results, as Parquet.")] = Path("traces"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace results that are there.")] = False,
    slack: Annotated[
        int, typer.Option(metavar="MS", help="Skew and jitter that the brokers' tracking allows (Ts + Tj).")
    ] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    master: Master = "local[*]",
    driver_memory: DriverMemory = "1g",
    executor_memory: ExecutorMemory = "1g",
    parallelism: Parallelism = None,
    event_log: EventLog = None,
) -> None:
    """Trace many messages at once: origin, way and receivers of each, as a live trace would tell."""
    check_requirements()
    from penstock.pipeline.lake import table_files
    from penstock.pipeline.trace import TraceOptions, run_trace

    options = TraceOptions(lake, out, ids, tuple(each or ()), slack, overwrite)
    table_files(lake, "histories")
    session = SessionSettings(master, driver_memory, executor_memory, parallelism, event_log, "penstock trace")
    with ProgressReporter() as reporter:
        reporter.stage(f"starting Spark on {session.master}")
        with using_session(session) as spark:
            summary = run_trace(spark, options, reporter)
    _tell(summary, as_json=as_json)
    if summary.malformed:
        raise typer.Exit(FAILURE)


def _tell(summary: TraceSummary, *, as_json: bool) -> None:
    for path, problem in summary.unreadable.items():
        console.note(f"left out: {path}: {problem}")
    for text in summary.malformed_examples:
        console.note(f"no id: {text}")
    if summary.malformed > len(summary.malformed_examples):
        console.note(f"{summary.malformed - len(summary.malformed_examples):,} more texts are no ids")
    if as_json:
        console.line(summary.to_json())
        return
    for each in summary.traces:
        receivers = ", ".join(f"{subscriber} at {broker}" for broker, subscriber in each["receivers"]) or "nobody"
        console.line(f"{each['message_id']}: {' → '.join(each['routed_by']) or 'on no record'}; to {receivers}")
    rows = (
        (name, f"{summary.routed_by.get(name, 0):,}", f"{summary.delivered_by.get(name, 0):,}")
        for name in _names(summary)
    )
    console.table("messages by broker", {"broker": "left", "had it": "right", "deliveries": "right"}, rows)
    for line in summary.lines():
        console.line(line)


def _names(summary: TraceSummary) -> list[str]:
    return sorted({*summary.routed_by, *summary.delivered_by})
