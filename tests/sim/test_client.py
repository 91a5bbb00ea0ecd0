"""Simulated clients keep within their credit, record what comes, and come back after a loss."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.access import Access, Rule
from penstock.broker.settings import BrokerSettings
from penstock.protocol.frames import (
    Acknowledge,
    Deliver,
    Forget,
    Forgotten,
    HeldBack,
    Hello,
    Horizons,
    Lost,
    PubendNames,
    Publish,
    PublishAck,
    Refused,
    Subscribe,
    Subscribed,
)
from penstock.selectors import Selector
from penstock.sim.checkers import broken_laws, missing
from penstock.sim.client import SimClient
from penstock.sim.records import LostTicks
from penstock.sim.world import World
from sim.scripted import Play


def world_of(**settings: Any) -> World:
    world = World(1, checks=True)
    world.add_broker(BrokerSettings("b1", pubends=("p",), best_effort=("p",), **settings))
    return world


def pair_of_clients(world: World, selector: str = "a > 1") -> tuple[SimClient, SimClient]:
    publisher, subscriber = world.add_client("pub", "b1"), world.add_client("sub", "b1")
    subscriber.subscribe(selector)
    assert world.run_until_ready()
    return publisher, subscriber


def test_a_subscriber_records_what_it_asked_for() -> None:
    world = world_of()
    publisher, subscriber = pair_of_clients(world)
    for value in range(4):
        publisher.publish({"a": value}, b"payload")
    world.run_for(400)
    assert [delivery.attributes for delivery in subscriber.deliveries] == [{"a": 2}, {"a": 3}]
    ids = [published.message_id for published in publisher.published]
    assert [delivery.message_id for delivery in subscriber.deliveries] == ids[2:]
    assert publisher.acknowledged == 4
    assert subscriber.deliveries[0].received_us - publisher.published[2].sent_us == 2_000


def test_a_message_for_several_subscriptions_is_recorded_for_each() -> None:
    world = world_of()
    publisher, subscriber = pair_of_clients(world)
    second = subscriber.subscribe("a < 5")
    assert world.run_until_ready()
    publisher.publish({"a": 3})
    world.run_for(100)
    assert sorted(delivery.subscription for delivery in subscriber.deliveries) == [1, second]


def test_what_is_published_before_the_connection_stands_waits() -> None:
    world = world_of()
    publisher = world.add_client("pub", "b1")
    publisher.publish({"a": 1})
    assert (publisher.backlog, publisher.is_connected) == (1, False)
    world.run_for(400)
    assert (publisher.backlog, publisher.acknowledged) == (0, 1)


def test_a_publisher_keeps_within_its_credit() -> None:
    world = world_of(credit_bytes=1_000)
    publisher, subscriber = pair_of_clients(world)
    for value in range(2, 32):
        publisher.publish({"a": value}, bytes(200))
    sent = len(publisher.published)
    assert 3 <= sent <= 4
    assert publisher.backlog == 30 - sent
    world.run_for(100)
    assert (len(subscriber.deliveries), publisher.acknowledged) == (30, 30)
    assert broken_laws([subscriber]) == []


def test_a_message_larger_than_all_credit_goes_alone() -> None:
    world = world_of(credit_bytes=1_000)
    publisher, subscriber = pair_of_clients(world)
    for _ in range(3):
        publisher.publish({"a": 2}, bytes(5_000))
    assert len(publisher.published) == 1
    world.run_for(100)
    assert len(subscriber.deliveries) == 3


def test_a_full_backlog_drops_and_counts() -> None:
    world = world_of()
    publisher = world.add_client("pub", "b1")
    publisher.sending._backlog_max = 2
    for _ in range(5):
        publisher.publish({"a": 1})
    assert (publisher.backlog, publisher.sending.dropped) == (2, 3)


def test_deliveries_beyond_the_record_are_counted() -> None:
    world = world_of()
    publisher, subscriber = pair_of_clients(world)
    subscriber._deliveries_max = 1
    for _ in range(3):
        publisher.publish({"a": 2})
    world.run_for(100)
    assert (len(subscriber.deliveries), subscriber.unrecorded) == (1, 2)


def test_an_idle_client_stays_connected_by_heartbeats() -> None:
    world = world_of()
    _, subscriber = pair_of_clients(world)
    world.run_for(60_000)
    assert (subscriber.witness.welcomes, subscriber.witness.goodbyes) == (1, [])


@pytest.mark.parametrize("loud", [True, False])
def test_after_a_loss_a_client_comes_back_and_subscribes_again(loud: bool) -> None:
    world = world_of()
    publisher, subscriber = pair_of_clients(world)
    publisher.publish({"a": 2})
    world.run_for(100)
    world.cut("sub", "b1", loud=loud)
    world.run_for(10_000)
    assert not subscriber.is_connected
    publisher.publish({"a": 3})
    world.run_for(100)
    world.heal("sub", "b1")
    assert world.run_until_ready()
    publisher.publish({"a": 4})
    world.run_for(100)
    assert [delivery.attributes["a"] for delivery in subscriber.deliveries] == [2, 4]
    assert len(subscriber.subscriptions[1].periods) == 2
    assert missing([publisher], [subscriber]) == []


def test_a_silent_broker_is_given_up_after_five_heartbeats() -> None:
    world = world_of()
    _, subscriber = pair_of_clients(world)
    world.link("sub", "b1").stall()
    world.run_for(4_000)
    assert subscriber.is_connected
    world.run_for(3_000)
    assert not subscriber.is_connected


def test_what_was_under_way_at_a_loss_is_counted_as_unconfirmed() -> None:
    world = world_of()
    publisher, _ = pair_of_clients(world)
    publisher.publish({"a": 2})
    world.cut("pub", "b1", loud=True)
    world.heal("pub", "b1")
    assert world.run_until_ready()
    assert (publisher.unconfirmed, publisher.acknowledged) == (1, 0)


def test_unsubscribing_ends_the_deliveries() -> None:
    world = world_of()
    publisher, subscriber = pair_of_clients(world)
    subscriber.unsubscribe(1)
    world.run_for(100)
    publisher.publish({"a": 2})
    world.run_for(100)
    assert (subscriber.deliveries, missing([publisher], [subscriber])) == ([], [])
    assert subscriber.is_ready


def test_refusals_are_recorded_and_not_asked_for_again() -> None:
    rule = Rule("pub", publish=Selector.parse("a = 1"), subscribe=None)
    world = world_of(access=Access(rules=(rule,)))
    publisher = world.add_client("pub", "b1")
    number = publisher.subscribe("a = 1")
    publisher.publish({"a": 2})
    world.run_for(100)
    assert "may not subscribe" in publisher.subscriptions[number].refused
    assert publisher.witness.refused == 2
    publisher.publish({"a": 1})
    world.run_for(100)
    assert [published.is_refused for published in publisher.published] == [True, False]
    assert publisher.is_ready


def test_a_client_that_cannot_prove_itself_is_told_goodbye() -> None:
    world = world_of(access=Access(tokens={"good": "secret"}))
    good, bad = world.add_client("good", "b1", credential="secret"), world.add_client("bad", "b1", credential="x")
    world.run_for(1_000)
    assert (good.is_connected, bad.is_connected) == (True, False)
    assert bad.witness.goodbyes[0].reason == "name 'bad': wrong or missing token"


def test_a_client_that_leaves_is_gone_for_good() -> None:
    world = world_of()
    publisher, subscriber = pair_of_clients(world)
    subscriber.leave()
    world.run_for(30_000)
    publisher.publish({"a": 2})
    world.run_for(100)
    assert (subscriber.witness.welcomes, subscriber.deliveries) == (1, [])
    assert world.broker("b1").connections == 1


def test_a_frame_that_is_not_for_clients_is_a_bug() -> None:
    play = Play()
    with pytest.raises(AssertionError, match=r"broke the protocol: .* does not send Hello"):
        play.say(Hello(1, "broker", "b1", "o"))


def test_a_client_goes_on_where_it_was() -> None:
    play = Play()
    client, broker = play.client, play.broker
    client.subscribe("a = 1")
    play.run(10)
    assert broker.all(Subscribe) == [Subscribe(1, "a = 1")]
    one = bytes((0, 0, 0, 1))
    play.say(PubendNames(((0, "p"), (1, "q"))), Subscribed(1, "a = 1", ("q",), (("p", 10),)))
    play.say(Horizons(0, 10, one, is_only=True), Deliver(0, [12], [one], [b"x"]), Horizons(0, 30))
    assert broker.all(Acknowledge) == [Acknowledge(((0, 10),)), Acknowledge(((0, 30),))]
    play.reconnect()
    assert broker.all(Subscribe) == [Subscribe(1, "a = 1", (("p", 30),), resumes=True)]
    # The numbers of pubends are others now.
    play.say(PubendNames(((0, "q"), (2, "p"))), Subscribed(1, "a = 1", (), (("p", 30), ("q", 5))))
    play.say(Deliver(2, [31], [one], [b"y"]))
    assert [(delivery.pubend, delivery.tick) for delivery in client.deliveries] == [("p", 12), ("p", 31)]
    assert client.subscriptions[1].positions == {"p": 32, "q": 5}


def test_a_client_may_begin_at_ticks_that_it_states() -> None:
    play = Play()
    play.run(10)
    play.client.subscribe("a = 1", {"p": 7})
    play.run(10)
    assert play.broker.all(Subscribe) == [Subscribe(1, "a = 1", (("p", 7),))]
    play.reconnect()
    assert play.broker.all(Subscribe) == [Subscribe(1, "a = 1", (("p", 7),))]


def test_a_client_that_was_never_confirmed_does_not_resume() -> None:
    play = Play()
    play.client.subscribe("a = 1")
    play.reconnect()
    assert play.broker.all(Subscribe) == [Subscribe(1, "a = 1")]


def test_what_was_not_acknowledged_comes_again_from_the_same_publisher() -> None:
    play = Play()
    play.client.publish({"a": 1}, pubend="p")
    play.client.publish({"a": 2}, pubend="p")
    play.run(10)
    first, hellos = play.broker.all(Publish), play.broker.all(Hello)
    play.say(PublishAck(1, 100, "p"))
    play.reconnect()
    (again,) = play.broker.all(Publish)
    assert isinstance(again, Publish)
    assert isinstance(first[1], Publish)
    assert (again.first, again.bodies, again.pubend) == (2, first[1].bodies, "p")
    assert play.broker.all(Hello) == hellos
    play.say(PublishAck(2, 100, "p"))
    assert (play.client.acknowledged, play.client.unconfirmed, play.client.unsettled) == (2, 0, 0)


def test_losses_and_reasons_to_wait_are_recorded() -> None:
    play = Play()
    play.client.subscribe("a = 1")
    play.client.publish({"a": 1}, pubend="p")
    play.run(10)
    play.say(PubendNames(((3, "p"),)), HeldBack("the disk is full", 0, "p"), Lost(3, 5, 9, (1,)))
    assert (play.client.held_back, play.client.lost[0][1:]) == ("the disk is full", ("p", 5, 9, (1,)))
    assert play.client.witness.holds == ["the disk is full"]
    assert isinstance(play.client.lost[0], LostTicks)
    play.say(HeldBack("", 0, "p"))
    assert play.client.held_back == ""


def test_a_durable_subscription_acknowledges_by_habit_and_dies_without_the_rest() -> None:
    play = Play()
    number = play.client.subscribe("a = 1", durable="n", habit=(1, 1))
    play.run(10)
    play.say(PubendNames(((0, "p"),)), Subscribed(number, "a = 1", starts=(("p", 5),)))
    numbers = number.to_bytes(4)
    play.say(
        Horizons(0, 5, numbers, is_only=True), Deliver(0, [7], [numbers], [b""]), Deliver(0, [9], [numbers], [b""])
    )
    acks = [(frame.positions, frame.number) for frame in play.broker.heard if isinstance(frame, Acknowledge)]
    # One message is kept back, whatever comes behind it.
    assert acks == [(((0, 5),), number), (((0, 9),), number)]
    play.client.die(loud=True)
    assert (play.client.wanted, play.client.is_connected, play.client.deaths) == ({}, False, 1)
    record = play.client.subscriptions[number]
    assert (record.visits[0].reached, record.acknowledged[-1].tick) == ({"p": 10}, 9)
    again = play.client.subscribe("a = 1", durable="n")
    assert again == 2
    play.client.come_to("b1")
    play.run()
    asked = [frame for frame in play.broker.heard if isinstance(frame, Subscribe)]
    assert asked == [Subscribe(1, "a = 1", durable="n")], "numbers on the wire begin anew in every life"


def test_a_client_learns_that_a_name_is_forgotten_by_all_or_known_to_nobody() -> None:
    play = Play()
    for name in ("pending", "gone", "unknown"):
        play.client.forget(name)
    play.run(10)
    assert [frame.durable for frame in play.broker.heard if isinstance(frame, Forget)] == ["pending", "gone", "unknown"]
    play.say(Forgotten(1, ("p",)), Forgotten(2), Refused("forget", 3, "there is no durable subscription 'unknown'"))
    assert (sorted(play.client.forgotten), play.client.forgetting) == (["gone", "unknown"], {})
    play.client.drop(loud=True)
    play.client.forget("later")
    assert play.client.forgetting == {}
