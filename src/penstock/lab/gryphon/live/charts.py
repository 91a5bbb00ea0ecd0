"""Charts of the live experiments, after the paper's figures 7, 9 and 10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.lab.gryphon.live.figures import Outage, Phase, published
from penstock.lab.gryphon.live.plan import HOSTS, WIRE_BYTES
from penstock.lab.gryphon.series import Point, Sample, rates, smoothed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_outage", "draw_phases"]

_COLOURS: Final = {"pb": "#222222", "sb1": "#ee6677", "sb2": "#4477aa", "ib": "#228833"}
_SMOOTH_S: Final = 2.0


def draw_phases(figure: Figure, samples: Sequence[Sample], phases: Sequence[Phase], *, how: str) -> None:
    """Draw rates against the bottleneck (figure 9), and queues in brokers and lags of hosts (figure 10)."""
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[3, 1.4, 1.4])
    _draw_rates(top, samples)
    for number, phase in enumerate(phases):
        label = "what the bottleneck IB-SB1 carries" if number == 0 else None
        rate = phase.bytes_s / WIRE_BYTES
        top.plot([phase.first_s, phase.last_s], [rate, rate], color="#ccbb44", linestyle="--", label=label)
        top.annotate(f"{phase.bytes_s / 1024:.0f} KB/s", (phase.first_s + 1, phase.bytes_s / WIRE_BYTES + 12))
    top.legend(loc="upper right", fontsize="small")
    top.set_title(f"Live brokers ({how}): rates under a changing bandwidth limit, as figure 9", fontsize="medium")
    middle.set_title("what waits, as figure 10, and how late messages are", fontsize="medium")
    _draw_queues(middle, samples)
    _draw_lags(bottom, samples)


def draw_outage(figure: Figure, samples: Sequence[Sample], outage: Outage, *, how: str) -> None:
    """Draw rates through a link failure and the recovery from it (figure 7), with NACK windows and lags."""
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[3, 1.4, 1.4])
    _draw_rates(top, samples)
    for at_s, text in (
        (outage.down_s, "IB-SB2 fails"),
        (outage.up_s, "link up"),
        (outage.recovered_s, "SB2 has recovered" if outage.has_recovered else "not recovered"),
    ):
        for axes in (top, middle, bottom):
            axes.axvline(at_s, color="#999999", linewidth=0.8)
        label = {"xycoords": ("data", "axes fraction"), "fontsize": "small", "color": "#666666"}
        top.annotate(text, (at_s + 0.5, 0.94), **label)
    top.legend(loc="center left", fontsize="small")
    top.set_title(f"Live brokers ({how}): rates through a link failure, as figure 7", fontsize="medium")
    times = [each.at_s for each in samples]
    middle.plot(times, [max(each.windows_ms["sb2"], default=0) for each in samples], color=_COLOURS["sb2"])
    middle.set_ylabel("NACK window\nof SB2, tickms")
    middle.set_ylim(bottom=0)
    _draw_lags(bottom, samples)


def _draw_rates(axes: Any, samples: Sequence[Sample]) -> None:
    counts = {"pb": rates(samples, published)}
    for host in HOSTS:
        counts[host] = rates(samples, lambda each, host=host: each.delivered[host])  # type: ignore[misc]
    for name, points in counts.items():
        label = "published (PB)" if name == "pb" else f"delivered at {name.upper()}"
        axes.plot(*_columns(smoothed(points, _SMOOTH_S)), color=_COLOURS[name], linewidth=1.2, label=label)
    axes.set_ylabel("messages per second")
    axes.set_ylim(bottom=0)


def _draw_queues(axes: Any, samples: Sequence[Sample]) -> None:
    times = [each.at_s for each in samples]
    for name in ("pb", "ib"):
        sizes = [each.queued_bytes[name] / 1024 for each in samples]
        axes.plot(times, sizes, color=_COLOURS[name], label=name.upper())
    axes.set_ylabel("waits in\noutboxes, KB")
    axes.legend(loc="upper left", fontsize="small")


def _draw_lags(axes: Any, samples: Sequence[Sample]) -> None:
    times = [each.at_s for each in samples]
    for host in HOSTS:
        axes.plot(times, [each.lag_s[host] for each in samples], color=_COLOURS[host], label=host.upper())
    axes.set_ylabel("lag, s")
    axes.set_xlabel("seconds")
    axes.legend(loc="upper left", fontsize="small")


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [at_s for at_s, _ in points], [figure for _, figure in points]
