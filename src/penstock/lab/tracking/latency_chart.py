"""The chart of ``tracking-latency``: latency by configuration, as the paper's figure 3, and processor time by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Point", "draw"]

_COLOURS: Final = {"null": "0.5", "exact": "C1", "bloom": "C0"}


class Point(Protocol):
    """What a broker did under load, as far as it is drawn."""

    @property
    def cpu_us(self) -> float:
        """Processor time for a message."""

    @property
    def p50_ms(self) -> float:
        """Median latency."""

    @property
    def p99_ms(self) -> float:
        """Latency that one in a hundred exceeds."""


def draw(figure: Figure, rounds: Mapping[str, Sequence[Point]], swept: Mapping[str, Point]) -> None:
    """Rounds beside each other; below them, if there are any, the configurations."""
    figure.set_size_inches(11, 12 if swept else 5)
    grid = figure.add_gridspec(2 if swept else 1, 2, height_ratios=(2, 5) if swept else (1,))
    _draw_cpu(figure.add_subplot(grid[0, 0]), rounds)
    _draw_latency(figure.add_subplot(grid[0, 1]), rounds)
    if swept:
        _draw_swept(figure.add_subplot(grid[1, :]), swept)
    figure.suptitle("Tracking in one live broker: 200 publishers, 500 subscribers, 500 topics")


def _draw_cpu(axes: Axes, rounds: Mapping[str, Sequence[Point]]) -> None:
    for strategy, points in rounds.items():
        numbers = range(1, len(points) + 1)
        axes.plot(numbers, [each.cpu_us for each in points], "o-", color=_COLOURS[strategy], label=strategy)
    axes.set(xlabel="round", ylabel="processor time per message (µs)")
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")


def _draw_latency(axes: Axes, rounds: Mapping[str, Sequence[Point]]) -> None:
    for strategy, points in rounds.items():
        numbers = range(1, len(points) + 1)
        axes.plot(numbers, [each.p50_ms for each in points], "o-", color=_COLOURS[strategy], label=f"{strategy}, p50")
        axes.plot(numbers, [each.p99_ms for each in points], "x:", color=_COLOURS[strategy], label=f"{strategy}, p99")
    axes.set(xlabel="round", ylabel="latency (ms)")
    axes.locator_params(axis="x", integer=True)
    axes.set_yscale("log")
    axes.margins(y=0.25)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(frameon=False, ncols=3, fontsize="small", loc="upper left")


def _draw_swept(axes: Axes, swept: Mapping[str, Point]) -> None:
    for place, (label, each) in enumerate(swept.items()):
        colour = "0.5" if label == "null" else "C1" if label.startswith("exact") else "C0"
        axes.barh(place, each.p50_ms, color=colour, height=0.7)
        axes.plot([each.p99_ms], [place], "k|", markersize=10)
    axes.set_yticks(range(len(swept)), list(swept))
    axes.set_ylim(len(swept) - 0.4, -0.6)
    axes.set(xlabel="latency (ms): median (bar) and p99 (stroke)", xscale="log")
    axes.grid(visible=True, axis="x", alpha=0.3)
