"""Renders the report as one self-contained page: text, tables and drawings in one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from penstock.pipeline.telemetry.model import Episode, FigureSummary, TelemetryReport, shown_time

__all__ = ["telemetry_page"]

_ROWS_MAX: Final = 500
_STYLE: Final = """
body { font: 15px/1.4 system-ui, sans-serif; max-width: 72rem; margin: 1rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin: 1.6rem 0 .3rem }
svg { width: 100%; height: auto } p.note { color: #666 }
table { border-collapse: collapse; width: 100% } td, th { padding: .15rem .6rem; border-bottom: 1px solid #ddd }
th { text-align: left; background: #f4f4f4 }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
details summary { cursor: pointer; margin-top: 1rem }
"""


def telemetry_page(report: TelemetryReport, charts: Mapping[str, str], note: str = "") -> str:
    """Render the page; without charts, a note says why."""
    what = (
        f"{report.samples:,} samples of {len(report.figures):,} figures of {len(report.brokers)} brokers "
        f"({', '.join(report.brokers)}); lake {report.lake}"
    )
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Penstock telemetry</title>",
        f"<style>{_STYLE}</style></head><body><h1>Penstock telemetry</h1>",
        f"<p>{shown_time(report.first_ms)} to {shown_time(report.last_ms)}, {escape(what)}</p>",
        f"<p class='note'>{escape(note)}</p>" if note else "",
        "<h2>Episodes</h2>",
        charts.get("episodes", ""),
        _episodes(report.episodes),
        *(f"<h2>{escape(title)}</h2>{svg}" for title, svg in charts.items() if title != "episodes"),
        "<h2>Figures</h2>",
        _figures(report.highlights()),
        f"<details><summary>all {len(report.figures):,} figures</summary>{_figures(report.figures)}</details>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _episodes(episodes: Sequence[Episode]) -> str:
    if not episodes:
        return "<p>None: no pubend was limited, nobody was held back, no mechanism was at work.</p>"
    head = {"what": "", "broker": "", "of": "", "from": "", "to": "", "seconds": "number", "samples": "number"}
    rows = (
        (
            each.kind,
            each.broker,
            each.labels,
            shown_time(each.began_ms),
            shown_time(each.ended_ms),
            _number(each.seconds),
            _number(each.samples),
        )
        for each in episodes[:_ROWS_MAX]
    )
    return _table(head, rows, len(episodes))


def _figures(figures: Sequence[FigureSummary]) -> str:
    names = ("samples", "lowest", "mean", "highest", "last", "per s, mean", "per s, highest")
    head = {"figure": "", "broker": "", "of": "", **dict.fromkeys(names, "number")}
    rows = (
        (
            each.metric.removeprefix("penstock_"),
            each.broker,
            each.labels,
            *map(_number, (each.samples, each.lowest, each.mean, each.highest, each.last)),
            *map(_number, (each.rate_mean, each.rate_highest)),
        )
        for each in figures[:_ROWS_MAX]
    )
    return _table(head, rows, len(figures))


def _table(head: Mapping[str, str], rows: Iterable[Sequence[str]], count: int) -> str:
    kinds = [f" class='{kind}'" if kind else "" for kind in head.values()]
    heads = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    more = f"<p class='note'>{count - _ROWS_MAX:,} more are in the Parquet files</p>" if count > _ROWS_MAX else ""
    return f"<table><tr>{heads}</tr>{body}</table>{more}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"
