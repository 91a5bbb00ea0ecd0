"""Publishers that wait, messages of one size, and an oracle that knows nothing of brokers."""

from __future__ import annotations

from random import Random

import pytest

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol.data_frames import KnowledgeMessage
from penstock.sim.client import SimClient
from penstock.sim.congestion_traffic import Delivered, PacedPublisher, TopicMessages, delivered, subscribe_to
from penstock.sim.verdict import judge
from penstock.sim.world import World


@pytest.mark.parametrize(("topics", "pubend"), [(250, "PB.1"), (300, "a-long-name"), (1, "p")])
def test_messages_of_all_topics_take_the_same_on_the_wire(topics: int, pubend: str) -> None:
    messages = TopicMessages(topics, pubend, payload_bytes=100, wire_bytes=360)
    assert len(messages.attributes) == topics
    for attributes in messages.attributes:
        body = encode_body(MessageId(7, 1, 5, 5), Message(dict(attributes), messages.payload))
        assert KnowledgeMessage(pubend, 1, 2, [2], [body]).size == 360


def test_a_size_that_does_not_hold_the_payload_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="carries 400 bytes of payload"):
        TopicMessages(1, "p", payload_bytes=400, wire_bytes=360)


def world_of(*, rate: float = 50.0, ms: int = 2_000) -> tuple[PacedPublisher, list[SimClient], World]:
    world = World(1)
    world.add_overlay([("a", "b")], guaranteed=True)
    client = world.add_client("p", "a")
    subscribers = [world.add_client(f"s{number}", "b") for number in range(2)]
    subscribe_to(subscribers[0], range(5))
    subscribe_to(subscribers[1], (3, 4))
    world.run_until_ready()
    world.run_for(1_000)
    messages = TopicMessages(5, "a-pubend", payload_bytes=10, wire_bytes=200)
    publisher = PacedPublisher(client, "a-pubend", messages, clock=world.clock, rng=Random(1))
    publisher.start(rate)
    world.run_for(ms)
    publisher.stop()
    world.run_for(2_000)
    return publisher, subscribers, world


def test_a_publisher_keeps_its_rate_and_everything_comes() -> None:
    publisher, subscribers, _ = world_of()
    assert 95 <= publisher.offered <= 105
    found = delivered([publisher], subscribers)
    assert found == Delivered(publisher.offered, found.deliveries)
    # Topics come in turn: of five the second subscriber wants two.
    assert found.deliveries == pytest.approx(1.4 * found.published, abs=3)


def test_the_oracle_agrees_with_the_verdict_of_the_delivery_campaign() -> None:
    publisher, subscribers, _ = world_of()
    verdict = judge([publisher.client], subscribers)
    found = delivered([publisher], subscribers)
    assert verdict.is_sound
    assert (verdict.acknowledged, verdict.delivered) == (found.published, found.deliveries)


def test_what_could_not_be_published_is_not_published_later() -> None:
    publisher, _, world = world_of()
    publisher.start(100)
    world.run_for(1_000)
    client = publisher.client
    (queue,) = client.session.publishing
    queue.hold_back("slow", 1)
    sent = len(client.published)
    offered = publisher.offered
    # One at a time may be under way: acknowledgements take up to a quarter of a second.
    world.run_for(1_000)
    assert publisher.offered - offered > 90
    assert len(client.published) - sent < 60
    queue.hold_back("", 0)
    sent = len(client.published)
    world.run_for(1_000)
    assert len(client.published) - sent <= 110


def test_the_oracle_finds_what_is_wrong() -> None:
    publisher, subscribers, _ = world_of()
    client = subscribers[1]
    good = list(client.deliveries)
    assert delivered([publisher], subscribers).missing == 0
    client.deliveries[:] = good[:5] + good[6:]
    assert delivered([publisher], subscribers).skipped == 1
    client.deliveries[:] = good[:-4]
    assert delivered([publisher], subscribers).missing == 4
    client.deliveries[:] = [*good, good[3]]
    assert delivered([publisher], subscribers).duplicated == 1
    client.deliveries[:] = [*good[2:4], *good[:2], *good[4:]]
    assert delivered([publisher], subscribers).reordered == 2
    client.deliveries[:] = [*good, good[0]._replace(body=bytes(100))]
    assert delivered([publisher], subscribers).skipped == 1
    client.deliveries[:] = [*good, good[0]._replace(subscription=99)]
    assert delivered([publisher], subscribers).skipped == 1
