"""Real edges share subscribers that all joined the weakest one, and these get everything, once and in order."""

from __future__ import annotations

from pathlib import Path

from penstock.lab.balancing.live.experiment import BALANCING_LIVE, Market
from penstock.lab.balancing.live.plan import live_plan
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import parameter_values
from penstock.lab.registry import EXPERIMENTS
from penstock.live.loop import run
from penstock.model.reporting import QuietReporter

COUNT = 28
SETTINGS = (f"subscribers={COUNT}", "join_seconds=1", "smoothing_ms=800")


def has_spread(market: Market) -> bool:
    """Whether somebody has gone to each of the other edges, and that was seen."""
    return bool(market.samples) and all(market.samples[-1].subscribers[edge] > 0 for edge in ("B2", "B3"))


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


def test_it_is_among_the_experiments() -> None:
    assert BALANCING_LIVE in EXPERIMENTS
