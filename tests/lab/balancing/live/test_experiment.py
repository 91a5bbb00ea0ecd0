"""Real edges share subscribers that all joined the weakest one, and these get everything, once and in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from penstock.balancing.metrics import Load
from penstock.lab.balancing.live.experiment import BALANCING_LIVE, Market, Sample, draw, load_of, returns
from penstock.lab.balancing.live.plan import live_plan
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import parameter_values
from penstock.model.reporting import QuietReporter
from penstock.protocol.status import BalancingStatus
from penstock.system.loop import run

COUNT = 28
SETTINGS = (f"subscribers={COUNT}", "join_seconds=1", "smoothing_ms=800")


def has_spread(market: Market) -> bool:
    """Whether somebody has gone to each of the other edges, and that was seen."""
    return bool(market.samples) and all(market.samples[-1].subscribers[edge] > 0 for edge in ("B2", "B3"))


@pytest.mark.live
def test_subscribers_are_moved_to_both_other_edges_and_notice_nothing(tmp_path: Path) -> None:
    parameters = parameter_values(BALANCING_LIVE.parameters, SETTINGS, quick=True)
    context = Context(1, parameters, QuietReporter(), tmp_path / "chart.png")
    plan = live_plan(subscribers=COUNT, rate=context.number("rate"), smoothing_ms=context.integer("smoothing_ms"))
    with DemoOverlay(plan) as overlay:
        market = Market(context, overlay)
        measured = run(market.play(has_spread))
    assert [measured[name] for name in ("lost", "duplicated", "reordered", "strange", "oscillations")] == [0] * 5
    assert sum(measured[f"subscribers_{edge}"] for edge in ("B1", "B2", "B3")) == COUNT
    assert measured["migrations"] >= measured["subscribers_B2"] + measured["subscribers_B3"]
    assert measured["sessions"] >= 2
    assert measured["delivered"] > measured["published"] > 0
    assert (tmp_path / "chart.png").stat().st_size > 0


def test_a_load_is_what_the_status_says() -> None:
    status = BalancingStatus(state="OK", input=0.1, output=0.5, delay_s=0.01, cpu=0.2, memory=0.3)
    assert load_of(status) == Load(0.1, 0.5, 0.01, 0.2, 0.3)


def test_whoever_comes_back_is_counted_each_time() -> None:
    assert returns([]) == 0
    assert returns([["B1"], ["B1", "B2", "B3"]]) == 0
    assert returns([["B1", "B2", "B1"], ["B1", "B3", "B1", "B3"]]) == 3


def samples() -> list[Sample]:
    loads = {edge: Load(output=0.4) for edge in ("B1", "B2", "B3")}
    return [Sample(float(at_s), loads, {"B1": 1, "B2": 2, "B3": 4}, at_s) for at_s in range(5)]


def test_the_chart_marks_when_all_was_balanced() -> None:
    figure = Figure()
    draw(figure, samples(), joined_s=1.0, converged_s=2.0)
    for axes in figure.axes:
        labels = axes.get_legend_handles_labels()[1]
        assert {"B1 (bandwidth 1)", "B3 (bandwidth 4)", "all joined\n1 s", "balanced\n2 s"} <= set(labels)


def test_a_run_that_was_never_balanced_has_no_such_mark() -> None:
    figure = Figure()
    draw(figure, samples(), joined_s=1.0, converged_s=4.0)
    assert not any("balanced" in label for axes in figure.axes for label in axes.get_legend_handles_labels()[1])
