"""A small overlay of the load balancing paper: it shares load, and nothing is lost."""

from __future__ import annotations

from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.overlay import BalancingOverlay, BalancingPlan
from penstock.sim.balancing_hosts import Machine


def test_subscribers_move_and_lose_nothing() -> None:
    machine = Machine(100, 64, 0.6)
    plan = BalancingPlan(
        {"B0": Machine(2_000, 256, 10)},
        {"B1": ("B0", machine), "B2": ("B0", machine.times(2))},
        "B1",
        subscribers=24,
        joins_s=(1.0, 5.0),
        publishers=8,
    )
    settings = BalancingSettings(detection_ms=1_000, smoothing_ms=5_000, stabilize_ms=5_000)
    overlay = BalancingOverlay(plan, settings, seed=1, scale=40)
    overlay.start()
    overlay.run_until(45)
    overlay.double_half()
    overlay.run_until(50)
    overlay.stop()
    overlay.run_until(60)
    last = overlay.samples[-1]
    assert sum(last.subscribers.values()) == 24
    assert last.subscribers["B2"] > 0
    assert last.migrations >= last.subscribers["B2"] > 0
    assert last.control > 0
    assert last.messages > 100
    verdict = overlay.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.reordered) == (0, 0, 0)
    assert verdict.deliveries > 50
    assert overlay.counts("sessions") >= 1
