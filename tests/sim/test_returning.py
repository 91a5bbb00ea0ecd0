"""A host restarts without some of its subscribers: who comes back within its grace misses nothing, others are told."""

from __future__ import annotations

import pytest

from penstock.sim.returning import restart_host
from penstock.sim.verdict import judge
from penstock.sim.world import World

GRACE_MS = 20_000
LIMITS = {"retain_ms": 0, "cache_bytes": 300, "grace_ms": GRACE_MS}


@pytest.mark.parametrize("seed", range(12))
def test_who_comes_back_in_time_misses_nothing_and_who_comes_later_is_told(seed: int) -> None:
    world = World(seed)
    world.add_overlay([("b1", "b2")], guaranteed=True, settings=LIMITS)
    publisher = world.add_client("pub", "b1")
    subscribers = [world.add_client(f"sub-{number}", "b2") for number in range(3)]
    for client in subscribers:
        client.subscribe("")
    assert world.run_until_ready()
    world.run_for(GRACE_MS + 2_000)
    noted: list[str] = []
    assert restart_host(world, subscribers, lambda kind, _: noted.append(kind), grace_ms=GRACE_MS)
    for _ in range(30):
        publisher.publish({"a": 1})
        world.run_for(1_000)
    world.run_for(20_000)
    assert noted == ["host_restart"]
    assert all(client.is_ready for client in subscribers)
    verdict = judge([publisher], subscribers, grace_ms=GRACE_MS)
    assert verdict.is_sound, verdict.problems
    assert verdict.acknowledged == 30
    told = [client for client in subscribers if client.lost]
    assert all(judge([publisher], [client]).lost for client in told), "a notice without a loss"


def test_without_subscribers_there_is_no_host_to_restart() -> None:
    world = World(1)
    world.add_overlay([("b1", "b2")], guaranteed=True)
    assert not restart_host(world, [], lambda *_: None, grace_ms=GRACE_MS)
