"""Simulated clients go where brokers send them, also if these crash and links break in the middle of it."""

from __future__ import annotations

from functools import partial

import pytest

from penstock.broker.broker import Broker
from penstock.broker.peers import PeerKind
from penstock.broker.settings import BrokerSettings
from penstock.sim.client import SimClient, address_of
from penstock.sim.world import World

PUBENDS = ("pb.a", "pb.loose")


class Site:
    """A head, two hosts, a publisher, and clients at the first host."""

    def __init__(self, *names: str, slow_us: int = 9_000) -> None:
        self.world = world = World(1)
        head = BrokerSettings("pb", number=1, pubends=PUBENDS, best_effort=PUBENDS[1:], neighbours=("sb1", "sb2"))
        world.add_broker(head)
        for number, name in enumerate(("sb1", "sb2"), start=2):
            world.add_broker(BrokerSettings(name, number=number, neighbours=("pb",)))
            world.add_link("pb", name, latency_us=2_000 if name == "sb1" else slow_us)
        self.publisher = world.add_client("feed", "pb")
        self.clients = [
            world.add_client(name, "sb1", latency_us=700, is_pinned=name.startswith("pinned")) for name in names
        ]
        for client in self.clients:
            client.subscribe("n >= 0", durable=client.name if client.name.startswith("durable") else "")
        assert world.run_until_ready()
        assert world.run_until(self._has_begun, limit_ms=5_000)
        self.count = 0
        self.publish_until_ms = world.elapsed_ms + 3_000
        self._publish()
        world.run_for(300)

    def _has_begun(self) -> bool:
        return all("pb.a" in client.subscriptions[1].positions for client in self.clients)

    def _publish(self) -> None:
        for pubend in PUBENDS:
            self.publisher.publish({"n": self.count}, pubend=pubend)
        self.count += 1
        if self.world.elapsed_ms < self.publish_until_ms:
            self.world.clock.after(8_000, self._publish)

    def order(self, old: str = "sb1", new: str = "sb2") -> None:
        core = self.world.broker(old).core
        assert isinstance(core, Broker)
        for peer in list(core.connections.peers.values()):
            if peer.kind is PeerKind.CLIENT:
                now_ms = self.world.clock.now_ms
                core.migrations.move(
                    peer.connection, broker=new, address=address_of(new), session=7, total=1, now_ms=now_ms
                )

    def settle(self) -> None:
        self.world.run_for(9_000)

    def numbers(self, client: SimClient, pubend: str) -> list[object]:
        return [each.attributes["n"] for each in client.deliveries if each.pubend == pubend]

    def check(self, *pubends: str) -> None:
        for client in self.clients:
            for pubend in pubends or PUBENDS:
                assert self.numbers(client, pubend) == list(range(self.count)), f"{client.name} of {pubend}"

    def places(self) -> list[str]:
        return [client.broker for client in self.clients if client.broker]


def test_clients_move_while_messages_flow_and_get_each_once_and_in_order() -> None:
    site = Site("plain", "durable")
    site.order()
    site.settle()
    assert site.places() == ["sb2", "sb2"]
    assert [client.session.moves for client in site.clients] == [1, 1]
    assert not any(client.witness.failures or client.lost for client in site.clients)
    site.check()
    site.order("sb2", "sb1")
    site.settle()
    assert site.places() == ["sb1", "sb1"]


@pytest.mark.parametrize("after_ms", [2, 60, 300, 530])
@pytest.mark.parametrize("victim", ["sb1", "sb2"])
def test_a_broker_that_crashes_in_the_middle_costs_nothing_that_is_guaranteed(victim: str, after_ms: int) -> None:
    site = Site("plain", "durable")
    site.order()
    site.world.clock.after(after_ms * 1_000, partial(site.world.crash, victim))
    site.world.clock.after((after_ms + 1_500) * 1_000, partial(site.world.restart, victim))
    site.settle()
    assert len(site.places()) == 2
    site.check("pb.a")


@pytest.mark.parametrize("after_ms", [3, 510])
@pytest.mark.parametrize("broker", ["sb1", "sb2"])
def test_a_link_that_is_cut_in_the_middle_costs_nothing_that_is_guaranteed(broker: str, after_ms: int) -> None:
    site = Site("plain", "durable")
    site.order()
    site.world.run_for(after_ms)
    for client in site.clients:
        if (client.name, broker) in site.world.links:
            site.world.cut(client.name, broker)
    site.world.run_for(8_000)
    for client in site.clients:
        if (client.name, broker) in site.world.links:
            site.world.heal(client.name, broker)
    site.settle()
    assert len(site.places()) == 2
    site.check("pb.a")


def test_who_is_pinned_stays_and_who_publishes_goes() -> None:
    site = Site("pinned", "talker")
    talker = site.clients[1]
    talker.publish({"n": -1})
    site.order()
    talker.publish({"n": -2})
    site.settle()
    talker.publish({"n": -3})
    site.settle()
    assert site.places() == ["sb1", "sb2"]
    assert [client.witness.failures for client in site.clients] == [[], []]
    assert (talker.acknowledged, talker.unconfirmed) == (3, 0)
    site.check()


def test_a_client_that_dies_or_is_moved_by_fate_in_the_middle_leaves_nothing_behind() -> None:
    site = Site("plain", "durable")
    site.order()
    site.world.run_for(100)
    site.clients[0].drop(loud=True)
    site.world.place("durable", "pb")
    site.settle()
    assert site.places() == ["sb2", "pb"], "the new line rescued it before it was lost, too"
    assert not any(client.session.is_moving for client in site.clients)
    site.check("pb.a")
