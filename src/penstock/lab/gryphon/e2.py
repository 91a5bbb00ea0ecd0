"""E2: the publication rate follows a changing bottleneck, and queues stay short ([Gryphon] section 5).

Figures 9 to 11. ``adapt_s`` runs from the change of the bandwidth until the smoothed rate is within a quarter of its
mean over the rest of the phase; utilisation is computed from what SB1's subscribers got after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.charts import alerts_panel, mark, queue_panel, rate_panel, span
from penstock.lab.gryphon.frame import CONTROLLED, SOURCE, closing_figures, overlay_for
from penstock.lab.gryphon.overlay import KB, SIMPLE, WIRE_BYTES, GryphonOverlay
from penstock.lab.gryphon.series import adapt_s, between, mean, mean_rate, rates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["E2"]

_BANDWIDTHS_KB_S: Final = (60, 150, 60)
_WARM_S: Final = 30
_DRAIN_S: Final = 10


def _run(context: Context) -> Mapping[str, float]:
    phase_s = context.integer("phase_s")
    overlay = overlay_for(context, SIMPLE)
    overlay.run(_WARM_S)
    starts = []
    for kbytes_s in _BANDWIDTHS_KB_S:
        context.reporter.stage(f"IB-SB1 has {kbytes_s} KB/s", total=phase_s)
        overlay.throttle("IB", "SB1", kbytes_s)
        starts.append(overlay.now_s)
        for _ in range(phase_s):
            overlay.run(1)
            context.reporter.advance()
    phases = [(start, start + phase_s, kbytes_s) for start, kbytes_s in zip(starts, _BANDWIDTHS_KB_S, strict=True)]
    measured = _figures(overlay, phases)
    overlay.throttle("IB", "SB1", None)
    overlay.run(_DRAIN_S)
    overlay.stop()
    context.figure(lambda figure: _draw(figure, overlay, phases))
    return {**measured, **closing_figures(overlay)}


def _figures(overlay: GryphonOverlay, phases: list[tuple[float, float, int]]) -> dict[str, float]:
    published = rates(overlay.samples, lambda each: sum(each.published))
    adapted = [adapt_s(published, first_s, last_s) for first_s, last_s, _ in phases]
    measured: dict[str, float] = {}
    for number, ((first_s, last_s, kbytes_s), took_s) in enumerate(zip(phases, adapted, strict=True), start=1):
        rate = mean_rate(overlay.samples, lambda each: each.delivered["SB1"], first_s=first_s + took_s, last_s=last_s)
        measured[f"utilisation_{number}"] = round(rate * WIRE_BYTES / (kbytes_s * KB), 4)
    for number, took_s in enumerate(adapted, start=1):
        measured[f"adapt_s_{number}"] = round(took_s, 2)
    for number, ((first_s, last_s, _), took_s) in enumerate(zip(phases, adapted, strict=True), start=1):
        lags = [each.lag_s["SB1"] for each in between(overlay.samples, first_s + took_s, last_s)]
        measured[f"mean_lag_s_{number}"] = round(mean(lags), 3)
    window = between(overlay.samples, phases[0][0], phases[-1][1])
    counts = [last - first for first, last in zip(window[0].published, window[-1].published, strict=True)]
    measured["min_pubend_share"] = round(min(counts) / max(mean(counts), 1), 3)
    return measured


def _draw(figure: Figure, overlay: GryphonOverlay, phases: list[tuple[float, float, int]]) -> None:
    figure.set_size_inches(9, 9)
    above, middle, below = figure.subplots(3, 1, sharex=True)
    rate_panel(above, overlay.samples, ("SB1", "SB2"), title="Figure 9: E2, rates with a changing bottleneck")
    queue_panel(middle, overlay.samples, ("IB-SB1", "IB-SB2"), title="Figure 10: E2, queues at IB")
    mark(middle, "at most 1 MB", y=KB)
    alerts_panel(below, overlay.alerts, title="Figure 11: E2, UCAs received at the pubends")
    mark(below, "slightly below 1", y=1)
    for axes in (above, middle, below):
        for first_s, last_s, kbytes_s in phases[::2]:
            span(axes, first_s, last_s, f"{kbytes_s} KB/s")
    for first_s, last_s, kbytes_s in phases:
        optimum = kbytes_s * KB / WIRE_BYTES
        above.plot([first_s, last_s], [optimum, optimum], color="grey", linestyle=":", linewidth=1)


E2: Final = Experiment(
    name="gryphon-e2",
    summary="the publication rate follows a bottleneck of 60, 150 and 60 KB/s, with short queues",
    source=f"{SOURCE}, section 5, E2, figures 9 to 11",
    parameters=(
        *CONTROLLED,
        Parameter("phase_s", 120, "seconds for which each bandwidth lasts", quick=40, minimum=20),
    ),
    published={"queue_max_bytes": "at most 1 MB", "lost": 0, "duplicated": 0, "reordered": 0},
    run=_run,
)
