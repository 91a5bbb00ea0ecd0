"""``penstock pipeline archive``: writes a stream of messages to the lake's table ``publications``, exactly once."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.connecting import Authority, Certificate, Key, Token
from penstock.cli.console import console
from penstock.cli.pipeline.frame import AsJson, on_spark
from penstock.cli.progress import ProgressReporter
from penstock.pipeline.session import SessionSettings, check_requirements

__all__ = ["EXAMPLES", "archive"]

EXAMPLES = """
The lake is a folder; its table `publications` has Parquet files by date (of the tick, in UTC) and pubend. The same
command again goes on where it was, whatever ended it. `--from` counts only at the first start.

Examples:

- `penstock pipeline archive --broker penstock://sb1:7000,sb2:7000 --lake lake`
- `penstock pipeline archive --broker penstock://sb1:7000 --lake lake --once --json`
- `penstock pipeline archive --broker penstock://sb1:7000 --lake stock --selector "class = 'STOCK'" --every 1m`
- `penstock pipeline archive --broker penstock://sb1:7000 --lake lake --from 2026-11-15T00:00:00Z --missing skip`
"""

_SHOW_EVERY_S: Final = (1.0, 30.0)
"""Seconds between progress reports: on a terminal, and elsewhere, where every line stays."""


@on_spark("penstock archive")
def archive(  # noqa: PLR0913 - one per option
    *,
    broker: Annotated[
        str, typer.Option(metavar="URL", help="The broker, or several: `penstock://host:port,host:port`.")
    ],
    lake: Annotated[str, typer.Option(metavar="DIR", help="The folder of the lake; made if it is not there.")],
    selector: Annotated[str, typer.Option(help="What to archive; everything if not given.")] = "TRUE",
    start: Annotated[
        str, typer.Option("--from", metavar="earliest|latest|TIME", help="Where a new archive begins.")
    ] = "earliest",
    once: Annotated[bool, typer.Option("--once", help="End when all is archived that there is now.")] = False,
    every: Annotated[str, typer.Option(metavar="TIME", help="Time between batches, such as `10s` or `1m`.")] = "10s",
    max_rows: Annotated[int, typer.Option(metavar="N", min=1, help="Rows of one batch, at most.")] = 1_000_000,
    missing: Annotated[
        str, typer.Option(metavar="fail|skip", help="What to do about messages that the brokers keep no more.")
    ] = "fail",
    merge_files: Annotated[
        int, typer.Option(metavar="N", min=2, help="Merge this many small files of a pubend and day into one.")
    ] = 8,
    keep_merged: Annotated[
        str, typer.Option(metavar="TIME", help="How long merged files stay, for jobs that read them.")
    ] = "0s",
    as_json: AsJson = False,
    token: Token = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    session: SessionSettings,
) -> None:
    """Archive the messages of an overlay, until Ctrl-C or, with `--once`, up to now."""
    check_requirements()
    from penstock.pipeline.archive import ArchiveSettings, duration_s, run_archive
    from penstock.pipeline.lake import CompactionPolicy

    files: dict[str, Path | None] = {"ca": ca, "certificate": certificate, "key": key}
    settings = ArchiveSettings(
        broker,
        lake,
        selector=selector,
        start=start,
        missing=missing,
        every_s=None if once else duration_s(every),
        rows_max=max_rows,
        source={**({"token": token} if token else {}), **{name: str(path) for name, path in files.items() if path}},
        compaction=CompactionPolicy(files_min=merge_files, keep_ms=round(1_000 * duration_s(keep_merged))),
    )
    every_s = _SHOW_EVERY_S[0 if console.errors.is_terminal else 1]
    with ProgressReporter() as reporter:
        summary, ended_by = run_archive(settings, session, reporter, show_every_s=every_s)
    console.note(summary.line())
    if as_json:
        console.line(summary.to_json())
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt
