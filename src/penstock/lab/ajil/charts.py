"""Panels for the charts of the Ajil experiments, after figures 2 to 6 ([Ajil] section 5).

We know the paper's figures only from their captions and the surrounding text; numbers from that text are marked as
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.ajil.amounts import Floats
from penstock.lab.ajil.figures import LIMIT, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["difference_panel", "dress", "traffic_panel", "utility_panel"]

_KB: Final = 1000
RAW, AJIL, REPORTS, PUBLISHED = "#bbbbbb", "#4477aa", "#cc6677", "#117733"


def traffic_panel(axes: Axes, run: Run, *, title: str, packet_bytes: int) -> None:
    """Draw the traffic with and without Ajil, and the reports at the bottom."""
    axes.plot(run.wanted * LIMIT / _KB, color=RAW, linewidth=1.2, label="raw IP multicast")
    axes.plot(run.traffic * LIMIT / _KB, color=AJIL, linewidth=1.0, label="with Ajil")
    axes.plot(run.reports * packet_bytes / _KB, color=REPORTS, linewidth=0.8, label="reports")
    axes.axhline(LIMIT / _KB, color=PUBLISHED, linestyle="--", linewidth=1, label="limit (published: 600 KBps)")
    axes.set_ylim(bottom=0)
    dress(axes, title, "epoch (s)", "aggregate traffic (KBps)")


def difference_panel(axes: Axes, runs: Sequence[tuple[str, Floats]], *, title: str) -> None:
    """Draw how far the traffic is from the limit during the surge."""
    for name, surge in runs:
        axes.plot(np.arange(len(surge)), surge * 100, linewidth=1.0, label=name)
    axes.axhline(0, color=PUBLISHED, linestyle="--", linewidth=1, label="the limit")
    # Leave room for the legend above the curves; panels with a shared axis make room for all their curves.
    values = np.concatenate([surge * 100 for _, surge in runs] + [line.get_ydata() for line in _shared_lines(axes)])
    low, high = float(values.min()), float(values.max())
    axes.set_ylim(low - 0.05 * (high - low), high + 0.4 * (high - low))
    dress(axes, title, "epochs since the surge began (s)", "difference to the limit (%)")


def _shared_lines(axes: Axes) -> list[Line2D]:
    return [line for each in axes.get_shared_y_axes().get_siblings(axes) for line in each.get_lines()]


def utility_panel(axes: Axes, run: Run, *, title: str) -> None:
    """Draw the utility of each channel and group, sorted."""
    for name, values in (("channels", run.channel_utility), ("groups", run.group_utility)):
        share = np.linspace(0, 100, len(values))
        label = f"{name} (variance {values.var():.2g})"
        axes.plot(share, np.sort(values) * 100, linewidth=1.4, label=label)
    axes.set_ylim(0, 105)
    dress(axes, title, "share of channels or groups (%)", "utility (%)")


def dress(axes: Axes, title: str, x: str, y: str) -> None:
    """Set title, labels, grid and legend."""
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7, frameon=False, loc="best")
