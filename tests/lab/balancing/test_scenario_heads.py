"""Heads that share their publishers, while edges below them share their subscribers."""

from __future__ import annotations

from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.measures import returns_in
from penstock.lab.balancing.overlay import BalancingOverlay, BalancingPlan
from penstock.sim.balancing_hosts import Machine

HEAD = Machine(0.8, 64, 10)
EDGE = Machine(100, 64, 0.6)
SETTINGS = BalancingSettings(
    detection_ms=1_000,
    smoothing_ms=5_000,
    stabilize_ms=5_000,
    pie_ms=2_000,
    peer_ms=10_000,
    global_session_ms=60_000,
    # Heads of different power differ in their matching delay, and no move changes that.
    delay_norm_s=0.5,
)


def three_heads(group: str) -> BalancingOverlay:
    """A chain of heads with powers of 2 : 1 : 1; all publishers join the first, all subscribers its edge."""
    heads = {"H1": HEAD.times(2), "H2": HEAD, "H3": HEAD}
    plan = BalancingPlan(
        heads,
        {f"E{number}": (f"H{number}", EDGE) for number in (1, 2, 3)},
        "E1",
        subscribers=24,
        joins_s=(1.0, 5.0),
        publishers=16,
        rate_max_msg_s=2.5,
        pubends={"H1": ("H1.a", "H1.b"), "H2": ("H2.a",), "H3": ("H3.a",)},
        group=group,
    )
    overlay = BalancingOverlay(plan, SETTINGS, seed=1, scale=40)
    overlay.start()
    overlay.run_until(180)
    overlay.stop()
    overlay.run_until(200)
    return overlay


def test_publishers_of_a_busy_head_spread_over_heads_and_nothing_is_lost() -> None:
    overlay = three_heads("heads")
    last, clients = overlay.samples[-1], [each.client for each in overlay.publishers]
    assert sum(last.publishers[name] for name in overlay.plan.heads) == 16, "none of them is at an edge"
    # The one in the middle is busy with what passes through it.
    assert last.publishers["H3"] > 3
    assert last.publishers["H1"] > 3
    first, third = (overlay.balancing(name).balancer for name in ("H1", "H3"))
    assert first is not None
    assert third is not None
    assert first.counts["migrations"] == third.counts["arrivals"] > 3
    trails = [[(at_us / 1e6, broker) for at_us, broker in client.trail] for client in clients]
    assert not sum(returns_in(trail, (0.0,)) for trail in trails), "nobody went back"
    assert not any(client.unsettled + client.backlog + client.unconfirmed for client in clients)
    verdict = overlay.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.reordered) == (0, 0, 0)
    assert verdict.deliveries > 1_000
    # And clusters of edges were balanced all the time.
    assert all(last.subscribers[name] > 0 for name in overlay.plan.edges)


def test_without_a_group_heads_keep_their_publishers() -> None:
    overlay = three_heads("")
    last = overlay.samples[-1]
    assert last.publishers["H1"] == 16
    assert all(last.subscribers[name] > 0 for name in overlay.plan.edges)
