"""Plans follow from chance alone, cover what they should, and can be read."""

from __future__ import annotations

from random import Random

import pytest

from penstock.sim.delivery_plan import draw_plan
from penstock.sim.topologies import broker_names

PLANS = [draw_plan(Random(seed)) for seed in range(200)]


def test_a_plan_follows_from_chance() -> None:
    assert draw_plan(Random(5)) == draw_plan(Random(5)) != draw_plan(Random(6))


def test_overlays_are_connected_and_have_pubends() -> None:
    for plan in PLANS:
        names = [settings.name for settings in plan.brokers]
        reached = {names[0]}
        for _ in names:
            reached |= {name for pair in plan.pairs if reached & set(pair) for name in pair}
        assert reached == set(names) == set(broker_names(len(names)))
        assert len(plan.links) == len(plan.pairs)
        assert plan.hosts
        assert all(pubend.startswith(host.name) for host in plan.hosts for pubend in host.pubends)
        assert all({*host.best_effort} < {*host.pubends} for host in plan.hosts)


@pytest.mark.parametrize("name", ["receive_window_ms", "cache_bytes", "link_outbox_bytes", "retain_ms", "credit_bytes"])
def test_limits_are_sane_or_hostile(name: str) -> None:
    values = {plan.limits[name] for plan in PLANS}
    assert max(values) >= 10 * min(values)


def test_some_logs_are_full_soon_and_some_of_them_lapse() -> None:
    assert any(plan.may_lapse for plan in PLANS)
    assert any(not plan.may_lapse and "retain_bytes_max" in plan.limits for plan in PLANS)
    assert any(settings.best_effort for plan in PLANS for settings in plan.brokers)


def test_a_plan_can_be_read() -> None:
    plan = next(plan for plan in PLANS if plan.may_lapse and any(host.best_effort for host in plan.hosts))
    links, *pubends, limits = plan.described()
    assert links.startswith("links: b1-b2")
    assert any("(best effort)" in line for line in pubends)
    assert "retain_policy lapse, retain_bytes_max 200,000" in limits
    assert "overlay" not in limits
