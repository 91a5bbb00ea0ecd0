"""``penstock pipeline check`` and ``retain``: check the files of a lake and delete old ones, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.pipeline.frame import AsJson, Lake

__all__ = ["CHECK_EXAMPLES", "RETAIN_EXAMPLES", "check", "retain"]

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


def check(
    lake: Lake,
    *,
    aside: Annotated[bool, typer.Option("--set-aside", help="Move files that cannot be read to `_aside`.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that all files of a lake are readable and of known versions."""
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
    """Delete old days of a lake; traces of those days then answer "unknown", never "no"."""
    from penstock.pipeline.lake.retention import retain_days

    before: date = datetime.now(UTC).date() - timedelta(days=days)
    result = retain_days(lake, before, tables=table or (), dry_run=dry_run)
    console.line(msgspec.json.encode(result).decode() if as_json else result.line())
