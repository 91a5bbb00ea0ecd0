"""``penstock pipeline telemetry``: reports what brokers measured over time, as tables, a summary and one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from penstock.cli.console import console, shown_number
from penstock.cli.pipeline.frame import AsJson, Lake, at_work, on_spark
from penstock.pipeline.session import SessionSettings, check_requirements

if TYPE_CHECKING:
    from penstock.pipeline.telemetry.model import TelemetryReport

__all__ = ["EXAMPLES", "telemetry"]

EXAMPLES = """
Needs the table `telemetry`, which brokers ship. The folder of `--out` gets `tidy` (every sample, with rates),
`figures.parquet`, `episodes.parquet`, `telemetry.json` and the page `telemetry.html`.

Examples:

- `penstock pipeline telemetry lake`
- `penstock pipeline telemetry lake --from 2026-11-15T10:00:00Z --to 2026-11-15T11:00:00Z --json`
"""
_SHOWN: Final = 20


@on_spark("penstock telemetry")
def telemetry(
    lake: Lake,
    *,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Only samples from then on; all if not given.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only samples before.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where tables and page go; by default `LAKE/_telemetry`.")
    ] = None,
    as_json: AsJson = False,
    session: SessionSettings,
) -> None:
    """Report what brokers measured: rates, lags, queues, and episodes of congestion and of mechanisms, on one page."""
    check_requirements()
    from penstock.pipeline.lake import check_whole
    from penstock.pipeline.lake.files import files_at
    from penstock.pipeline.telemetry.job import run_telemetry
    from penstock.pipeline.time_span import TimeSpan

    span = TimeSpan.parse(start, end)
    check_whole(lake, "telemetry")
    folder = (out or files_at(lake).root / "_telemetry").absolute()
    with at_work(session) as (spark, reporter):
        report = run_telemetry(spark, lake, span, reporter, tidy_folder=folder.with_name(f"{folder.name}_tidy"))
    _save(report, folder)
    if as_json:
        console.json({**report.summary(), "folder": str(folder)})
        return
    _show(report)
    console.line(f"page: {folder / 'telemetry.html'}")


def _save(report: TelemetryReport, folder: Path) -> None:
    from penstock.pipeline.folders import write_folder
    from penstock.pipeline.telemetry.page import telemetry_page

    charts: dict[str, str] = {}
    note = ""
    try:
        from penstock.pipeline.telemetry.charts import svg_charts

        charts = svg_charts(report)
    except ImportError:
        note = "no charts: matplotlib is missing; install it with: pip install 'penstock[lab]'"
        console.note(note)
    tables = {
        "figures": _columns([asdict(each) for each in report.figures]),
        "episodes": _columns([asdict(each) for each in report.episodes]),
    }
    summary = msgspec.json.format(msgspec.json.encode(report.summary()), indent=1).decode()
    write_folder(folder, tables, {"telemetry.json": summary, "telemetry.html": telemetry_page(report, charts, note)})


def _show(report: TelemetryReport) -> None:
    from penstock.pipeline.telemetry.model import shown_time

    console.line(
        f"{report.samples:,} samples of {len(report.brokers)} brokers, "
        f"{shown_time(report.first_ms)} to {shown_time(report.last_ms)}"
    )
    columns = {"episode": "left", "broker": "left", "of": "left", "from": "left", "seconds": "right"}
    rows = (
        (each.kind, each.broker, each.labels, shown_time(each.began_ms), shown_number(each.seconds))
        for each in report.episodes[:_SHOWN]
    )
    console.table(f"{len(report.episodes):,} episodes", columns, rows)
    names = ("mean", "highest", "last", "per s")
    figures = (
        (
            each.metric,
            each.broker,
            each.labels,
            *map(shown_number, (each.mean, each.highest, each.last, each.rate_mean)),
        )
        for each in report.highlights()[:_SHOWN]
    )
    heads = {"figure": "left", "broker": "left", "of": "left", **dict.fromkeys(names, "right")}
    console.table("figures", heads, figures)


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
