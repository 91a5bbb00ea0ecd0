"""Reports for tests."""

from __future__ import annotations

from penstock.pipeline.telemetry.model import Episode, FigureSummary, Line, TelemetryReport
from penstock.pipeline.telemetry.rules import CHARTS

T0 = 1_794_744_000_000


def report(*, episodes: bool = True, lines: int = 2) -> TelemetryReport:
    figures = [
        FigureSummary("b1", "penstock_bytes_out_total", "", 60, 0.0, 5.0, 9.0, 9.0, 1.5, 2.0),
        FigureSummary("b1", "penstock_mechanism", "figure=sessions,mechanism=<x>", 60, 0.0, 1.0, 2.0, 2.0, None, None),
        FigureSummary("b2", "penstock_clients", "", 60, 1.0, 1.0, 1.0, 1.0, None, None),
    ]
    lasted = [
        Episode("congestion: pubend limited", "b1", "pubend=q", T0 + 10_000, T0 + 40_000, 4),
        Episode("balancing: BUSY", "b2", "", T0 + 50_000, T0 + 50_000, 1),
    ]
    drawn = [
        Line(
            f"b{number}",
            "penstock_bytes_out_total",
            "",
            [(T0 + step * 1000, float(number + step)) for step in range(60)],
        )
        for number in range(lines)
    ]
    title = next(chart.title for chart in CHARTS if "penstock_bytes_out_total" in chart.metrics)
    found = lasted if episodes else []
    return TelemetryReport("lake & co", T0, T0 + 60_000, 180, {"b1": 1000.0}, figures, found, {title: drawn})
