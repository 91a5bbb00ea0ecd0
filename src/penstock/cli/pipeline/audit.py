"""``penstock pipeline audit``: proves that subscribers received what they should have, or lists what they did not."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.console import FAILURE, console
from penstock.cli.pipeline.frame import AsJson, Lake, at_work, note_unreadable, on_spark, tell
from penstock.model.errors import MisuseError
from penstock.pipeline.session import SessionSettings, check_requirements

if TYPE_CHECKING:
    from penstock.pipeline.audit.summary import AuditSummary

__all__ = ["EXAMPLES", "audit"]

EXAMPLES = """
Ends with 1 if anything was lost, delivered twice, delivered to somebody who did not ask for it, or is unexplained.

Examples:

- `penstock pipeline audit lake --from 2026-11-15T00:00:00Z --to 2026-11-16T00:00:00Z`
- `penstock pipeline audit lake --from 2026-11-15T00:00:00Z --to 2026-11-16T00:00:00Z --text zip --json`
"""
_SHOWN: Final = 20


@on_spark("penstock audit")
def audit(
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
    session: SessionSettings,
) -> None:
    """Prove that durable subscriptions received what they should have, once; or say what they did not."""
    check_requirements()
    from penstock.pipeline.audit import audit_lake
    from penstock.pipeline.audit.job import AuditRange
    from penstock.pipeline.audit.summary import write_findings
    from penstock.pipeline.lake import table_files

    range_ = AuditRange(_time_ms(start), _time_ms(end))
    table_files(lake, "publications")
    with at_work(session) as (spark, reporter):
        summary = audit_lake(spark, lake, range_, text_names=text or (), slack_ms=slack, reporter=reporter)
    note_unreadable(summary.unreadable)
    if out is not None:
        write_findings(summary, out)
    tell(summary, as_json=as_json, details=lambda: _show(summary))
    if not summary.is_clean:
        raise typer.Exit(FAILURE)


def _show(summary: AuditSummary) -> None:
    for each in summary.findings[:_SHOWN]:
        where = ", ".join(each["brokers"])
        console.line(f"{each['judgement']}: message {each['message_id']} for {each['subscriber']} ({where})")


def _time_ms(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MisuseError(f"{text!r} is not a time such as 2026-11-15T00:00:00Z") from None
    if found.tzinfo is None:
        raise MisuseError(f"time {text!r} does not say its zone; write for example {text}Z")
    return round(found.timestamp() * 1_000)
