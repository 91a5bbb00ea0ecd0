"""Limits of memory are compared with what a broker says of itself, and what exceeds them is named."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.sim.bounds import exceeded
from penstock.sim.world import World


@pytest.fixture
def world() -> World:
    made = World(1)
    made.add_overlay([("b1", "b2")], guaranteed=True)
    made.add_client("client", "b1").subscribe("")
    made.run_until_ready()
    made.run_for(2_000)
    return made


def test_a_broker_at_rest_keeps_to_its_limits(world: World) -> None:
    assert exceeded(world.brokers["b1"], pubends=2) == []


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        (("outbox_bytes",), "bytes in outboxes"),
        (("guaranteed", "cache_bytes"), "bytes in caches"),
        (("guaranteed", "streams", "b1-pubend", "pending_bytes"), "bytes pending of b1-pubend"),
        (("guaranteed", "streams", "b1-pubend", "catch_ups"), "catch-ups of b1-pubend"),
    ],
)
def test_what_exceeds_its_limit_is_named(
    world: World, where: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = world.brokers["b1"]
    status = broker.core.status()
    part: Any = status
    for step in where[:-1]:
        part = part[step] if isinstance(part, dict) else getattr(part, step)
    setattr(part, where[-1], 1 << 40)
    monkeypatch.setattr(broker.core, "status", lambda: status)
    (found,) = exceeded(broker, pubends=2)
    assert found.startswith(f"b1 has {1 << 40:,} {complaint}, more than")
