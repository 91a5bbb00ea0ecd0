"""Links that can be throttled while they are used, and remember their queues."""

from __future__ import annotations

from penstock.protocol.frames import Frame
from penstock.sim.congestion_links import NarrowLink, add_narrow_link
from penstock.sim.world import World


def two(seed: int = 1) -> tuple[World, NarrowLink, list[str]]:
    world = World(seed)
    world.add_brokers([("a", "b")], guaranteed=True)
    seen: list[str] = []

    def watch(node: str, frames: list[Frame]) -> None:
        seen.extend(f"{node} {type(frame).__name__}" for frame in frames)

    link = add_narrow_link(world, "b", "a", watch=watch)
    publisher, subscriber = world.add_client("p", "a"), world.add_client("s", "b")
    subscriber.subscribe("")
    world.run_until_ready()
    assert publisher.is_ready
    return world, link, seen


def publish(world: World, count: int) -> None:
    for number in range(count):
        world.clients["p"].publish({"number": number}, bytes(1_000), "a-pubend")
        # Each in a frame of its own.
        world.run_for(10)


def test_a_link_carries_as_much_as_it_is_allowed_to_from_then_on() -> None:
    world, link, _ = two()
    link.throttle(10_000)
    publish(world, 50)
    before = link.carried_bytes
    world.run_for(2_000)
    assert 17_000 <= link.carried_bytes - before <= 23_000
    assert 20_000 < link.queued_bytes < 40_000
    assert link.queued_max_bytes >= link.queued_bytes
    link.throttle(None)
    world.run_for(1_000)
    assert link.queued_bytes == 0
    assert len(world.clients["s"].deliveries) == 50


def test_what_was_carried_and_waited_is_remembered_over_connections() -> None:
    world, link, _ = two()
    link.throttle(10_000)
    publish(world, 50)
    world.run_for(100)
    carried, queued = link.carried_bytes, link.queued_max_bytes
    world.cut("a", "b", loud=True)
    assert link.queued_bytes == 0
    world.run_for(100)
    world.heal("a", "b")
    world.run_for(10_000)
    assert link.is_connected
    assert link.carried_bytes > carried
    assert link.queued_max_bytes >= queued > 40_000
    assert link.options.bandwidth == 10_000
    assert link.wires()[0].carried_bytes < link.carried_bytes


def test_who_watches_sees_what_arrives_at_either_end() -> None:
    world, _, seen = two()
    publish(world, 1)
    world.run_for(100)
    assert "b KnowledgeMessage" in seen
    assert "a LinkState" in seen
