"""Local load balancing: four edges of different power, all subscribers join the weakest ([PADRES] section 6.2).

One run gives figures 6a to 6f. At three quarters of it, half of the publishers double their rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.charts import curves, dress, load_panel, mark, overhead_panel
from penstock.lab.balancing.measures import (
    accuracies,
    converged_at,
    mean_delay_ms,
    oscillations,
    overhead,
    spreads_at,
)
from penstock.lab.balancing.overlay import BalancingOverlay, BalancingPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.metrics import BALANCED, DELAY, INPUT, OUTPUT
from penstock.sim.balancing_hosts import Machine
from penstock.sim.world import START_MS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BALANCING_LOCAL",
    "PARAMETERS",
    "SOURCE",
    "LocalRun",
    "figures_of",
    "local_plan",
    "run_local",
    "run_through",
]

SOURCE: Final = "Cheung and Jacobsen, Middleware 2006, section 6.2"
_B1: Final = Machine(100, 64, 0.6)
_HEAD: Final = Machine(2_000, 256, 10)
_STEP_S: Final = 50
_DRAIN_S: Final = 60
_UNBALANCED: Final = BalancingSettings(detection_ms=1_000_000_000)
"""Brokers measure and exchange their loads, but never check whether they are balanced."""


@dataclass(slots=True, frozen=True)
class LocalRun:
    """One run, and the times of its phases."""

    overlay: BalancingOverlay
    joined_s: float
    changed_s: float
    ended_s: float
    trigger: float


def local_plan(subscribers: int, joined_s: float) -> BalancingPlan:
    """The overlay of section 6.2; all subscribers have joined by ``joined_s``."""
    return BalancingPlan(
        heads={"B0": _HEAD},
        edges={name: ("B0", _B1.times(power)) for name, power in (("B1", 1), ("B2", 2), ("B3", 4), ("B4", 10))},
        joined="B1",
        subscribers=subscribers,
        joins_s=(10.0, joined_s),
    )


def run_local(context: Context, settings: BalancingSettings | None = None) -> LocalRun:
    """Let all subscribers join B1, change the load at three quarters of the run, and take samples."""
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    chosen = settings or BalancingSettings()
    # The paper's times for 4,000 s, in proportion for shorter runs.
    joined_s, changed_s = 10 + seconds / 4, seconds * 3 / 4
    overlay = BalancingOverlay(local_plan(count, joined_s), chosen, seed=context.seed, scale=2_000 / count)
    run_through(context, overlay, changed_s, seconds)
    return LocalRun(overlay, joined_s, changed_s, seconds, chosen.local_ratio_trigger)


def run_through(context: Context, overlay: BalancingOverlay, changed_s: float, seconds: int) -> None:
    """Let time pass, double the rate of half of the publishers on the way, and wait until all has arrived."""
    context.reporter.stage("balancing", total=seconds // _STEP_S)
    overlay.start()
    while overlay.now_s < seconds:
        if overlay.now_s < changed_s <= overlay.now_s + _STEP_S:
            overlay.run_until(changed_s)
            overlay.double_half()
        overlay.run_until(min(overlay.now_s + _STEP_S, seconds))
        context.reporter.advance()
    overlay.stop()
    overlay.run_until(seconds + _DRAIN_S)


def figures_of(run: LocalRun) -> dict[str, float]:
    """All metrics of a run."""
    overlay, samples = run.overlay, run.overlay.samples
    spreads = spreads_at(samples, run.ended_s - 100, run.ended_s)
    right = accuracies([each for _, each in overlay.estimates()], START_MS + run.joined_s * 1000)
    verdict = overlay.verdict()
    last = next(each for each in reversed(samples) if each.at_s <= run.ended_s)
    converged_s = converged_at(samples, run.trigger, run.joined_s, run.changed_s)
    return {
        "converged_s": converged_s,
        "reconverged_s": converged_at(samples, run.trigger, run.changed_s, run.ended_s),
        **{f"max_difference_end_{metric.name}": spreads[metric] for metric in BALANCED},
        **{f"subscribers_{name}": last.subscribers[name] for name in ("B1", "B2", "B3", "B4")},
        "delay_overload_ms": max((each.delay_ms["B1"] for each in samples), default=0.0),
        "delay_balanced_ms": mean_delay_ms(samples, converged_s, run.changed_s),
        "overhead_balancing": overhead(samples, run.joined_s, 2 * run.joined_s),
        "overhead_after": overhead(samples, (run.joined_s + run.changed_s) / 2, run.changed_s),
        **{f"accuracy_{metric.name}": right[metric] for metric in BALANCED},
        "sessions": overlay.counts("sessions"),
        "migrations": sum(each.moves for each in overlay.members),
        "oscillations": oscillations(overlay, (run.joined_s, run.changed_s)),
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "reordered": verdict.reordered,
    }


def _run(context: Context) -> Mapping[str, float]:
    run = run_local(context, None if context.parameters["balanced"] else _UNBALANCED)
    context.figure(lambda figure: _draw(figure, run))
    return figures_of(run)


def _draw(figure: Figure, run: LocalRun) -> None:
    figure.set_size_inches(13, 11)
    panels = figure.subplots(3, 2).flat
    samples, names = run.overlay.samples, list(run.overlay.plan.edges)
    for letter, metric in zip("abc", (INPUT, OUTPUT, DELAY), strict=True):
        axes = next(panels)
        load_panel(axes, samples, names, metric, title=f"Figure 6{letter}")
        mark(axes, "balanced", x=run.ended_s * 1800 / 4000)
    axes = next(panels)
    curves(axes, samples, names, lambda sample, name: max(sample.delay_ms[name], 0.1) / 1000)
    dress(axes, "Figure 6d", "time (s)", "delivery delay (s)")
    # Both go together: a logarithmic scale has no zero.
    axes.set_ylim(bottom=0.001)
    axes.set_yscale("log")
    axes = next(panels)
    curves(axes, samples, names, lambda sample, name: sample.subscribers[name])
    dress(axes, "Figure 6e", "time (s)", "subscribers")
    axes = next(panels)
    overhead_panel(axes, samples, title="Figure 6f")
    mark(axes, "1.5 % while balancing", y=1.5)
    mark(axes, "0.2 % after", y=0.2)


PARAMETERS: Final = (
    Parameter("subscribers", 2_000, "subscribers that join B1; costs are scaled for fewer", quick=100, minimum=20),
    Parameter("seconds", 4_000, "simulated seconds", quick=200, minimum=100),
)
_PUBLISHED: Final[dict[str, float | str]] = {
    "converged_s": 1800,
    "reconverged_s": 3400,
    "max_difference_end_input": "at most 0.1",
    "max_difference_end_delay": "at most 0.1",
    "subscribers_B2": "2 x B1",
    "subscribers_B3": "4 x B1",
    "subscribers_B4": "10 x B1",
    "overhead_balancing": 0.015,
    "overhead_after": 0.002,
    "accuracy_input": 0.91,
}
BALANCING_LOCAL: Final = Experiment(
    name="balancing-local",
    summary="2,000 subscribers join the weakest of four edges, and are spread by power",
    source=SOURCE,
    parameters=(
        *PARAMETERS,
        Parameter("balanced", default=True, help="false: nobody is moved, for comparison"),
    ),
    published=_PUBLISHED,
    run=_run,
)
