"""Traffic for experiments with congestion: publishers that wait instead of piling up, subscribers by topic, an oracle.

A publisher offers messages at a rate. While it is held back it offers nothing, and does not make up for it later, like
an application that blocks in ``publish``. Every message has a topic, so that we know what each subscriber is owed
without any selector: the oracle that counts losses knows nothing of brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.model.body import decode_attributes, encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.sim.client import SimClient
from penstock.sim.clock import Clock

__all__ = ["Delivered", "PacedPublisher", "TopicMessages", "delivered", "subscribe_to"]

_JITTER: Final = 0.25
"""The time to the next message is up to this share shorter or longer than the mean."""
_STRIDE: Final = 101
"""Prime, so that all topics have their turn, unless their number is a multiple of it."""
_FRAME_BYTES: Final = 48
"""Overhead of a message sent alone from broker to broker, besides its body and the name of its pubend."""


class TopicMessages:
    """Messages of some topics in turn, all of the same size on the wire between brokers."""

    def __init__(self, topics: int, pubend: str, *, payload_bytes: int, wire_bytes: int) -> None:
        self.payload = bytes(payload_bytes)
        body_bytes = wire_bytes - _FRAME_BYTES - len(pubend)
        self.attributes = [_padded(topic, self.payload, body_bytes) for topic in range(topics)]


def _padded(topic: int, payload: bytes, body_bytes: int) -> Mapping[str, AttributeValue]:
    """Attributes of a topic that make a body of this size."""
    lacking = body_bytes - _body_bytes({"topic": topic, "header": ""}, payload)
    # Longer texts have longer headers, by a few bytes.
    for padding in range(lacking, lacking - 3, -1):
        attributes: dict[str, AttributeValue] = {"topic": topic, "header": "." * padding}
        if padding >= 0 and _body_bytes(attributes, payload) == body_bytes:
            return attributes
    raise AssertionError(f"no message of {body_bytes} bytes carries {len(payload)} bytes of payload")


def _body_bytes(attributes: Mapping[str, AttributeValue], payload: bytes) -> int:
    return len(encode_body(MessageId(1, 1, 0, 0), Message(dict(attributes), payload)))


class PacedPublisher:
    """Offers messages to one pubend at a rate, and waits while it is held back."""

    def __init__(self, client: SimClient, pubend: str, messages: TopicMessages, *, clock: Clock, rng: Random) -> None:
        self.client, self.pubend = client, pubend
        self._messages, self._clock, self._rng = messages, clock, rng
        self._topic = rng.randrange(len(messages.attributes))
        self._interval_us = 0.0
        self._is_running = False
        self.offered = 0
        """Messages that it wanted to publish."""

    def start(self, rate_msg_s: float) -> None:
        """Offer this many messages per second from now on."""
        self._interval_us = 1e6 / rate_msg_s
        if not self._is_running:
            self._is_running = True
            self._clock.after(int(self._rng.random() * self._interval_us), self._offer)

    def stop(self) -> None:
        """Stop offering messages."""
        self._is_running = False

    def _offer(self) -> None:
        if not self._is_running:
            return
        self.offered += 1
        client = self.client
        if client.is_connected and not client.backlog:
            messages = self._messages
            # In turn and far apart, so that subscribers to neighbouring topics get messages all the time.
            self._topic = (self._topic + _STRIDE) % len(messages.attributes)
            client.publish(messages.attributes[self._topic], messages.payload, self.pubend)
        spread = 1 - _JITTER + 2 * _JITTER * self._rng.random()
        self._clock.after(int(self._interval_us * spread), self._offer)


def subscribe_to(client: SimClient, topics: Iterable[int]) -> None:
    """Subscribe to some topics, one subscription each."""
    for topic in topics:
        client.subscribe(f"topic = {topic}")


@dataclass(slots=True)
class Delivered:
    """The outcome of everything published; the last four are 0 if all is well."""

    published: int = 0
    """Messages that were acknowledged."""
    deliveries: int = 0
    skipped: int = 0
    """Messages owed to a subscription that did not come though a later one of the pubend did, or unexpected ones."""
    missing: int = 0
    """Messages owed to a subscription after the last one that came: they are lost, or have not come yet."""
    duplicated: int = 0
    reordered: int = 0


def delivered(publishers: Iterable[PacedPublisher], subscribers: Sequence[SimClient]) -> Delivered:
    """Compare what subscribers got with what publishers say they published, topic by topic.

    Each pubend has one publisher, whose messages must come in the order in which it sent them. Messages that are not
    acknowledged yet may come or not.
    """
    found = Delivered()
    sent: dict[tuple[str, AttributeValue], list[tuple[bytes, bool]]] = {}
    for publisher in publishers:
        for each in publisher.client.published:
            is_owed = each.acked_us is not None
            found.published += is_owed
            key = (publisher.pubend, decode_attributes(each.body)["topic"])
            sent.setdefault(key, []).append((each.body[:16], is_owed))
    pubends = list(dict.fromkeys(pubend for pubend, _ in sent))
    for client in subscribers:
        got: dict[tuple[str, int], list[bytes]] = {}
        for delivery in client.deliveries:
            got.setdefault((delivery.pubend, delivery.subscription), []).append(delivery.body[:16])
        for number, record in client.subscriptions.items():
            topic = int(record.selector.removeprefix("topic = "))
            for pubend in pubends:
                _compare(found, sent.get((pubend, topic), []), got.pop((pubend, number), []))
        found.skipped += sum(map(len, got.values()))
    return found


def _compare(found: Delivered, sent: list[tuple[bytes, bool]], got: list[bytes]) -> None:
    places = {message: place for place, (message, _) in enumerate(sent)}
    found.deliveries += len(got)
    seen: set[bytes] = set()
    last = -1
    for message in got:
        place = places.get(message)
        if place is None:
            found.skipped += 1
        elif message in seen:
            found.duplicated += 1
        elif place < last:
            found.reordered += 1
        last = max(last, -1 if place is None else place)
        seen.add(message)
    for place, (message, is_owed) in enumerate(sent):
        if is_owed and message not in seen:
            found.skipped += place < last
            found.missing += place > last
