"""Congestion collapse without control: a link that is too narrow, and a recovery that takes all bandwidth.

[Gryphon] section 2, figures 2 to 4. Deviation: all mechanisms are off, but can be switched on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.charts import mark, queue_panel, rate_panel, span
from penstock.lab.gryphon.frame import SOURCE, UNCONTROLLED, closing_figures, overlay_for
from penstock.lab.gryphon.overlay import SIMPLE, GryphonOverlay
from penstock.lab.gryphon.series import Sample, between, mean_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLLAPSE_BANDWIDTH", "COLLAPSE_RECOVERY"]

_WARM_S: Final = 20
_END_S: Final = 10
"""Time over which rates at the end are measured: a queue is full after 45 s, and takes 85 s to pass."""
_RECOVERY_END_S: Final = 40
"""Time over which rates at the end of a recovery are measured: there, a thousand messages come at a time."""
_NARROW_KB_S: Final = 60
_TRUNK_KB_S: Final = 250


def _run_bandwidth(context: Context) -> Mapping[str, float]:
    observed_s = context.integer("observed_s")
    overlay = overlay_for(context, SIMPLE)
    context.reporter.stage("IB-SB1 becomes narrow", total=observed_s)
    overlay.run(_WARM_S)
    overlay.throttle("IB", "SB1", _NARROW_KB_S)
    narrow_s = overlay.now_s
    _observe(context, overlay, observed_s)
    context.figure(lambda figure: _draw_bandwidth(figure, overlay, narrow_s))
    return _figures(overlay, _END_S)


def _run_recovery(context: Context) -> Mapping[str, float]:
    down_s, observed_s = context.integer("down_s"), context.integer("observed_s")
    overlay = overlay_for(context, SIMPLE)
    context.reporter.stage("IB-SB2 fails and comes back", total=down_s + observed_s)
    overlay.throttle("PB", "IB", _TRUNK_KB_S)
    overlay.run(_WARM_S)
    overlay.fail("IB", "SB2")
    failed_s = overlay.now_s
    _observe(context, overlay, down_s)
    overlay.mend("IB", "SB2")
    up_s = overlay.now_s
    _observe(context, overlay, observed_s)
    context.figure(lambda figure: _draw_recovery(figure, overlay, failed_s, up_s))
    return _figures(overlay, _RECOVERY_END_S)


def _observe(context: Context, overlay: GryphonOverlay, seconds: int) -> None:
    for _ in range(seconds):
        overlay.run(1)
        context.reporter.advance()


def _figures(overlay: GryphonOverlay, window_s: int) -> dict[str, float]:
    """Rates of the last ``window_s`` seconds, and how much the lag grew per second."""
    end_s = overlay.now_s
    measured = {}
    for host in SIMPLE.topics:
        rate = mean_rate(overlay.samples, partial(_delivered_to, host), first_s=end_s - window_s, last_s=end_s)
        measured[f"{host.lower()}_rate_end"] = round(rate, 2)
    window = between(overlay.samples, end_s - window_s, end_s)
    growth = [window[-1].lag_s[host] - window[0].lag_s[host] for host in SIMPLE.topics]
    measured["lag_growth"] = round(max(growth) / window_s, 3)
    return {**measured, **closing_figures(overlay)}


def _delivered_to(host: str, sample: Sample) -> float:
    return sample.delivered[host]


def _draw_bandwidth(figure: Figure, overlay: GryphonOverlay, narrow_s: float) -> None:
    above, below = figure.subplots(2, 1, sharex=True)
    rate_panel(above, overlay.samples, ("SB1", "SB2"), title="Figure 2: collapse with IB-SB1 restricted to 60 KB/s")
    queue_panel(below, overlay.samples, ("IB-SB1", "IB-SB2"), title="Figure 3: queues at IB")
    for axes in (above, below):
        span(axes, narrow_s, overlay.now_s, "IB-SB1 at 60 KB/s")
    mark(above, "SB1 falls to 0", y=0)
    mark(below, "overflow at 5 MB", y=5 * 1024)


def _draw_recovery(figure: Figure, overlay: GryphonOverlay, failed_s: float, up_s: float) -> None:
    axes = figure.subplots()
    rate_panel(axes, overlay.samples, ("SB1", "SB2"), title="Figure 4: collapse with PB-IB restricted to 250 KB/s")
    span(axes, failed_s, up_s, "IB-SB2 is down")


COLLAPSE_BANDWIDTH: Final = Experiment(
    name="gryphon-collapse-bandwidth",
    summary="without congestion control, a narrow link makes its host's rate fall to nothing",
    source=f"{SOURCE}, section 2, figures 2 and 3",
    parameters=(
        *UNCONTROLLED,
        Parameter("observed_s", 145, "seconds after the link became narrow", quick=60, minimum=40),
    ),
    published={"sb1_rate_end": 0, "sb2_rate_end": 500, "queue_max_bytes": "5 MB: it overflows", "duplicated": 0},
    run=_run_bandwidth,
)
COLLAPSE_RECOVERY: Final = Experiment(
    name="gryphon-collapse-recovery",
    summary="without congestion control, a recovery over a narrow link never ends, and stops the others",
    source=f"{SOURCE}, section 2, figure 4",
    parameters=(
        *UNCONTROLLED,
        Parameter("down_s", 120, "seconds for which IB-SB2 is down", quick=30, minimum=15),
        Parameter("observed_s", 300, "seconds after it came back", quick=40, minimum=40),
    ),
    published={"sb1_rate_end": "far below 500", "sb2_rate_end": "far below 500", "duplicated": 0},
    run=_run_recovery,
)
