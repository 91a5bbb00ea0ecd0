"""Publishers behind other brokers, in virtual time: full logs, full links, links that flap, clocks set back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker import BrokerSettings
from penstock.sim.client import SimClient
from penstock.sim.world import World

MEMBERS = ("d", "m", "h")


def line(*, bandwidth: int | None = None, **settings: Any) -> World:
    """A door, a broker in between, and a home with two guaranteed pubends and one that guarantees nothing."""
    world = World(1)
    common = {"members": MEMBERS, **settings}
    pubends = ("h.a", "h.b", "h.c")
    world.add_broker(BrokerSettings("d", number=1, neighbours=("m",), **common))
    world.add_broker(BrokerSettings("m", number=2, neighbours=("d", "h"), **common))
    world.add_broker(BrokerSettings("h", number=3, pubends=pubends, best_effort=("h.c",), neighbours=("m",), **common))
    world.add_link("d", "m", bandwidth=bandwidth)
    world.add_link("m", "h")
    return world


def kept_for_somebody(world: World) -> None:
    """Has all messages kept for a durable subscription whose client is away."""
    subscriber = world.add_client("subscriber", "h")
    subscriber.subscribe("n = 1", durable="keep")
    assert world.run_until_ready()
    world.run_for(2_000)
    world.withdraw("subscriber")
    world.run_for(1_000)


def publish(client: SimClient, pubend: str, count: int, size: int = 60_000) -> None:
    for _ in range(count):
        client.publish({"n": 1}, bytes(size), pubend)


def test_a_full_log_holds_back_those_who_publish_to_it_and_nobody_else() -> None:
    world = line(retain_bytes_max=1_000_000, retain_policy="hold")
    clients = {pubend: world.add_client(f"to-{pubend}", "d") for pubend in ("h.a", "h.b", "h.c")}
    kept_for_somebody(world)
    publish(clients["h.a"], "h.a", 100)
    world.run_for(3_000)
    assert "the log of pubend h.a has reached its maximum" in clients["h.a"].held_back
    for pubend in ("h.b", "h.c"):
        publish(clients[pubend], pubend, 10)
    world.run_for(5_000)
    assert [clients[pubend].acknowledged for pubend in ("h.b", "h.c")] == [10, 10]
    assert [clients[pubend].held_back for pubend in ("h.b", "h.c")] == ["", ""]
    assert clients["h.a"].acknowledged < 100


def test_a_link_that_flaps_lets_nobody_past_a_full_log() -> None:
    world = line(retain_bytes_max=1_000_000, retain_policy="hold")
    client = world.add_client("publisher", "d")
    kept_for_somebody(world)
    publish(client, "h.a", 200)
    world.run_for(3_000)
    before = client.acknowledged
    assert before > 0
    for _ in range(3):
        world.cut("m", "h", loud=True)
        world.run_for(1_000)
        world.heal("m", "h")
        world.run_for(5_000)
    assert client.acknowledged == before
    world.place("subscriber", "h")
    assert world.run_until(lambda: client.acknowledged == 200, limit_ms=120_000)


def test_publishers_share_a_link_that_is_full() -> None:
    world = line(bandwidth=1_000_000, link_outbox_bytes=1_000_000)
    clients = [world.add_client(f"publisher-{number}", "d") for number in range(5)]
    assert world.run_until_ready()
    for _ in range(600):
        for client in clients:
            publish(client, "h.a", 20 - client.backlog, 10_000)
        world.run_for(50)
    acknowledged = sorted(client.acknowledged for client in clients)
    assert acknowledged[0] > acknowledged[-1] / 4, acknowledged


def test_a_message_larger_than_the_window_costs_nobody_the_connection_when_the_path_changes() -> None:
    world = line(retain_bytes_max=1_000_000, retain_policy="hold")
    client = world.add_client("publisher", "d")
    kept_for_somebody(world)
    publish(client, "h.a", 1, 3_000_000)
    world.run_for(3_000)
    world.cut("m", "h", loud=True)
    world.run_for(1_000)
    world.heal("m", "h")
    world.run_for(2_000)
    publish(client, "h.a", 20)
    world.run_for(5_000)
    world.place("subscriber", "h")
    assert world.run_until(lambda: client.acknowledged == 21, limit_ms=120_000)
    assert [goodbye.code for goodbye in client.witness.goodbyes] == []


@pytest.mark.parametrize("offset_ms", [-3_600_000, -3_000, 0])
def test_a_door_that_is_restarted_with_its_clock_set_back_goes_on(offset_ms: int) -> None:
    world = line()
    client = world.add_client("publisher", "d")
    assert world.run_until_ready()
    publish(client, "h.a", 5, 10)
    world.run_for(3_000)
    world.crash("d", loud=False)
    world.run_for(100)
    world.restart("d", clock_offset_ms=offset_ms)
    publish(client, "h.a", 5, 10)
    assert world.run_until(lambda: client.acknowledged == 10, limit_ms=60_000)
