"""A hundred seeds of the campaign keep all laws and converge; failures are told apart; seeds can be replayed.

Memory limits are compared with what a broker says of itself, and what exceeds them is named. When a host restarts
without some of its subscribers, who comes back within its grace misses nothing, and others are told.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.effects import Effect
from penstock.sim.delivery import DeliveryCampaign, exceeded, restart_host
from penstock.sim.delivery_run import Failure
from penstock.sim.verdict import judge
from penstock.sim.world import World

GRACE_MS = 20_000
LIMITS = {"retain_ms": 0, "cache_bytes": 300, "grace_ms": GRACE_MS}
SCRIPT = """
import sys
from penstock.sim.delivery import DeliveryCampaign
print(DeliveryCampaign(int(sys.argv[1])).run(blows_max=12).digest)
"""


@pytest.mark.parametrize(
    "first", [*range(0, 30, 5), *(pytest.param(first, marks=pytest.mark.long) for first in range(30, 100, 5))]
)
def test_all_laws_hold_and_the_overlay_converges(first: int) -> None:
    for seed in range(first, first + 5):
        run = DeliveryCampaign(seed, checks=seed % 20 == 0, brokers_max=6).run(blows_max=16)
        assert run.is_sound, run.story()
        assert run.verdict.delivered > 0


def test_a_seed_gives_the_same_run_whatever_the_order_of_sets() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", SCRIPT, "11"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1
    assert DeliveryCampaign(11).run(blows_max=12).digest == digests.pop().strip()
    assert DeliveryCampaign(11).run(blows_max=12).digest != DeliveryCampaign(12).run(blows_max=12).digest


def test_some_publishers_are_held_to_rules_and_some_choose_by_hash() -> None:
    campaigns = [DeliveryCampaign(seed) for seed in range(8)]
    publishers = [(campaign, client) for campaign in campaigns for client in campaign.publishers]
    assert {client.name in campaign.rules for campaign, client in publishers} == {True, False}
    assert {client.choice for _, client in publishers} == {"near", "hash"}
    run = next(campaign for campaign in campaigns if campaign.rules).run(blows_max=8)
    assert run.is_sound
    assert run.counts["refused_at_the_door"] > 0


class Crashing(Broker):
    """A broker that fails in the middle of its work."""

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> list[Effect]:
        if number > 3:
            raise RuntimeError("out of paper")
        return super().committed(number, now_ms=now_ms, values_only=values_only)


class Deaf(Broker):
    """A broker that never reads its log."""

    def log_read(self, number: int, *_: Any, **__: Any) -> list[Effect]:
        return []


class Hasty(Broker):
    """A broker that believes in durability before the disk does."""

    def receive(self, connection: int, frames: Any, *, now_ms: int) -> list[Effect]:
        effects = super().receive(connection, frames, now_ms=now_ms)
        return effects + super().committed(self._guaranteed._commits._taken, now_ms=now_ms)

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> list[Effect]:
        return []


def test_a_crash_is_told_with_the_place_where_it_happened() -> None:
    run = DeliveryCampaign(1, make_broker=Crashing).run()
    assert (run.failure, run.complaint) == (Failure.CRASH, "RuntimeError: out of paper")
    assert "committed: raise RuntimeError" in run.story()


def test_a_broker_that_keeps_no_promise_breaks_a_law() -> None:
    assert DeliveryCampaign(6, make_broker=Hasty).run(blows_max=8).failure == Failure.BROKEN_LAW


def test_an_overlay_that_cannot_recover_makes_no_progress() -> None:
    assert DeliveryCampaign(6, make_broker=Deaf).run(blows_max=8).failure == Failure.NO_PROGRESS


def test_limits_that_are_not_kept_break_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.sim.delivery.exceeded", lambda broker, **_: [f"{broker.name} has too much"])
    run = DeliveryCampaign(1).run(blows_max=5)
    assert run.failure == Failure.BROKEN_LAW
    assert run.complaint.endswith("has too much")


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
