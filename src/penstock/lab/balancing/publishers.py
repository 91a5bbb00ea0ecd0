"""Publishers are balanced, too: all publishers and subscribers join one of four brokers with a pubend each.

Ours: the paper names this as future work. A publisher chooses its pubend by hash and keeps it wherever it goes; what
moves is the work of taking its messages in. At three quarters of the run, half of the publishers double their rate.
With ``heads`` the four brokers are heads of clusters of their own, and share their clients as a group of heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.charts import curves, dress, load_panel
from penstock.lab.balancing.local import run_through
from penstock.lab.balancing.measures import converged_at, oscillations, overhead, spreads_at
from penstock.lab.balancing.overlay import BalancingOverlay, BalancingPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.metrics import BALANCED, DELAY, INPUT, OUTPUT
from penstock.sim.balancing_hosts import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BALANCING_PUBLISHERS"]

_BASE: Final = Machine(170, 109, 1.02)
"""The weakest broker; all four together have the power of those in ``balancing-local``."""
_POWERS: Final = {"B1": 1, "B2": 2, "B3": 3, "B4": 4}
_HEAD: Final = Machine(2_000, 256, 10)


def _plan(subscribers: int, publishers: int, joined_s: float, *, are_heads: bool) -> BalancingPlan:
    return BalancingPlan(
        heads={"B0": _HEAD},
        edges={name: ("B0", _BASE.times(power)) for name, power in _POWERS.items()},
        joined="B1",
        subscribers=subscribers,
        joins_s=(10.0, joined_s),
        publishers=publishers,
        published_at="B1",
        pubends={name: (f"{name}.quotes",) for name in _POWERS},
        group="heads" if are_heads else "",
        are_heads=are_heads,
    )


def _run(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    settings = BalancingSettings()
    joined_s, changed_s = 10 + seconds / 4, seconds * 3 / 4
    plan = _plan(count, context.integer("publishers"), joined_s, are_heads=bool(context.parameters["heads"]))
    overlay = BalancingOverlay(plan, settings, seed=context.seed, scale=2_000 / count)
    run_through(context, overlay, changed_s, seconds)
    samples = [each for each in overlay.samples if each.at_s <= seconds]
    context.figure(lambda figure: _draw(figure, overlay))
    trigger = settings.local_ratio_trigger
    spreads = spreads_at(samples, seconds - 100, seconds)
    verdict, last = overlay.verdict(), samples[-1]
    clients = [each.client for each in overlay.publishers]
    return {
        "converged_s": converged_at(samples, trigger, joined_s, changed_s),
        "reconverged_s": converged_at(samples, trigger, changed_s, seconds),
        **{f"max_difference_end_{metric.name}": spreads[metric] for metric in BALANCED},
        **{f"subscribers_{name}": last.subscribers[name] for name in _POWERS},
        **{f"publishers_{name}": last.publishers[name] for name in _POWERS},
        "publishers_moved": sum(each.session.moves for each in clients),
        "subscribers_moved": sum(each.moves for each in overlay.members),
        "oscillations": oscillations(overlay, (joined_s, changed_s)),
        "overhead_after": overhead(samples, (joined_s + changed_s) / 2, changed_s),
        "unacknowledged": sum(each.unsettled + each.backlog for each in clients),
        "given_up": sum(each.unconfirmed for each in clients),
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "reordered": verdict.reordered,
    }


def _draw(figure: Figure, overlay: BalancingOverlay) -> None:
    figure.set_size_inches(13, 11)
    panels = figure.subplots(3, 2).flat
    samples, names = overlay.samples, list(overlay.plan.edges)
    for metric in (INPUT, OUTPUT, DELAY):
        axes = next(panels)
        load_panel(axes, samples, names, metric, title=f"{metric.name} of each broker")
    axes = next(panels)
    curves(axes, samples, names, lambda sample, name: sample.subscribers[name])
    dress(axes, "Subscribers", "time (s)", "subscribers")
    axes = next(panels)
    curves(axes, samples, names, lambda sample, name: sample.publishers[name])
    dress(axes, "Publishers", "time (s)", "publishers")
    axes = next(panels)
    curves(axes, samples, names, lambda sample, name: max(sample.delay_ms[name], 0.1) / 1000)
    dress(axes, "Delivery delay", "time (s)", "delivery delay (s)")
    axes.set_ylim(bottom=0.001)
    axes.set_yscale("log")


BALANCING_PUBLISHERS: Final = Experiment(
    name="balancing-publishers",
    summary="publishers and subscribers all join the weakest of four brokers with a pubend each, and are spread",
    source="our own: the future work of Cheung and Jacobsen, Middleware 2006",
    parameters=(
        Parameter("subscribers", 2_000, "subscribers that join B1; costs are scaled for fewer", quick=100, minimum=20),
        Parameter("publishers", 40, "publishers that join B1", quick=20, minimum=4),
        Parameter("seconds", 4_000, "simulated seconds", quick=200, minimum=100),
        Parameter("heads", default=False, help="true: the four brokers are cluster heads, and balanced as such"),
    ),
    published={
        "max_difference_end_input": "at most 0.1",
        "max_difference_end_delay": "at most 0.1",
        "max_difference_end_output": "at most 0.1",
        "oscillations": 0,
        "unacknowledged": 0,
        "given_up": 0,
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
    },
    run=_run,
)
