"""Every kind of harm falls, is written down, and is mended; what is damaged is excused."""

from __future__ import annotations

import pytest

from penstock.sim.faults import LASTS_MS_MAX, Faults
from penstock.sim.world import World


def harmed(seed: int, blows: int) -> tuple[World, Faults]:
    world = World(seed)
    pairs = [("b1", "b2"), ("b2", "b3")]
    world.add_overlay(pairs, guaranteed=True)
    client = world.add_client("client", "b1")
    client.subscribe("")
    world.run_until_ready()
    faults = Faults(world, pairs)
    for _ in range(blows):
        client.publish({"a": 1})
        faults.strike()
        world.run_for(300)
    return world, faults


@pytest.fixture(scope="module")
def long() -> tuple[World, Faults]:
    return harmed(1, 400)


def test_every_kind_of_blow_falls_sooner_or_later(long: tuple[World, Faults]) -> None:
    _, faults = long
    assert sorted(faults.counts) == [
        "clock_step",
        "crash",
        "crash_all",
        "crash_twice",
        "cut",
        "cut_client",
        "damage",
        "delay",
        "flap",
        "full_disk",
        "one_way",
        "rolling_restart",
        "slow_disk",
        "stall",
        "stall_client",
        "stop",
        "unlink",
    ]


def test_blows_and_repairs_are_written_down_in_order(long: tuple[World, Faults]) -> None:
    _, faults = long
    times = [blow.at_ms for blow in faults.timeline]
    assert times == sorted(times)
    told = "\n".join(blow.what for blow in faults.timeline)
    for word in ("is cut", "is mended", "stalls", "clock off by", "is damaged", "has space again"):
        assert word in told
    assert len(faults.excused) == faults.counts["damage"]


def test_after_repair_everything_works_again() -> None:
    world, faults = harmed(2, 40)
    faults.repair()
    world.run_for(LASTS_MS_MAX)
    assert all(broker.is_up for broker in world.brokers.values())
    assert all(link.is_whole for link in world.links.values())
    devices = [broker.device for broker in world.brokers.values()]
    assert [(each.slowness, each.is_full, each.capacity_bytes) for each in devices] == [(1.0, False, None)] * 3
    assert world.run_until_ready()


def test_clients_can_be_sent_away_for_a_while() -> None:
    world, faults = harmed(2, 0)
    faults.send_clients_away()
    world.run_for(2_000)
    assert not world.clients["client"].is_connected
    world.run_for(LASTS_MS_MAX + 5_000)
    assert world.clients["client"].is_ready
    assert (faults.counts["cut_client"], len(faults.timeline)) == (1, 1)


def test_harm_follows_from_the_seed() -> None:
    assert harmed(3, 20)[1].timeline == harmed(3, 20)[1].timeline != harmed(4, 20)[1].timeline


@pytest.mark.parametrize("is_repaired", [False, True])
def test_links_become_as_quick_as_before_however_often_they_were_slowed_down(is_repaired: bool) -> None:
    world, faults = harmed(2, 0)
    before = {pair: link.options.latency_us for pair, link in world.links.items()}
    for _ in range(20):
        faults._delay()
        assert {pair: link.options.latency_us for pair, link in world.links.items()} != before
        world.run_for(300)
    if is_repaired:
        faults.repair()
    else:
        world.run_for(LASTS_MS_MAX)
    assert {pair: link.options.latency_us for pair, link in world.links.items()} == before


def test_what_was_best_effort_is_guaranteed_after_a_promotion() -> None:
    world = World(1)
    world.add_overlay([("b1", "b2")])
    client = world.add_client("client", "b1")
    client.subscribe("")
    assert world.run_until_ready()
    faults = Faults(world, [("b1", "b2")])
    while faults.counts["promote"] < 2:
        faults.strike()
        world.run_for(300)
    faults.repair()
    world.run_for(LASTS_MS_MAX)
    assert all(not broker.settings.best_effort for broker in world.brokers.values())
    assert world.run_until_ready()
    assert set(client.subscriptions[1].starts) == {"b1-pubend", "b2-pubend"}
