"""The fault itself: what comes back is old, what is lost is known, and it is noticed where somebody remembers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.broker.broker import Broker
from penstock.sim.client import SimClient
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.older_copies import OlderCopies
from penstock.sim.world import World


def seed_with_copies() -> int:
    """The first seed that has the fault."""
    return next(seed for seed in range(100) if OlderCopies(World(seed), seed, lambda _kind, _what: None).is_on)


@pytest.fixture
def made() -> tuple[World, OlderCopies, SimClient, SimClient]:
    world = World(seed_with_copies())
    world.add_brokers([("b1", "b2")], guaranteed=True, settings=None)
    world.add_link("b1", "b2", latency_us=500)
    for broker in world.brokers.values():
        broker.disk.journal = []
    publisher, subscriber = world.add_client("pub", "b1"), world.add_client("sub", "b2")
    subscriber.subscribe("")
    world.run_until_ready()
    copies = OlderCopies(world, world.seed, lambda _kind, _what: None)
    return world, copies, publisher, subscriber


def trading(world: World, publisher: SimClient) -> Callable[[], None]:
    def trade() -> None:
        for number in range(3):
            publisher.publish({"number": number}, b"")
            world.run_for(5)

    return trade


def lose(made: tuple[World, OlderCopies, SimClient, SimClient]) -> OlderCopies:
    world, copies, publisher, subscriber = made
    for _ in range(6):
        copies.restore_in_peace([subscriber], trading(world, publisher))
    return copies


def test_what_is_lost_is_marked_where_somebody_remembers_it(
    made: tuple[World, OlderCopies, SimClient, SimClient],
) -> None:
    losses = [each for each in lose(made).losses() if each.ticks]
    assert losses
    assert all(each.is_recognised for each in losses)
    assert made[1].problems == []
    assert len({tick for each in losses for tick in each.ticks}) == sum(len(each.ticks) for each in losses)


def test_a_loss_that_is_not_noticed_is_a_problem(
    made: tuple[World, OlderCopies, SimClient, SimClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.neighbours.memory.Memory.note", lambda *_: None)
    copies = lose(made)
    assert any("did not notice" in each for each in copies.problems)
    assert not any(each.is_recognised for each in copies.losses())


def test_a_copy_from_before_an_earlier_loss_brings_back_what_that_one_took(
    made: tuple[World, OlderCopies, SimClient, SimClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, copies, publisher, _ = made
    monkeypatch.setattr("penstock.sim.older_copies._STRIKES", 1.0)
    disk = world.brokers["b1"].disk
    trade = trading(world, publisher)
    # The first copy comes back first, and then the second one, in which there is more.
    monkeypatch.setattr("penstock.sim.older_copies._OLD_MS", (3_000,))
    monkeypatch.setattr(copies, "_one", lambda: world.brokers["b1"])
    copies.strike()
    trade()
    world.run_for(1_000)
    messages = {(pubend, tick) for pubend, tick, _ in disk.journal or ()}
    copies.strike()
    world.run_for(2_500)
    assert copies.gone == messages
    world.run_for(3_000)
    assert copies.gone.isdisjoint(messages)
    assert [len(each.ticks) for each in copies.losses()] == [len(messages), 0]


def test_a_campaign_with_older_copies_keeps_all_laws() -> None:
    campaign = DeliveryCampaign(seed_with_copies(), brokers_max=4, make_broker=Broker)
    assert campaign.run(blows_max=12).failure is None
    assert campaign.copies.losses()
