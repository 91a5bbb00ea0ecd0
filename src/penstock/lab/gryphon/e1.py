"""E1: recovery after a link failure with congestion control, and the NACK window in it ([Gryphon] section 5).

Figures 7 and 8; the second is from a separate run with 500 KB/s, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.charts import mark, queue_panel, rate_panel, span, window_panel
from penstock.lab.gryphon.frame import CONTROLLED, SOURCE, closing_figures, congestion_settings
from penstock.lab.gryphon.recovery import Recovery, recover, recovery_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["E1", "E1_WINDOW"]


def _recovered(context: Context, kbytes_s: float) -> Recovery:
    return recover(
        congestion_settings(context),
        context.reporter,
        seed=context.seed,
        kbytes_s=kbytes_s,
        down_s=context.integer("down_s"),
        limit_s=context.integer("limit_s"),
        after_s=context.integer("after_s"),
    )


def _run(context: Context) -> Mapping[str, float]:
    found = _recovered(context, 250)
    context.figure(lambda figure: _draw(figure, found))
    return {**recovery_figures(found), **closing_figures(found.overlay)}


def _run_window(context: Context) -> Mapping[str, float]:
    found = _recovered(context, 500)
    context.figure(lambda figure: _draw_window(figure, found))
    return {**recovery_figures(found), **closing_figures(found.overlay)}


def _draw(figure: Figure, found: Recovery) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    samples = found.overlay.samples
    rate_panel(above, samples, ("SB1", "SB2"), title="Figure 7: E1, congestion control after a link failure")
    queue_panel(below, samples, ("PB-IB", "IB-SB1", "IB-SB2"), title="E1: queues")
    for axes in (above, below):
        span(axes, found.failed_s, found.up_s, "IB-SB2 is down")
        span(axes, found.up_s, found.done_s, "SB2 recovers")
    mark(above, "160 s", x=found.up_s + 160)


def _draw_window(figure: Figure, found: Recovery) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    samples = [each for each in found.overlay.samples if each.at_s >= found.up_s - 10]
    window_panel(above, samples, "SB2", title="Figure 8: E1, NACK windows of SB2 (PB-IB 500 KB/s)")
    mark(above, "about 900", y=900)
    rate_panel(below, samples, ("SB1", "SB2"), title="E1 with PB-IB 500 KB/s: rates")
    for axes in (above, below):
        span(axes, found.up_s, found.done_s, "SB2 recovers")


_PARAMETERS: Final = (
    *CONTROLLED,
    Parameter("down_s", 120, "seconds for which IB-SB2 is down", quick=30, minimum=15),
    Parameter("limit_s", 300, "seconds after which a recovery is given up", quick=60, minimum=10),
    Parameter("after_s", 60, "seconds that are observed after it", quick=30, minimum=10),
)
_LAWS: Final = {"lost": 0, "duplicated": 0, "reordered": 0}
E1: Final = Experiment(
    name="gryphon-e1",
    summary="with congestion control a recovery over a narrow link ends, at a reduced rate that is restored",
    source=f"{SOURCE}, section 5, E1, figure 7",
    parameters=_PARAMETERS,
    published={"recovery_s": 160, "rate_before": 500, "rate_after": 500, **_LAWS},
    run=_run,
)
E1_WINDOW: Final = Experiment(
    name="gryphon-e1-window",
    summary="the NACK window opens until it does not help any more, and again when caches answer",
    source=f"{SOURCE}, section 5, E1, figure 8",
    parameters=_PARAMETERS,
    published={"nack_window_plateau_ms": 900, "nack_window_max_ms": "more than the plateau", **_LAWS},
    run=_run_window,
)
