"""``penstock pipeline compact``: merges half-empty filters of a lake."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.pipeline.frame import AsJson, Lake, at_work, note_unreadable, on_spark, tell
from penstock.pipeline.session import SessionSettings, check_requirements

__all__ = ["EXAMPLES", "compact"]

EXAMPLES = """
Answers stay the same: nothing that was on record is denied, and nothing is claimed more often than full filters may.

Examples:

- `penstock pipeline compact lake`
- `penstock pipeline compact lake --keep 1h --json`
"""


@on_spark("penstock compact")
def compact(
    lake: Lake,
    *,
    keep: Annotated[
        str, typer.Option(metavar="TIME", help="How long merged files stay, for jobs that read them.")
    ] = "0s",
    as_json: AsJson = False,
    session: SessionSettings,
) -> None:
    """Merge half-empty filters of the lake, and drop generations that newer ones have replaced."""
    check_requirements()
    from penstock.pipeline.archive import duration_s
    from penstock.pipeline.compact import compact_histories
    from penstock.pipeline.lake import table_files

    keep_ms = round(1_000 * duration_s(keep))
    table_files(lake, "histories")
    with at_work(session) as (spark, reporter):
        now_ms = time.time_ns() // 1_000_000
        summary = compact_histories(spark, lake, now_ms=now_ms, keep_ms=keep_ms, reporter=reporter)
    note_unreadable(summary.unreadable, what="left alone")
    tell(summary, as_json=as_json)
