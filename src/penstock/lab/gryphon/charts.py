"""Panels for the charts of the congestion experiments, after the figures of the paper: rates, queues, windows, alerts.

We know the paper's figures only from their captions and the surrounding text; numbers from that text are marked as
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Final

from penstock.lab.gryphon.overlay import KB, QUEUE_BYTES, Alert
from penstock.lab.gryphon.series import Sample, rates, smoothed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["alerts_panel", "horizon_panel", "mark", "queue_panel", "rate_panel", "span", "window_panel"]

_COLOURS: Final = {"PB": "#222222", "SB1": "#4477aa", "SB2": "#cc6677"}
_PUBLISHED: Final = "#117733"


def rate_panel(axes: Axes, samples: Sequence[Sample], hosts: Sequence[str], *, title: str) -> None:
    """Draw the rates of pubends and of the subscribers of hosts, smoothed over five seconds."""
    published = smoothed(rates(samples, lambda each: sum(each.published)))
    axes.plot(*zip(*published, strict=True), label="PB", color=_COLOURS["PB"], linewidth=1.6)
    for host in hosts:
        points = smoothed(rates(samples, partial(_delivered_to, host)))
        axes.plot(*zip(*points, strict=True), label=host, color=_COLOURS.get(host), linewidth=1.2, alpha=0.85)
    axes.set_ylim(bottom=0)
    _dress(axes, title, "rate (msg/s)")


def queue_panel(axes: Axes, samples: Sequence[Sample], links: Sequence[str], *, title: str) -> None:
    """Draw the bytes that wait for links, with the bound of a queue if one comes near it."""
    for link in links:
        axes.plot(
            [each.at_s for each in samples],
            [each.queued_bytes[link] / KB for each in samples],
            label=link,
            linewidth=1.4,
        )
    highest = max(each.queued_bytes[link] for each in samples for link in links)
    if highest > QUEUE_BYTES / 2:
        axes.axhline(QUEUE_BYTES / KB, color="grey", linestyle=":", label="bound")
    if not highest:
        axes.text(0.5, 0.5, "nothing ever waits", transform=axes.transAxes, ha="center", va="center")
    axes.set_ylim(bottom=0, top=None if highest else 1)
    _dress(axes, title, "queue (KB)")


def window_panel(axes: Axes, samples: Sequence[Sample], host: str, *, title: str) -> None:
    """Draw the NACK windows of a host, one line for each pubend."""
    for place in range(len(samples[-1].windows_ms[host])):
        windows = [each.windows_ms[host][place] for each in samples]
        axes.step([each.at_s for each in samples], windows, where="post", label=f"pubend {place + 1}", linewidth=1.2)
    axes.set_ylim(bottom=0)
    _dress(axes, title, "NACK window (tickms)")


def horizon_panel(axes: Axes, samples: Sequence[Sample], host: str, *, title: str) -> None:
    """Draw the mean doubt horizon rate of a host, and when it is recovering."""
    points = [(each.at_s, sum(each.horizon_rates[host]) / len(each.horizon_rates[host])) for each in samples]
    axes.plot(*zip(*points, strict=True), label=f"{host}, mean of pubends", color=_COLOURS["SB1"], linewidth=1.4)
    recovering = [each.at_s for each in samples if each.recovering[host]]
    if recovering:
        axes.plot(recovering, [0.0] * len(recovering), "|", color=_COLOURS["SB2"], label="is_rec")
    axes.set_ylim(bottom=-0.2)
    _dress(axes, title, "rate (ticksec/s)")


def alerts_panel(axes: Axes, alerts: Sequence[Alert], *, title: str) -> None:
    """Draw the rates in the UCAs that a publisher-hosting broker received."""
    for label, colour, points in (
        ("UCA_nonrec", _COLOURS["SB1"], [(each.at_s, each.nonrec) for each in alerts if isfinite(each.nonrec)]),
        ("UCA_rec", _COLOURS["SB2"], [(each.at_s, each.rec) for each in alerts if isfinite(each.rec)]),
    ):
        if points:
            axes.plot(*zip(*points, strict=True), ".", color=colour, label=label, markersize=3)
    axes.set_ylim(bottom=0)
    _dress(axes, title, "rate (ticksec/s)")


def mark(axes: Axes, text: str, *, x: float | None = None, y: float | None = None) -> None:
    """Mark a published value with a dashed line across, or down."""
    if y is not None:
        beyond = " (off the scale)" if y > axes.get_ylim()[1] else ""
        axes.axhline(y, color=_PUBLISHED, linestyle="--", linewidth=1, label=f"published: {text}{beyond}")
    if x is not None:
        axes.axvline(x, color=_PUBLISHED, linestyle="--", linewidth=1, label=f"published: {text}")
    _legend(axes)


def span(axes: Axes, first_s: float, last_s: float, text: str) -> None:
    """Shade a period, with a label at the top."""
    # Recoveries follow failures; colours tell them apart.
    colour = "#88ccee" if "recovers" in text else "#ddcc77"
    axes.axvspan(first_s, last_s, color=colour, alpha=0.25, linewidth=0)
    axes.text(
        (first_s + last_s) / 2, 0.98, text, transform=axes.get_xaxis_transform(), ha="center", va="top", fontsize=7
    )


def _delivered_to(host: str, sample: Sample) -> float:
    return sample.delivered[host]


def _dress(axes: Axes, title: str, label: str) -> None:
    # Leave room above the curves for the labels of spans.
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top + 0.1 * (top - bottom))
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_ylabel(label, fontsize=8)
    axes.set_xlabel("time (s)", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True, alpha=0.3)
    _legend(axes)


def _legend(axes: Axes) -> None:
    # Beside the panel, so that it never covers a curve.
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)
