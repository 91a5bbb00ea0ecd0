"""E3: bottlenecks and a failure in different parts of a larger overlay ([Gryphon] section 5, figures 12 to 15).

The topology is our reading of the text. The paper's links carried all messages; ours carry only what is wanted
downstream. So the hundred topics of each host are spread over all 250, and together the hosts want everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.charts import alerts_panel, horizon_panel, mark, rate_panel, span
from penstock.lab.gryphon.frame import CONTROLLED, SOURCE, closing_figures, overlay_for
from penstock.lab.gryphon.overlay import TOPICS, GryphonOverlay, GryphonPlan
from penstock.lab.gryphon.series import mean_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COMPLEX", "E3"]

_HOSTS: Final = ("SB1", "SB2", "SB3", "SB4", "SB5")
COMPLEX: Final = GryphonPlan(
    (
        ("PB", "IB1"),
        ("IB1", "SB1"),
        ("IB1", "IB2"),
        ("IB2", "SB2"),
        ("IB2", "SB3"),
        ("IB2", "IB3"),
        ("IB3", "SB4"),
        ("IB3", "SB5"),
    ),
    {
        host: tuple((TOPICS // len(_HOSTS) * place + topic) % TOPICS for topic in range(100))
        for place, host in enumerate(_HOSTS)
    },
)
"""The overlay of figure 12."""
_WARM_S: Final = 20
_MARGIN: Final = 0.5
_DONE_S: Final = 1.0


@dataclass(slots=True)
class _Run:
    overlay: GryphonOverlay
    limited_s: float
    failed_s: float
    up_s: float
    done_s: float
    is_done: bool


def _run(context: Context) -> Mapping[str, float]:
    found = _observe(context)
    samples = found.overlay.samples

    def rate(first_s: float, last_s: float) -> float:
        return round(mean_rate(samples, lambda each: sum(each.published), first_s=first_s, last_s=last_s), 1)

    # After the rate has adapted, and while only the bandwidth limits it.
    rate_limited = rate(found.limited_s + 20, found.up_s)
    context.figure(lambda figure: _draw(figure, found))
    return {
        "recovery_s": round(found.done_s - found.up_s, 1),
        "recovered": float(found.is_done),
        "rate_limited": rate_limited,
        "rate_in_recovery": rate(found.up_s, found.done_s),
        "rate_after": rate(samples[-1].at_s - 12, samples[-1].at_s - 2),
        **closing_figures(found.overlay),
    }


def _observe(context: Context) -> _Run:
    phase_s, limit_s, after_s = (context.integer(name) for name in ("phase_s", "limit_s", "after_s"))
    overlay = overlay_for(context, COMPLEX, recovering_margin=_MARGIN)
    overlay.throttle("IB1", "SB1", 250)
    overlay.run(_WARM_S)
    overlay.throttle("PB", "IB1", 150)
    limited_s = overlay.now_s
    context.reporter.stage("PB-IB1 has 150 KB/s, then IB3-SB5 fails", total=2 * phase_s)
    for second in range(2 * phase_s):
        if second == phase_s:
            overlay.fail("IB3", "SB5")
        overlay.run(1)
        context.reporter.advance()
    overlay.mend("IB3", "SB5")
    up_s = overlay.now_s
    context.reporter.stage("SB5 recovers")
    overlay.run(1)
    is_done = overlay.run_until(lambda: overlay.lag_s("SB5") < _DONE_S, limit_s=limit_s - 1)
    done_s = overlay.now_s
    overlay.run(after_s)
    overlay.stop()
    overlay.run(3)
    return _Run(overlay, limited_s, limited_s + phase_s, up_s, done_s, is_done)


def _draw(figure: Figure, found: _Run) -> None:
    figure.set_size_inches(9, 9)
    above, middle, below = figure.subplots(3, 1, sharex=True)
    samples = found.overlay.samples
    rate_panel(above, samples, _HOSTS, title="Figure 13: E3, rates with bandwidth restrictions and a link failure")
    horizon_panel(middle, samples, "SB5", title="Figure 14: E3, doubt horizon rate at SB5")
    mark(middle, "kept above 1 + 0.5", y=1.5)
    alerts_panel(below, found.overlay.alerts, title="Figure 15: E3, UCAs received at PB")
    for axes in (above, middle, below):
        span(axes, found.failed_s, found.up_s, "IB3-SB5 is down")
        span(axes, found.up_s, found.done_s, "SB5 recovers")
        axes.axvline(found.limited_s, color="grey", linestyle=":", linewidth=1)


E3: Final = Experiment(
    name="gryphon-e3",
    summary="bottlenecks and a failure at once in a larger overlay: the worst of them decides, and recovery ends",
    source=f"{SOURCE}, section 5, E3, figures 12 to 15",
    parameters=(
        *CONTROLLED,
        Parameter("phase_s", 120, "seconds limited before the failure, and of the failure", quick=40, minimum=30),
        Parameter("limit_s", 400, "seconds after which a recovery is given up", quick=120, minimum=10),
        Parameter("after_s", 20, "seconds that are observed after it", minimum=12),
    ),
    published={
        "recovery_s": "finite",
        "rate_in_recovery": "below rate_limited",
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
    },
    run=_run,
)
