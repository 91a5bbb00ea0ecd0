"""Balancing between clusters: four clusters in a chain, and two to eight ([PADRES] section 6.3, figure 8).

The paper does not give the edges' hardware; the specification assumes 500 MHz, 128 MB, 3 Mbps and twice that. Fewer,
more expensive subscribers stand for 2,000: utilisations and matching delays are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from penstock.balancing.metrics import Load
from penstock.balancing.pie import average
from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.charts import dress, mark
from penstock.lab.balancing.measures import spread
from penstock.lab.balancing.overlay import BalancingOverlay, BalancingPlan, Sample
from penstock.lab.balancing.scale import PROCESSES, Point, counts_of, outcomes, totals
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.metrics import BALANCED, DELAY, INPUT, OUTPUT
from penstock.sim.balancing_hosts import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BALANCING_CLUSTERS", "BALANCING_GLOBAL"]

SOURCE: Final = "Cheung and Jacobsen, Middleware 2006, section 6.3"
_EDGE: Final = Machine(500, 128, 3)
_DRAIN_S: Final = 60
_BEAT_S: Final = 1.0
"""Publishers of the long run publish on this beat: that run does not measure single delays."""
_CLUSTERS: Final = (2, 3, 4, 6, 8)


def _chain(
    clusters: int, head: Machine, edges: tuple[Machine, Machine], count: int, *, beat_s: float = 0.0
) -> BalancingPlan:
    numbers = range(1, clusters + 1)
    return BalancingPlan(
        {f"B{number}0": head for number in numbers},
        {
            f"B{number}{place}": (f"B{number}0", machine)
            for number in numbers
            for place, machine in enumerate(edges, start=1)
        },
        "B11",
        subscribers=count,
        joins_s=(10.0, 20.0),
        zero_share=0.2,
        beat_s=beat_s,
    )


def _clusters_of(sample: Sample, plan: BalancingPlan) -> dict[str, Load]:
    """The mean load of each cluster."""
    return {
        head: average(sample.loads[edge] for edge, (of, _) in plan.edges.items() if of == head) for head in plan.heads
    }


def _settled_at(samples: Sequence[Sample], plan: BalancingPlan, trigger: float, first_s: float, last_s: float) -> float:
    """The time from which neighbouring clusters stay within the trigger; ``last_s`` if they never do."""
    found, is_within, heads = first_s, True, list(plan.heads)
    for sample in samples:
        if first_s <= sample.at_s <= last_s:
            loads, was_within = _clusters_of(sample, plan), is_within
            pairs = [(loads[one], loads[other]) for one, other in pairwise(heads)]
            is_within = all(spread(pair, metric) <= trigger for pair in pairs for metric in BALANCED)
            if is_within and not was_within:
                found = sample.at_s
    return found if is_within else last_s


def _run_global(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    settings = BalancingSettings()
    plan = _chain(
        context.integer("clusters"), Machine(3_000, 1_000, 10), (_EDGE, _EDGE.times(2)), count, beat_s=_BEAT_S
    )
    overlay = BalancingOverlay(plan, settings, seed=context.seed, scale=2_000 / count)
    context.reporter.stage("clusters in a chain", total=10)
    overlay.start()
    for tenth in range(1, 11):
        overlay.run_until(seconds * tenth / 10)
        if tenth == 8:
            overlay.double_half()
        context.reporter.advance()
    overlay.stop()
    overlay.run_until(seconds + _DRAIN_S)
    context.figure(lambda figure: _draw(figure, overlay, seconds))
    changed_s, trigger = seconds * 0.8, settings.global_ratio_trigger
    last = next(each for each in reversed(overlay.samples) if each.at_s <= changed_s)
    loads = _clusters_of(last, plan)
    return {
        "converged_s": _settled_at(overlay.samples, plan, trigger, 20, changed_s),
        "reconverged_s": _settled_at(overlay.samples, plan, trigger, changed_s, seconds),
        **{f"input_{head}": load.input for head, load in loads.items()},
        **counts_of(overlay, (20, changed_s)),
    }


def _draw(figure: Figure, overlay: BalancingOverlay, seconds: float) -> None:
    figure.set_size_inches(9, 10)
    for letter, metric, axes in zip("abc", (INPUT, OUTPUT, DELAY), figure.subplots(3, 1), strict=True):
        for head in overlay.plan.heads:
            points = [
                (each.at_s, _clusters_of(each, overlay.plan)[head].value(metric, delay_norm_s=1.0))
                for each in overlay.samples
            ]
            axes.plot(*zip(*points, strict=True), label=f"{head[:-1]}x", linewidth=1.1)
        dress(axes, f"Figure 8{letter}", "time (s)", metric.label)
        mark(axes, "balanced", x=seconds * 4_500 / 10_000)


def _run_clusters(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    chosen = [number for number in _CLUSTERS if number <= context.integer("clusters_max")]
    context.reporter.stage("numbers of clusters", total=len(chosen))
    machines = (Machine(2_000, 512, 10), (_EDGE, _EDGE))
    plans = [_chain(number, *machines, count) for number in chosen]
    found = outcomes(context, [Point(plan, BalancingSettings(), context.seed, seconds) for plan in plans])
    delays = {number: each.delay_ms for number, each in zip(chosen, found, strict=True)}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(list(delays), list(delays.values()), "o-", color="#4477aa", label="measured")
        axes.axvline(4, color="#555555", linestyle=":", label="published: no gain beyond 3 hops")
        dress(axes, "Figure 8d", "clusters", "delivery delay (ms)")

    context.figure(draw)
    return {**{f"delay_{number}_clusters_ms": each for number, each in delays.items()}, **totals(found)}


BALANCING_GLOBAL: Final = Experiment(
    name="balancing-global",
    summary="2,000 subscribers join one edge of the first of four clusters in a chain",
    source=SOURCE,
    parameters=(
        Parameter("subscribers", 400, "subscribers; each costs as much as several", quick=40, minimum=20),
        Parameter("seconds", 10_000, "simulated seconds; at eight tenths half of the publishers double", quick=100),
        Parameter("clusters", 4, "clusters in the chain", quick=2, minimum=2, maximum=8),
    ),
    published={"converged_s": 4500},
    run=_run_global,
)
BALANCING_CLUSTERS: Final = Experiment(
    name="balancing-clusters",
    summary="delivery delay with two to eight clusters in a chain",
    source=SOURCE,
    parameters=(
        Parameter("subscribers", 300, "subscribers; each costs as much as several", quick=40, minimum=20),
        Parameter("seconds", 1_000, "simulated seconds of each run", quick=60, minimum=40),
        Parameter("clusters_max", 8, "the most clusters", quick=2, minimum=2, maximum=8),
        PROCESSES,
    ),
    published={"delay_8_clusters_ms": "no gain beyond three hops"},
    run=_run_clusters,
)
