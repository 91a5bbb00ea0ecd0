"""A simulated subscriber that begins with the last values misses nothing, whatever brokers do meanwhile.

Neither where logs have everything, nor where they are trimmed at once and pubends keep last values of what is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from penstock.broker.settings import BrokerSettings
from penstock.model.body import decode_attributes
from penstock.model.values import AttributeValue
from penstock.sim.client import SimClient
from penstock.sim.world import World

LINKS = [("b1", "b2"), ("b2", "b3"), ("b3", "b4")]
PUBENDS = ("b1-pubend", "b2-pubend", "b4-pubend")
SYMBOLS = ("ACME", "BOLT", "CORK", "DUNE", None)
MESSAGES = 400
SPAN_MS = 12_000


def trading(seed: int) -> tuple[World, Random]:
    """An overlay with publishers at every broker, that trade while brokers crash."""
    world = World(seed)
    chance = Random(seed)
    world.add_overlay(LINKS, guaranteed=True, latency_us=3_000, settings={"retain_ms": 10**9})
    for broker in world.brokers.values():
        broker.disk.journal = []
    publishers = [world.add_client(f"pub-{name}", name) for name in world.brokers]
    assert world.run_until_ready()
    for number in range(MESSAGES):
        symbol = chance.choice(SYMBOLS)
        attributes: dict[str, AttributeValue] = {"number": number}
        if symbol is not None:
            attributes["symbol"] = symbol
        # Large enough for logs that are read in several parts.
        publish = partial(chance.choice(publishers).publish, attributes, bytes(6_000), chance.choice(PUBENDS))
        world.clock.after(chance.randrange(SPAN_MS * 1_000), publish)
    for _ in range(chance.randrange(1, 6)):
        at_us = chance.randrange(SPAN_MS * 1_000)
        world.clock.after(at_us, partial(blow, world, chance.choice(list(world.brokers)), chance.randrange(50, 3_000)))
    return world, chance


def blow(world: World, name: str, down_ms: int) -> None:
    if world.broker(name).is_up:
        world.crash(name, loud=down_ms % 2 == 0)
        world.clock.after(down_ms * 1_000, partial(world.restart, name))


def judged(world: World, client: SimClient, number: int) -> tuple[int, int]:
    """Checks what a subscription got; returns how many last values, and how many messages after them."""
    record = client.subscriptions[number]
    starts = {pubend: start.tick for pubend, start in record.starts.items()}
    durable = {
        (tick, pubend): decode_attributes(body)
        for broker in world.brokers.values()
        for pubend, tick, body in broker.disk.journal or ()
        if "number" in decode_attributes(body)
    }
    newest: dict[object, tuple[int, str]] = {}
    for (tick, pubend), attributes in sorted(durable.items(), key=lambda each: each[0]):
        if tick < starts[pubend] and "symbol" in attributes:
            newest[attributes["symbol"]] = (tick, pubend)
    after = {where for where in durable if where[0] >= starts[where[1]]}
    got = [(each.tick, each.pubend) for each in client.deliveries if each.subscription == number]
    values = sorted(newest.values())
    assert got[: len(values)] == values
    rest = got[len(values) :]
    assert len(rest) == len(set(rest))
    assert set(rest) == after
    for pubend in starts:
        ticks = [tick for tick, each in rest if each == pubend]
        assert ticks == sorted(ticks)
    assert not client.lost
    assert not client.witness.breaches
    return len(values), len(rest)


@pytest.mark.parametrize("seed", range(12))
def test_the_newest_of_each_key_comes_first_and_then_everything_after(seed: int) -> None:
    world, chance = trading(seed)
    clients = [world.add_client(f"sub-{name}", name) for name in ("b1", "b3")]
    for client in clients:
        subscribe = partial(client.subscribe, "", last_by="symbol", otherwise=0)
        world.clock.after(chance.randrange(SPAN_MS * 1_000), subscribe)
    world.run_for(SPAN_MS + 3_000)
    assert world.run_until(lambda: all(client.is_ready for client in world.clients.values()), limit_ms=60_000)
    assert world.run_until(
        lambda: not any(each.backlog or each.unsettled for each in world.clients.values()), limit_ms=60_000
    )
    world.run_for(20_000)
    found = [judged(world, client, 1) for client in clients]
    assert all(sum(each) for each in found)


# --- where logs are trimmed at once

FORGETFUL = {"retain_ms": 0, "grace_ms": 2_000, "report_ms": 200}


def forgetful(seed: int) -> tuple[World, Random]:
    """A chain of brokers with two pubends that keep last values; nobody subscribes, so logs are trimmed at once."""
    world = World(seed, checks=True)
    views = (("b1.p", "symbol"), ("b3.p", "symbol"))
    names = ("b1", "b2", "b3")
    for number, name in enumerate(names, start=1):
        own = tuple(view for view in views if view[0].startswith(name))
        settings = BrokerSettings(
            name=name,
            number=number,
            pubends=tuple(pubend for pubend, _ in own),
            neighbours=tuple(each for each in names if abs(int(each[1]) - number) == 1),
            last_values=own,
            all_last_values=views,
            **FORGETFUL,  # type: ignore[arg-type]
        )
        world.add_broker(settings).disk.journal = []
    for pair in (("b1", "b2"), ("b2", "b3")):
        world.add_link(*pair, latency_us=3_000)
    return world, Random(seed)


def trade(publishers: list[SimClient], chance: Random, number: int) -> None:
    for _ in range(chance.randrange(1, 40)):
        publisher, symbol = chance.choice(publishers), chance.randrange(300)
        pubend = chance.choice(("b1.p", "b3.p"))
        publisher.publish({"number": number, "symbol": symbol}, bytes(chance.choice((10, 9_000))), pubend)


def disturb(world: World, chance: Random, publish: Callable[[], None]) -> None:
    """Makes a disk slow or full, or crashes its broker, just when it trims more often than not.

    What is published meanwhile has to wait for a full disk, and trims go ahead of it.
    """
    name = chance.choice(("b1", "b3"))
    device = world.brokers[name].device
    device.slowness = chance.choice((1.0, 1.0, 60.0))
    device.is_full = chance.random() < 0.4
    before = dict(device.given_up)
    publish()
    if chance.random() < 0.7:
        world.run_until(lambda: device.given_up != before, limit_ms=3_000)
    world.run_for(chance.choice((0, 10, 60, 150)))
    if chance.random() < 0.6:
        blow(world, name, chance.randrange(50, 800))
    if chance.random() < 0.3:
        device.is_full, device.slowness = False, 1.0


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_of_each_key_is_found_though_logs_were_trimmed_while_brokers_crashed(seed: int) -> None:
    world, chance = forgetful(seed)
    publishers = [world.add_client(f"pub-{name}", name) for name in ("b1", "b3")]
    assert world.run_until_ready()
    world.run_for(FORGETFUL["grace_ms"])
    for number in range(12):
        trade(publishers, chance, number)
        world.run_for(chance.randrange(300))
        disturb(world, chance, partial(trade, publishers, chance, number))
    for name in ("b1", "b3"):
        world.brokers[name].device.is_full, world.brokers[name].device.slowness = False, 1.0
    world.run_for(4_000)
    assert all(broker.is_up for broker in world.brokers.values())
    assert world.run_until(
        lambda: not any(each.backlog or each.unsettled for each in world.clients.values()), limit_ms=60_000
    )
    world.run_for(10_000)
    journal = [each for broker in world.brokers.values() for each in broker.disk.journal or ()]
    logged = [tick for name in ("b1", "b3") for tick in world.brokers[name].disk.ticks(f"{name}.p")]
    assert len(logged) < len(journal) // 4, "most messages were trimmed"
    late = world.add_client("late", "b2")
    late.subscribe("", last_by="symbol", otherwise=0)
    assert world.run_until(lambda: late.is_ready, limit_ms=30_000)
    world.run_for(2_000)
    newest: dict[object, tuple[int, str]] = {}
    for pubend, tick, body in journal:
        key = decode_attributes(body)["symbol"]
        newest[key] = max((tick, pubend), newest.get(key, (0, "")))
    assert [(each.tick, each.pubend) for each in late.deliveries] == sorted(newest.values())
    assert not late.lost
