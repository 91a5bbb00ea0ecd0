"""Charts of the balancing experiments, after figures 6, 7 and 8 of the paper ([PADRES] section 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.balancing.reporting import Estimate
from penstock.lab.balancing.overlay import Sample
from penstock.model.metrics import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves", "dress", "estimates_panel", "load_panel", "mark", "overhead_panel"]

_COLOURS: Final = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000")
_PUBLISHED: Final = "#555555"


def curves(axes: Axes, samples: Sequence[Sample], names: Sequence[str], value: Callable[[Sample, str], float]) -> None:
    """Draw one curve for each broker."""
    for place, name in enumerate(names):
        points = [(each.at_s, value(each, name)) for each in samples]
        axes.plot(*zip(*points, strict=True), label=name, color=_COLOURS[place % len(_COLOURS)], linewidth=1.1)


def load_panel(axes: Axes, samples: Sequence[Sample], names: Sequence[str], metric: Metric, *, title: str) -> None:
    """Draw a metric of all brokers over time."""
    curves(axes, samples, names, lambda sample, name: sample.loads[name].value(metric, delay_norm_s=1.0))
    dress(axes, title, "time (s)", metric.label)


def overhead_panel(axes: Axes, samples: Sequence[Sample], *, title: str, window: int = 20) -> None:
    """Draw balancing messages as a share of all messages, over time."""
    points = []
    for before, after in zip(samples, samples[window:], strict=False):
        control, messages = after.control - before.control, after.messages - before.messages
        points.append((after.at_s, 100 * control / max(control + messages, 1)))
    if points:
        axes.plot(*zip(*points, strict=True), color=_COLOURS[0], linewidth=1.1, label="measured")
    dress(axes, title, "time (s)", "message overhead (%)")


def estimates_panel(axes: Axes, estimates: Sequence[tuple[str, Estimate]], metric: Metric, *, title: str) -> None:
    """Draw estimated against actual values; exact estimates lie on the diagonal."""
    for colour, label, is_offloader in ((_COLOURS[0], "offloading broker", True), (_COLOURS[1], "accepting", False)):
        points = [
            (each.estimated.value(metric, delay_norm_s=1.0), each.actual.value(metric, delay_norm_s=1.0))
            for _, each in estimates
            if each.is_offloader is is_offloader
        ]
        if points:
            axes.plot(*zip(*points, strict=True), ".", color=colour, label=label, markersize=5)
    top = max(axes.get_xlim()[1], axes.get_ylim()[1], 0.01)
    axes.plot([0, top], [0, top], color=_PUBLISHED, linestyle="--", linewidth=1, label="y = x")
    dress(axes, title, f"estimated {metric.label}", f"actual {metric.label}")


def mark(axes: Axes, text: str, *, x: float | None = None, y: float | None = None) -> None:
    """Mark a published value with a dashed line across, or a dotted one down."""
    if y is not None:
        axes.axhline(y, color=_PUBLISHED, linestyle="--", linewidth=1, label=f"published: {text}")
    if x is not None:
        axes.axvline(x, color=_PUBLISHED, linestyle=":", linewidth=1, label=f"published: {text}")
    _legend(axes)


def dress(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """Set title, labels, grid and legend."""
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x_label, fontsize=8)
    axes.set_ylabel(y_label, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, alpha=0.3)
    axes.set_ylim(bottom=0)
    _legend(axes)


def _legend(axes: Axes) -> None:
    # Beside the panel, so that it never covers a curve.
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
