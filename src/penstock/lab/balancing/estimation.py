"""How accurate PRESS is: estimated against actual loads, and by the number of samples ([PADRES] section 6.2, figure 7).

Figure 7a is drawn from the run of figures 6a to 6f. Figure 7b needs a run for each number of samples N: shorter ones
with fewer, more expensive subscribers, in a process beside the long run. In these runs everybody joins the strongest
broker, and the load rises and falls twice. Sampling may take two minutes, as 1,000 publications take longer than the
default half minute. Estimates are left out if the load changed before it was measured: no estimate can foresee that.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Final

from penstock.balancing.estimators import accuracy
from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.charts import dress, estimates_panel, mark
from penstock.lab.balancing.local import PARAMETERS, SOURCE, LocalRun, figures_of, local_plan, run_local
from penstock.lab.balancing.measures import undisturbed
from penstock.lab.balancing.overlay import BalancingOverlay
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.metrics import BALANCED, INPUT
from penstock.sim.world import START_MS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BALANCING_ESTIMATION", "SweepPoint", "error_at"]

_SAMPLES: Final = (1, 3, 10, 30, 100, 300, 1_000)
_SAMPLE_MS: Final = 120_000
_SWEEP_SUBSCRIBERS: Final = 400
_CHANGES: Final = 2
"""How often the load rises and falls in the second half of each run of the sweep."""
_FULL: Final = 2_000


@dataclass(slots=True, frozen=True)
class SweepPoint:
    """One run of the sweep."""

    samples: int
    seed: int
    seconds: int
    subscribers: int = _SWEEP_SUBSCRIBERS


def error_at(point: SweepPoint) -> tuple[float, float]:
    """Mean and standard deviation of the relative error of estimated input utilisations in one run."""
    joined_s = 10 + point.seconds / 4
    settings = BalancingSettings(samples_max=point.samples, sample_ms=_SAMPLE_MS)
    # Join the strongest broker: in so short a time the weakest would build up a backlog, which distorts its load.
    plan = replace(local_plan(point.subscribers, joined_s), joined="B4")
    overlay = BalancingOverlay(plan, settings, seed=point.seed, scale=_FULL / point.subscribers)
    overlay.start()
    changes_ms = []
    for turn in range(_CHANGES):
        # Half of the publishers double their rate, then halve it again: there is always something new to estimate.
        first_s = point.seconds * (1 + turn / _CHANGES) / 2
        overlay.run_until(first_s)
        doubled = overlay.double_half()
        overlay.run_until(last_s := first_s + point.seconds / 4 / _CHANGES)
        overlay.halve(doubled)
        changes_ms += [START_MS + first_s * 1_000, START_MS + last_s * 1_000]
    overlay.run_until(point.seconds)
    errors = [
        1 - accuracy(each.estimated.input, each.actual.input)
        for each in undisturbed((each for _, each in overlay.estimates()), changes_ms)
        if each.at_ms >= START_MS + joined_s * 1_000
    ]
    return (fmean(errors), pstdev(errors)) if errors else (0.0, 0.0)


def _run(context: Context) -> Mapping[str, float]:
    seconds = context.integer("sweep_seconds")
    chosen = _SAMPLES[: context.integer("sweep")]
    points = [SweepPoint(samples, context.seed, seconds) for samples in chosen]
    # Spawned, not forked: a run must not inherit our state.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        found = pool.map(error_at, points)
        run = run_local(context, BalancingSettings(samples_max=context.integer("samples")))
        errors = dict(zip(chosen, found, strict=True))
    context.figure(lambda figure: _draw(figure, run, errors))
    return {**figures_of(run), **{f"error_{samples}_samples": mean for samples, (mean, _) in errors.items()}}


def _draw(figure: Figure, run: LocalRun, errors: Mapping[int, tuple[float, float]]) -> None:
    figure.set_size_inches(13, 9)
    panels = figure.subplots(2, 2).flat
    estimates = [each for each in run.overlay.estimates() if each[1].at_ms >= START_MS + run.joined_s * 1000]
    for metric in BALANCED:
        title = "Figure 7a" if metric == INPUT else "as figure 7a"
        estimates_panel(next(panels), estimates, metric, title=title)
    axes = next(panels)
    means, deviations = [100 * mean for mean, _ in errors.values()], [100 * each for _, each in errors.values()]
    axes.errorbar(list(errors), means, yerr=deviations, fmt="o-", color="#4477aa", capsize=3, label="mean, deviation")
    axes.set_xscale("log")
    dress(axes, "Figure 7b", "publications sampled (N)", "error of the estimated input utilization ratio (%)")
    mark(axes, "best from 10", x=10)
    mark(axes, "to 50", x=50)


BALANCING_ESTIMATION: Final = Experiment(
    name="balancing-estimation",
    summary="what the load after a session was estimated to be, and what it was",
    source=SOURCE,
    parameters=(
        *PARAMETERS,
        Parameter("samples", 50, "publications that PRESS samples (N)", minimum=1),
        Parameter("sweep", len(_SAMPLES), "how many N of 1 to 1,000 are tried", quick=1, minimum=1, maximum=7),
        Parameter("sweep_seconds", 600, "simulated seconds of each of these", quick=100, minimum=40),
    ),
    published={"accuracy_input": 0.91},
    run=_run,
)
