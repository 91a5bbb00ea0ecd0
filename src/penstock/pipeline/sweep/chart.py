"""Draws the results of a sweep: each metric against the first swept parameter, with its interval.

Metrics that are the same in every run get no panel; a line below lists their values. A sweep over seeds alone has no
axis to draw against: then a panel shows the distribution of a metric's values.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.parameters import ParameterValue
from penstock.model.errors import MisuseError
from penstock.pipeline.sweep.plan import Run, SweepPlan
from penstock.pipeline.sweep.summary import CellSummary, Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_sweep"]

_PANELS_MAX: Final = 12
_SERIES_MAX: Final = 8
"""How many lines one panel may have and still be readable; the table has the rest."""
_TICKS_MAX: Final = 12
_PANEL_INCHES: Final = (4.2, 3.2)
_COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#777777")
_LOG_FROM: Final = 20
"""A parameter is drawn on a logarithmic axis if its largest value is this many times its smallest."""
_FOOT_CHARACTERS: Final = 130


def draw_sweep(
    plan: SweepPlan,
    cells: Sequence[CellSummary],
    found: Mapping[Run, Mapping[str, float]],
    target: Path,
    *,
    metrics: Sequence[str] = (),
) -> Path | None:
    """Draw the chart of a sweep to a file; None if there are no results."""
    from matplotlib.figure import Figure

    varying, constant = _told_apart(plan, found, metrics)
    shown = varying[:_PANELS_MAX]
    if not shown:
        return None
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    size = (max(2, columns) * _PANEL_INCHES[0], rows * _PANEL_INCHES[1] + 1)
    figure = Figure(figsize=size, dpi=120, layout="constrained")
    for number, metric in enumerate(shown):
        axes = figure.add_subplot(rows, columns, number + 1)
        axes.set_title(metric, fontsize=10)
        axes.grid(visible=True, alpha=0.3)
        if plan.grid:
            _draw_against_parameter(axes, plan, cells, metric)
        else:
            _draw_spread(
                axes, [found[run][metric] for run in plan.runs if metric in found.get(run, {})], cells[0], metric
            )
    if plan.grid and len(plan.grid) > 1:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8, title=", ".join(list(plan.grid)[1:]))
    seeds = f"{len(plan.seeds):,} seed" + ("s" if len(plan.seeds) != 1 else "")
    figure.suptitle(f"{plan.experiment.name}: mean and 95 % interval, {seeds} per cell")
    _add_foot(figure, constant, varying[_PANELS_MAX:])
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target)
    except OSError as error:
        raise MisuseError(f"cannot write the chart to {target}: {error.strerror}") from None
    return target


def _told_apart(
    plan: SweepPlan, found: Mapping[Run, Mapping[str, float]], metrics: Sequence[str]
) -> tuple[list[str], dict[str, float]]:
    """Split metrics into those that vary and constants with their value; explicitly requested ones are always drawn."""
    values: dict[str, set[float]] = {}
    for run in plan.runs:
        for metric, value in found.get(run, {}).items():
            values.setdefault(metric, set()).add(value)
    if metrics:
        return [metric for metric in metrics if metric in values], {}
    varying = [metric for metric, each in values.items() if len(each) > 1]
    return varying or list(values), {metric: min(each) for metric, each in values.items() if len(each) == 1 and varying}


def _draw_against_parameter(axes: Axes, plan: SweepPlan, cells: Sequence[CellSummary], metric: str) -> None:
    key, *others = plan.grid
    values = plan.grid[key]
    numeric = all(not isinstance(value, str | bool) for value in values)
    series: dict[tuple[ParameterValue, ...], list[tuple[float, Estimate]]] = {}
    for cell in cells:
        if metric in cell.metrics:
            value = cell.parameters[key]
            x = float(value) if numeric else float(values.index(value))
            series.setdefault(tuple(cell.parameters[name] for name in others), []).append((x, cell.metrics[metric]))
    for number, (label, points) in enumerate(list(series.items())[:_SERIES_MAX]):
        points.sort(key=lambda point: point[0])
        axes.errorbar(
            [x for x, _ in points],
            [each.mean for _, each in points],
            yerr=[0.0 if each.high is None else each.high - each.mean for _, each in points],
            marker="o",
            markersize=4,
            capsize=3,
            linewidth=1.2 if numeric else 0,
            elinewidth=1.2,
            color=_COLOURS[number],
            label=", ".join(str(value) for value in label),
        )
    axes.set_xlabel(key)
    _set_ticks(axes, values, numeric=numeric)


def _set_ticks(axes: Axes, values: Sequence[ParameterValue], *, numeric: bool) -> None:
    if numeric:
        numbers = [float(value) for value in values]
        if min(numbers) > 0 and max(numbers) / min(numbers) >= _LOG_FROM:
            axes.set_xscale("log")
        if len(numbers) <= _TICKS_MAX:
            axes.set_xticks(numbers, [f"{number:g}" for number in numbers])
            axes.minorticks_off()
    else:
        axes.set_xticks(range(len(values)), [textwrap.shorten(str(value), 16) for value in values])


def _draw_spread(axes: Axes, values: Sequence[float], cell: CellSummary, metric: str) -> None:
    known = cell.metrics[metric]
    axes.hist(values, bins=min(30, max(5, round(math.sqrt(len(values))))), color=_COLOURS[0], alpha=0.7)
    axes.axvline(known.mean, color=_COLOURS[1], linewidth=1.5)
    if known.low is not None and known.high is not None:
        axes.axvspan(known.low, known.high, color=_COLOURS[1], alpha=0.25)
    axes.set_ylabel("runs")


def _add_foot(figure: object, constant: Mapping[str, float], left_out: Iterable[str]) -> None:
    told = []
    if constant:
        told.append(
            "the same in every run: " + ", ".join(f"{metric} = {value:g}" for metric, value in constant.items())
        )
    if left := list(left_out):
        told.append("not drawn: " + ", ".join(left))
    if told:
        text = "\n".join(textwrap.fill(line, _FOOT_CHARACTERS) for line in told)
        figure.supxlabel(text, fontsize=8)  # type: ignore[attr-defined]
