"""Shows the comparison: tables on the console, the same as Markdown and JSON for the documents, and a chart."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.machine import warning_of
from bench.peers.rounds import Row, Spread
from bench.peers.targets import Target, targets_of, verdicts
from bench.peers.workloads import GROUPS, Group
from bench.report import Report
from penstock.cli.console import shown_number

__all__ = ["Comparison", "cells_of", "draw_chart", "here_and_now", "json_text", "markdown", "tables", "verdict_table"]

_ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(slots=True, frozen=True)
class Comparison:
    """All rows of one run of the command, with what a reader needs to judge them."""

    date: str
    commit: str
    machine: str
    load: float
    """The load of the machine before the first round."""
    rounds: int
    is_quick: bool
    versions: Mapping[str, str]
    """The version of each peer that was measured."""
    skipped: Mapping[str, str]
    """The peers that were not measured, each with the reason."""
    rows: Sequence[Row] = field(default_factory=tuple)
    groups: Sequence[str] = tuple(GROUPS)
    """The groups that were asked for: only their targets are judged."""

    @property
    def about(self) -> list[str]:
        """Lines that say when, where and how."""
        rounds = f"rounds: {self.rounds}"
        if self.rounds > 1:
            rounds += "; figures are medians, with the lowest and the highest of all rounds"
        lines = [f"{self.date}, commit {self.commit}, {self.machine}", rounds]
        lines.append(
            "busy: the share of its processor that a broker used; well below 1, the driver or the machine was the limit"
        )
        if warning := warning_of(self.load):
            lines.append(warning)
        if self.is_quick:
            lines.append("quick sizes: they show that it works, and are no basis for conclusions")
        lines += [f"{name} {version}" for name, version in self.versions.items()]
        lines += [f"skipped: {name}: {reason}" for name, reason in self.skipped.items()]
        return lines


def here_and_now() -> tuple[str, str, str]:
    """The date, the commit of this tree, and the machine."""
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    if _git("status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    machine = f"{os.cpu_count()} processors ({_processor()}), Python {platform.python_version()}"
    return datetime.now(UTC).date().isoformat(), commit, machine


def tables(rows: Sequence[Row]) -> Iterator[Report]:
    """One table for each group that has rows."""
    for key, group in GROUPS.items():
        some = [row for row in rows if row.group == key]
        if some:
            report = Report(group.title, ("workload", "broker", *group.columns.values()))
            report.rows += [(row.workload, row.contender, *cells_of(row, list(group.columns))) for row in some]
            yield report


def verdict_table(rows: Sequence[Row], targets: Sequence[Target] | None = None) -> Report:
    """What we want, what was measured, and whether that is enough."""
    report = Report("what is wanted, and what was measured", ("target", "wanted", "measured", "verdict"))
    report.rows += [
        (each.target.text, each.target.wanted, each.measured, each.word) for each in verdicts(rows, targets)
    ]
    return report


def markdown(comparison: Comparison, *, chart: str = "") -> str:
    """The comparison as a section of a page; ``chart`` is the address of the picture."""
    lines = [*(f"- {line}" for line in comparison.about), ""]
    if chart:
        lines += [f"![Medians of all brokers]({chart})", ""]
    for report in tables(comparison.rows):
        lines += _markdown_table(report, ("---", "---", *["---:"] * (len(report.columns) - 2)))
    judged = verdict_table(comparison.rows, targets_of(comparison.groups))
    lines += _markdown_table(judged, ("---", "---:", "---:", "---"))
    lines += [f"- {row.workload}, {row.contender}: {row.remark}" for row in comparison.rows if row.remark]
    return "\n".join(lines).rstrip() + "\n"


def json_text(comparison: Comparison) -> str:
    """The comparison for programs, with the range of every figure and the verdict on every target."""
    judged = [
        {"target": each.target.text, "wanted": each.target.wanted, "measured": each.measured, "verdict": each.word}
        for each in verdicts(comparison.rows, targets_of(comparison.groups))
    ]
    content = asdict(comparison) | {"verdicts": judged}
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def draw_chart(comparison: Comparison, file: Path) -> None:
    """Draw the headline figure of each group as bars, with the range of the rounds, into a PNG file."""
    from matplotlib.figure import Figure

    panels = {key: [row for row in comparison.rows if row.group == key and row.figures] for key in GROUPS}
    panels = {key: rows for key, rows in panels.items() if rows}
    if not panels:
        return
    heights = [1 + 0.3 * len(rows) for rows in panels.values()]
    figure = Figure(figsize=(9, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), height_ratios=heights, squeeze=False)
    for (key, rows), panel in zip(panels.items(), axes[:, 0], strict=True):
        _draw_bars(panel, GROUPS[key], rows)
    figure.suptitle(f"{comparison.date}, commit {comparison.commit}", fontsize=8)
    figure.savefig(file, dpi=120)


def _draw_bars(panel: Any, group: Group, rows: Sequence[Row]) -> None:
    spreads = [row.figures[group.headline] for row in rows]
    below = [each.median - each.lowest for each in spreads]
    above = [each.highest - each.median for each in spreads]
    colours = ["tab:blue" if row.contender.lower().startswith("penstock") else "tab:grey" for row in rows]
    panel.barh(range(len(rows)), [each.median for each in spreads], xerr=[below, above], color=colours)
    panel.set_yticks(range(len(rows)), [f"{row.contender}: {row.workload}" for row in rows], fontsize=7)
    panel.invert_yaxis()
    panel.set_title(f"{group.title} [{group.columns[group.headline]}]", fontsize=8, loc="left")
    panel.tick_params(axis="x", labelsize=7)


def cells_of(row: Row, names: Sequence[str]) -> list[float | str | None]:
    """The medians with their ranges; a row with no valid round says so in its first cell."""
    if not row.figures:
        return ["invalid", *[None] * (len(names) - 1)]
    cells: list[float | str | None] = [_cell(row.figures.get(name)) for name in names]
    if row.invalid and (first := cells[0]) is not None:
        cells[0] = f"{shown_number(first)} ({len(row.invalid)} of {row.rounds} invalid)"
    return cells


def _cell(spread: Spread | None) -> float | str | None:
    if spread is None or spread.lowest == spread.highest:
        return None if spread is None else spread.median
    median, lowest, highest = map(shown_number, (spread.median, spread.lowest, spread.highest))
    return f"{median} ({lowest} to {highest})"


def _markdown_table(report: Report, alignment: Sequence[str]) -> list[str]:
    """The lines of a table with its title as a heading, and an empty line after it."""
    lines = [f"### {report.title}", "", f"| {' | '.join(report.columns)} |", f"|{'|'.join(alignment)}|"]
    for row in report.rows:
        cells = ["-" if cell is None else shown_number(cell) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    return subprocess.run([git, *arguments], cwd=_ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
