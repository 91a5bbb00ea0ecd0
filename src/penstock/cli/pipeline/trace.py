"""``penstock pipeline trace``: traces many messages at once, from what brokers have shipped ([Tracking] 3.3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.pipeline.frame import AsJson, Lake, at_work, note_unreadable, on_spark, tell
from penstock.pipeline.session import SessionSettings, check_requirements

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


@on_spark("penstock trace")
def trace(
    lake: Lake,
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
    as_json: AsJson = False,
    session: SessionSettings,
) -> None:
    """Trace many messages at once: origin, path and receivers of each, as a live trace would show them."""
    check_requirements()
    from penstock.pipeline.lake import table_files
    from penstock.pipeline.trace import TraceOptions, run_trace

    options = TraceOptions(lake, out, ids, tuple(each or ()), slack, overwrite)
    table_files(lake, "histories")
    with at_work(session) as (spark, reporter):
        summary = run_trace(spark, options, reporter)
    _note_problems(summary)
    tell(summary, as_json=as_json, details=lambda: _show(summary))
    if summary.malformed:
        raise typer.Exit(FAILURE)


def _note_problems(summary: TraceSummary) -> None:
    note_unreadable(summary.unreadable)
    for text in summary.malformed_examples:
        console.note(f"not an id: {text}")
    if summary.malformed > len(summary.malformed_examples):
        console.note(f"{summary.malformed - len(summary.malformed_examples):,} more texts are not ids")


def _show(summary: TraceSummary) -> None:
    for each in summary.traces:
        receivers = ", ".join(f"{subscriber} at {broker}" for broker, subscriber in each["receivers"]) or "nobody"
        console.line(f"{each['message_id']}: {' → '.join(each['routed_by']) or 'on no record'}; to {receivers}")
    rows = (
        (name, f"{summary.routed_by.get(name, 0):,}", f"{summary.delivered_by.get(name, 0):,}")
        for name in _names(summary)
    )
    console.table("messages by broker", {"broker": "left", "had it": "right", "deliveries": "right"}, rows)


def _names(summary: TraceSummary) -> list[str]:
    return sorted({*summary.routed_by, *summary.delivered_by})
