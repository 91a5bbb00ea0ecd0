"""More edges, and other triggers: how delay falls, and how far apart brokers stay ([PADRES] figures 6g and 6h).

Each point is a run of its own, shorter than the paper's and with fewer subscribers that cost more, so that all points
together take no longer than one of its runs; utilisations and matching delays are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.balancing.metrics import Metric
from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing_charts import dress
from penstock.lab.balancing_local import SOURCE, local_plan
from penstock.lab.balancing_measures import mean_delay_ms, oscillations, spreads_at
from penstock.lab.balancing_overlay import BalancingOverlay, BalancingPlan
from penstock.lab.experiment import Context, Experiment
from penstock.lab.parameters import Parameter
from penstock.sim.balancing_hosts import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BALANCING_EDGES", "BALANCING_THRESHOLD", "point", "totals"]

_FULL: Final = 2_000
_HEAD: Final = Machine(2_000, 256, 10)
_EDGE: Final = Machine(500, 128, 3)
_DRAIN_S: Final = 30
_EDGES: Final = (2, 4, 6, 8, 10)
_TRIGGERS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)


def point(context: Context, plan: BalancingPlan, settings: BalancingSettings, seconds: int) -> BalancingOverlay:
    """One run to its end, drained."""
    overlay = BalancingOverlay(plan, settings, seed=context.seed, scale=_FULL / plan.subscribers)
    overlay.start()
    overlay.run_until(seconds)
    overlay.stop()
    overlay.run_until(seconds + _DRAIN_S)
    context.reporter.advance()
    return overlay


def totals(overlays: list[BalancingOverlay], joined_s: float) -> dict[str, float]:
    """What is counted over all points."""
    verdicts = [each.verdict() for each in overlays]
    return {
        "sessions": sum(each.counts("sessions") for each in overlays),
        "migrations": sum(member.moves for each in overlays for member in each.members),
        "oscillations": sum(oscillations(each, (joined_s,)) for each in overlays),
        "lost": sum(each.lost for each in verdicts),
        "duplicated": sum(each.duplicated for each in verdicts),
        "reordered": sum(each.reordered for each in verdicts),
    }


def _run_edges(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    most = context.integer("edges_max")
    chosen = [number for number in _EDGES if number <= most]
    context.reporter.stage("numbers of edges", total=len(chosen))
    joined_s, overlays, delays = 10 + seconds / 4, [], {}
    for number in chosen:
        plan = BalancingPlan(
            {"B0": _HEAD},
            {f"B{place}": ("B0", _EDGE) for place in range(1, number + 1)},
            "B1",
            subscribers=count,
            joins_s=(10.0, joined_s),
        )
        overlay = point(context, plan, BalancingSettings(), seconds)
        overlays.append(overlay)
        delays[number] = mean_delay_ms(overlay.samples, seconds * 0.8, seconds)
    context.figure(lambda figure: _draw(figure, delays, "edge brokers", "delivery delay (ms)", "Figure 6g"))
    return {**{f"delay_{number}_edges_ms": delay for number, delay in delays.items()}, **totals(overlays, joined_s)}


def _run_threshold(context: Context) -> Mapping[str, float]:
    count, seconds = context.integer("subscribers"), context.integer("seconds")
    chosen = _TRIGGERS[: context.integer("triggers")]
    context.reporter.stage("triggers", total=len(chosen))
    joined_s, overlays = 10 + seconds / 4, []
    spreads: dict[float, dict[Metric, float]] = {}
    for trigger in chosen:
        settings = BalancingSettings(local_ratio_trigger=trigger, local_delay_trigger=trigger)
        overlay = point(context, local_plan(count, joined_s), settings, seconds)
        overlays.append(overlay)
        spreads[trigger] = spreads_at(overlay.samples, seconds * 0.8, seconds)
    inputs = {trigger: each[Metric.INPUT] for trigger, each in spreads.items()}
    context.figure(lambda figure: _draw_threshold(figure, spreads))
    measured = {f"difference_input_{trigger:g}": spread for trigger, spread in inputs.items()}
    outputs = {f"difference_output_{trigger:g}": each[Metric.OUTPUT] for trigger, each in spreads.items()}
    return {**measured, **outputs, **totals(overlays, joined_s)}


def _draw(figure: Figure, points: Mapping[int, float], x_label: str, y_label: str, title: str) -> None:
    axes = figure.subplots()
    axes.plot(list(points), list(points.values()), "o-", color="#4477aa", label="measured")
    dress(axes, title, x_label, y_label)


def _draw_threshold(figure: Figure, spreads: Mapping[float, Mapping[Metric, float]]) -> None:
    axes = figure.subplots()
    for metric, colour in ((Metric.INPUT, "#4477aa"), (Metric.OUTPUT, "#ee6677")):
        axes.plot(list(spreads), [each[metric] for each in spreads.values()], "o-", color=colour, label=metric.value)
    axes.plot(list(spreads), list(spreads), "--", color="#555555", label="published: input stays below the trigger")
    dress(axes, "Figure 6h", "local trigger", "largest difference between edges")


_PARAMETERS: Final = (
    Parameter("subscribers", 500, "subscribers; each costs as much as several", quick=40, minimum=20),
    Parameter("seconds", 600, "simulated seconds of each run", quick=60, minimum=40),
)
BALANCING_EDGES: Final = Experiment(
    name="balancing-edges",
    summary="delivery delay with two to ten equal edges",
    source=SOURCE,
    parameters=(*_PARAMETERS, Parameter("edges_max", 10, "the most edges", quick=4, minimum=2, maximum=10)),
    published={"delay_10_edges_ms": "falls with each added edge"},
    run=_run_edges,
)
BALANCING_THRESHOLD: Final = Experiment(
    name="balancing-threshold",
    summary="how far apart edges stay, by the trigger of local balancing",
    source=SOURCE,
    parameters=(*_PARAMETERS, Parameter("triggers", 5, "how many triggers of 0.05 to 0.5", quick=2, maximum=5)),
    published={"difference_input_0.1": "below the trigger"},
    run=_run_threshold,
)
