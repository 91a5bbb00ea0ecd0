"""How delay falls with more edges, and how the trigger decides how far apart loads stay ([PADRES] figures 6g and 6h).

Each point is a separate run, shorter than the paper's and with fewer, more expensive subscribers, so that all points
together take no longer than one of the paper's runs; utilisations and matching delays are the same.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.charts import dress
from penstock.lab.balancing.local import SOURCE, local_plan
from penstock.lab.balancing.measures import mean_delay_ms, oscillations, spreads_at
from penstock.lab.balancing.overlay import BalancingOverlay, BalancingPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.metrics import INPUT, OUTPUT, Metric
from penstock.sim.balancing_hosts import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BALANCING_EDGES",
    "BALANCING_THRESHOLD",
    "PROCESSES",
    "Outcome",
    "Point",
    "counts_of",
    "outcome_of",
    "outcomes",
    "totals",
]

_FULL: Final = 2_000
_HEAD: Final = Machine(2_000, 256, 10)
_EDGE: Final = Machine(500, 128, 3)
_DRAIN_S: Final = 30
_EDGES: Final = (2, 4, 6, 8, 10)
_TRIGGERS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)


@dataclass(slots=True, frozen=True)
class Point:
    """The setup of one run."""

    plan: BalancingPlan
    settings: BalancingSettings
    seed: int
    seconds: int


@dataclass(slots=True, frozen=True)
class Outcome:
    """The result of one run."""

    delay_ms: float
    """Mean delivery delay in the last fifth of the time."""
    spreads: Mapping[Metric, float]
    """How far apart the edges' loads were in the last fifth of the time."""
    counts: Mapping[str, int]
    """Counters that are summed over all points."""


def outcome_of(point: Point) -> Outcome:
    """Simulate one run to its end, and let it drain."""
    plan, seconds = point.plan, point.seconds
    overlay = BalancingOverlay(plan, point.settings, seed=point.seed, scale=_FULL / plan.subscribers)
    overlay.start()
    overlay.run_until(seconds)
    overlay.stop()
    overlay.run_until(seconds + _DRAIN_S)
    return Outcome(
        mean_delay_ms(overlay.samples, seconds * 0.8, seconds),
        spreads_at(overlay.samples, seconds * 0.8, seconds),
        counts_of(overlay, plan.joins_s[1:]),
    )


def counts_of(overlay: BalancingOverlay, changes_s: Sequence[float]) -> dict[str, int]:
    """Sessions, moves, returns between changes of load, and messages lost, duplicated or reordered."""
    verdict = overlay.verdict()
    return {
        "sessions": overlay.counts("sessions"),
        "migrations": sum(member.moves for member in overlay.members),
        "oscillations": oscillations(overlay, changes_s),
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "reordered": verdict.reordered,
    }


def outcomes(context: Context, points: Sequence[Point]) -> list[Outcome]:
    """Run all points, on as many processes as configured; outcomes are in the order of the points."""
    processes = context.integer("processes")
    if processes == 1:
        return [_told(context, outcome_of(point)) for point in points]
    # Spawned, not forked: a run must not inherit our state.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        # Largest first: started last, it would keep one process busy long after the others are done.
        order = sorted(range(len(points)), key=lambda place: -len(points[place].plan.edges))
        running = {pool.submit(outcome_of, points[place]): place for place in order}
        found = {running[each]: _told(context, each.result()) for each in as_completed(running)}
    return [found[place] for place in range(len(points))]


def _told(context: Context, outcome: Outcome) -> Outcome:
    context.reporter.advance()
    return outcome


def totals(found: Sequence[Outcome]) -> dict[str, int]:
    """Sum the counters over all points."""
    return {name: sum(each.counts[name] for each in found) for name in found[0].counts}


