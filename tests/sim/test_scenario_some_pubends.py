"""Subscriptions to some pubends, in virtual time: what comes, which streams brokers join, which logs are held."""

from __future__ import annotations

from typing import Any

from penstock.broker import BrokerSettings
from penstock.sim.client import SimClient
from penstock.sim.world import World

MEMBERS = ("p", "m", "s")
PUBENDS = ("p.orders", "p.trades", "p.loose")


def line() -> World:
    """A broker with three pubends, one of them best effort; one in between; one for subscribers."""
    world = World(1)
    common: dict[str, Any] = {"members": MEMBERS, "grace_ms": 5_000, "retain_ms": 1_000, "retain_bytes": 0}
    own: dict[str, Any] = {"pubends": PUBENDS, "best_effort": ("p.loose",)}
    world.add_broker(BrokerSettings("p", number=1, neighbours=("m",), **own, **common))
    world.add_broker(BrokerSettings("m", number=2, neighbours=("p", "s"), **common))
    world.add_broker(BrokerSettings("s", number=3, neighbours=("m",), **common))
    world.add_link("p", "m")
    world.add_link("m", "s")
    # So that all have heard of all pubends.
    world.run_for(2_000)
    return world


def publish(client: SimClient, number: int = 1) -> None:
    for pubend in PUBENDS:
        client.publish({"n": number}, b"", pubend)


def got(client: SimClient) -> list[str]:
    return [each.pubend for each in client.deliveries]


def streams(world: World, broker: str) -> list[str]:
    return list(world.brokers[broker].core.status().guaranteed.streams)


def names(world: World) -> dict[str, list[str]]:
    pubends = world.brokers["p"].core.status().guaranteed.pubends
    return {pubend: list(figures.durables) for pubend, figures in pubends.items()}


def test_only_the_named_pubends_are_delivered_joined_and_sent_over_links() -> None:
    world = line()
    publisher = world.add_client("publisher", "p")
    subscriber = world.add_client("subscriber", "s")
    local = world.add_client("local", "p")
    subscriber.subscribe("n > 0", pubends=("p.orders", "p.loose"))
    local.subscribe("n > 0", pubends=("p.trades",))
    assert world.run_until_ready()
    publish(publisher)
    world.run_for(2_000)
    assert sorted(got(subscriber)) == ["p.loose", "p.orders"]
    assert got(local) == ["p.trades"]
    assert streams(world, "s") == ["p.orders"]
    assert streams(world, "p") == ["p.trades"]
    # Nothing keeps the log of a pubend for a broker that does not want it.
    assert list(world.brokers["p"].core.status().guaranteed.pubends["p.trades"].hosts) == ["p"]
    assert list(world.brokers["p"].core.status().guaranteed.pubends["p.orders"].hosts) == ["s"]


def test_the_edge_of_a_pubend_goes_with_the_last_subscription_that_wants_it() -> None:
    world = line()
    publisher = world.add_client("publisher", "p")
    subscriber = world.add_client("subscriber", "s")
    first = subscriber.subscribe("n > 0", pubends=("p.orders",))
    second = subscriber.subscribe("n > 0", pubends=("p.trades",))
    assert world.run_until_ready()
    assert sorted(streams(world, "s")) == ["p.orders", "p.trades"]
    publish(publisher, 1)
    world.run_for(2_000)
    subscriber.unsubscribe(first)
    world.run_for(2_000)
    assert streams(world, "s") == ["p.trades"]
    third = subscriber.subscribe("n > 1", pubends=("p.orders",))
    assert world.run_until_ready()
    publish(publisher, 2)
    world.run_for(2_000)
    by_number = [(each.subscription, each.pubend, each.attributes["n"]) for each in subscriber.deliveries]
    assert sorted(by_number) == [
        (first, "p.orders", 1),
        (second, "p.trades", 1),
        (second, "p.trades", 2),
        (third, "p.orders", 2),
    ]
    for broker in world.brokers.values():
        broker.check_invariants()


def test_a_subscription_that_ended_holds_no_log_that_others_of_the_client_do_not_want() -> None:
    world = line()
    publisher = world.add_client("publisher", "p")
    subscriber = world.add_client("subscriber", "s")
    first = subscriber.subscribe("n > 0", pubends=("p.orders",))
    subscriber.subscribe("n > 0", pubends=("p.trades",))
    assert world.run_until_ready()
    subscriber.unsubscribe(first)
    subscriber.subscribe("n > 0", durable="D", pubends=("p.orders",))
    assert world.run_until_ready()
    publish(publisher)
    world.run_for(5_000)
    figures = world.brokers["p"].core.status().guaranteed.pubends["p.orders"]
    assert figures.hosts["s"] > figures.last_tick - (5_000 << 16)


def test_a_durable_name_holds_the_logs_of_its_pubends_and_no_others() -> None:
    world = line()
    publisher = world.add_client("publisher", "p")
    subscriber = world.add_client("subscriber", "s")
    subscriber.subscribe("n > 0", durable="D", pubends=("p.orders",))
    assert world.run_until_ready()
    assert names(world) == {"p.orders": ["D"], "p.trades": []}
    world.withdraw("subscriber")
    publish(publisher)
    world.run_for(60_000)
    sizes = {each: figures.size_bytes for each, figures in world.brokers["p"].core.status().guaranteed.pubends.items()}
    assert sizes["p.trades"] == 0 < sizes["p.orders"]
    world.place("subscriber", "m")
    assert world.run_until_ready()
    world.run_for(2_000)
    assert got(subscriber) == ["p.orders"]


def test_a_name_that_comes_back_with_other_pubends_keeps_its_position_at_the_former_ones() -> None:
    world = line()
    publisher = world.add_client("publisher", "p")
    subscriber = world.add_client("subscriber", "s")
    number = subscriber.subscribe("n > 0", durable="D", pubends=("p.orders",))
    assert world.run_until_ready()
    subscriber.unsubscribe(number)
    publish(publisher)
    world.run_for(2_000)
    number = subscriber.subscribe("n > 0", durable="D", otherwise=0, pubends=("p.trades",))
    assert world.run_until_ready()
    world.run_for(2_000)
    assert got(subscriber) == ["p.trades"]
    assert names(world) == {"p.orders": ["D"], "p.trades": ["D"]}
    subscriber.unsubscribe(number)
    subscriber.subscribe("n > 0", durable="D")
    assert world.run_until_ready()
    world.run_for(2_000)
    assert got(subscriber) == ["p.trades", "p.orders"]


def test_a_pubend_that_does_not_exist_is_pending_until_it_appears() -> None:
    world = line()
    subscriber = world.add_client("subscriber", "s")
    number = subscriber.subscribe("n > 0", pubends=("p.orders", "elsewhere"))
    assert world.run_until_ready()
    assert subscriber.subscriptions[number].pending == ("elsewhere",)
    assert list(subscriber.subscriptions[number].starts) == ["p.orders"]


def test_a_subscription_need_not_wait_for_pubends_that_it_does_not_want() -> None:
    world = line()
    world.crash("p", loud=True)
    world.run_for(3_000)
    waits = world.add_client("waits", "s")
    waits.subscribe("n > 0")
    narrow = world.add_client("narrow", "m")
    number = narrow.subscribe("n > 0", pubends=("elsewhere",))
    world.run_for(3_000)
    assert narrow.subscriptions[number].pending[-1] == "elsewhere"
