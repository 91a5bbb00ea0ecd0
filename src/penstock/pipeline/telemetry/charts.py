"""Draws the lines and episodes of a report, each chart as SVG text to embed in a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from io import StringIO
from typing import TYPE_CHECKING, Final

from penstock.pipeline.telemetry.model import Episode, Line, TelemetryReport
from penstock.pipeline.telemetry.rules import CHARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_episodes", "draw_lines", "svg_charts", "svg_of"]

LINES_MAX: Final = 12
"""Maximum lines in one chart, those with the highest values; more would be indistinguishable."""
_ROWS_MAX: Final = 20
_COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_STYLES: Final = ("-", "--", ":")


def svg_charts(report: TelemetryReport) -> dict[str, str]:
    """The charts of a report by title; raises ``ImportError`` without matplotlib."""
    units = {chart.title: chart.unit for chart in CHARTS}
    span = report.first_ms, report.last_ms
    found: dict[str, str] = {}
    if report.episodes:
        found["episodes"] = svg_of(lambda figure: draw_episodes(figure, report.episodes, span))
    for title, lines in report.lines.items():
        found[title] = svg_of(lambda figure, lines=lines, title=title: draw_lines(figure, lines, units[title], span))  # type: ignore[misc]
    return found


def svg_of(draw: Callable[[Figure], None]) -> str:
    """Draw a figure as SVG text without the file header."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # With a fixed salt, the same figures make the same page.
    with mpl.rc_context({"svg.hashsalt": "penstock", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        draw(figure)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("?>")[2].partition("<svg")[2].join(("<svg", ""))


def draw_lines(figure: Figure, lines: Sequence[Line], unit: str, span: tuple[int, int]) -> None:
    """Plot figures over time."""
    axes = figure.add_subplot()
    busiest = sorted(lines, key=lambda line: -max(value for _, value in line.points))[:LINES_MAX]
    for place, line in enumerate(sorted(busiest, key=lambda line: line.name)):
        colour, style = _COLOURS[place % len(_COLOURS)], _STYLES[place // len(_COLOURS) % len(_STYLES)]
        times = [_day(ms) for ms, _ in line.points]
        marker = "." if len(times) < 3 else ""
        axes.plot(times, [value for _, value in line.points], style, marker=marker, c=colour, label=line.name)
    left_out = len(lines) - len(busiest)
    axes.set_ylabel(unit)
    if all(value >= 0 for line in busiest for _, value in line.points):
        axes.set_ylim(bottom=0)
    _time_axis(axes, span)
    title = f"{left_out} lower lines left out" if left_out else None
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="small", title=title)


def draw_episodes(figure: Figure, episodes: Sequence[Episode], span: tuple[int, int]) -> None:
    """Plot when each episode lasted, one row per kind and broker."""
    axes = figure.add_subplot()
    rows: dict[str, list[Episode]] = {}
    for each in episodes:
        rows.setdefault(f"{each.kind} ({each.broker})", []).append(each)
    shown = dict(sorted(rows.items(), key=lambda row: -sum(each.seconds for each in row[1]))[:_ROWS_MAX])
    least_ms = max(1, (span[1] - span[0]) // 300)
    for place, (_, some) in enumerate(sorted(shown.items())):
        for each in some:
            # An episode with a single sample must still be visible.
            ends = [_day(each.began_ms), _day(max(each.ended_ms, each.began_ms + least_ms))]
            axes.plot(ends, [place, place], lw=8, c=_COLOURS[place % len(_COLOURS)], solid_capstyle="butt")
    axes.set_yticks(range(len(shown)), sorted(shown))
    axes.set_ylim(len(shown) - 0.5, -0.5)
    _time_axis(axes, span)


def _time_axis(axes: Axes, span: tuple[int, int]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    axes.set_xlim(_day(span[0]), _day(max(span[1], span[0] + 1)))
    locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axes.set_xlabel("time (UTC)")


def _day(ms: int) -> float:
    """Convert a time to matplotlib's days since 1970."""
    return ms / 86_400_000