def _run_edges(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    chosen = [number for number in _EDGES if number <= context.integer("edges_max")]
    context.reporter.stage("numbers of edges", total=len(chosen))
    plans = [
        BalancingPlan(
            {"B0": _HEAD},
            {f"B{place}": ("B0", _EDGE) for place in range(1, number + 1)},
            "B1",
            subscribers=count,
            joins_s=(10.0, 10 + seconds / 4),
        )
        for number in chosen
    ]
    found = outcomes(context, [Point(plan, BalancingSettings(), context.seed, seconds) for plan in plans])
    delays = {number: each.delay_ms for number, each in zip(chosen, found, strict=True)}
    context.figure(lambda figure: _draw(figure, delays, "edge brokers", "delivery delay (ms)", "Figure 6g"))
    return {**{f"delay_{number}_edges_ms": delay for number, delay in delays.items()}, **totals(found)}


def _run_threshold(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    chosen = _TRIGGERS[: context.integer("triggers")]
    context.reporter.stage("triggers", total=len(chosen))
    # Join no faster than in the paper: the backlog at B1 would outlast a run of this length.
    plan = local_plan(count, 10 + seconds * 2 / 3)
    settings = [BalancingSettings(local_ratio_trigger=each, local_delay_trigger=each) for each in chosen]
    found = outcomes(context, [Point(plan, each, context.seed, seconds) for each in settings])
    spreads = {trigger: each.spreads for trigger, each in zip(chosen, found, strict=True)}
    context.figure(lambda figure: _draw_threshold(figure, spreads))
    inputs = {f"difference_input_{trigger:g}": each[INPUT] for trigger, each in spreads.items()}
    outputs = {f"difference_output_{trigger:g}": each[OUTPUT] for trigger, each in spreads.items()}
    return {**inputs, **outputs, **totals(found)}


def _draw(figure: Figure, points: Mapping[int, float], x_label: str, y_label: str, title: str) -> None:
    axes = figure.subplots()
    axes.plot(list(points), list(points.values()), "o-", color="#4477aa", label="measured")
    dress(axes, title, x_label, y_label)


def _draw_threshold(figure: Figure, spreads: Mapping[float, Mapping[Metric, float]]) -> None:
    axes = figure.subplots()
    for metric, colour in ((INPUT, "#4477aa"), (OUTPUT, "#ee6677")):
        axes.plot(list(spreads), [each[metric] for each in spreads.values()], "o-", color=colour, label=metric.name)
    axes.plot(list(spreads), list(spreads), "--", color="#555555", label="published: input stays below the trigger")
    dress(axes, "Figure 6h", "local trigger", "largest difference between edges")


PROCESSES: Final = Parameter("processes", 2, "how many points run at the same time", quick=1, minimum=1, maximum=64)
_SUBSCRIBERS: Final = Parameter("subscribers", 500, "subscribers; each costs as much as several", quick=40, minimum=20)
BALANCING_EDGES: Final = Experiment(
    name="balancing-edges",
    summary="delivery delay with two to ten equal edges",
    source=SOURCE,
    parameters=(
        _SUBSCRIBERS,
        Parameter("seconds", 600, "simulated seconds of each run", quick=60, minimum=40),
        PROCESSES,
        Parameter("edges_max", 10, "the most edges", quick=4, minimum=2, maximum=10),
    ),
    published={"delay_10_edges_ms": "falls with each added edge"},
    run=_run_edges,
)
BALANCING_THRESHOLD: Final = Experiment(
    name="balancing-threshold",
    summary="how far apart edges stay, by the trigger of local balancing",
    source=SOURCE,
    parameters=(
        _SUBSCRIBERS,
        Parameter("seconds", 1_500, "simulated seconds of each run; all join in two thirds", quick=60, minimum=40),
        PROCESSES,
        Parameter("triggers", 5, "how many triggers of 0.05 to 0.5", quick=2, maximum=5),
    ),
    published={"difference_input_0.1": "below the trigger"},
    run=_run_threshold,
)
