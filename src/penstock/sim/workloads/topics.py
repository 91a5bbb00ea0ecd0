"""The topic workload of the message tracking paper: 200 publishers, 500 subscribers, 500 topics, 5,000 messages/s.

Each publisher publishes to ten topics, in turn and at an even pace; each subscriber wants one topic, drawn at random,
so that some topics have no subscriber. Everything follows from the generator that is passed in: a longer list of
publications begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count as naturals
from itertools import islice
from random import Random
from typing import Final, NamedTuple

from penstock.model.errors import MisuseError
from penstock.model.values import AttributeValue

__all__ = ["TopicPublication", "TopicWorkload"]

_TOPICS_PER_PUBLISHER: Final = 10


class TopicPublication(NamedTuple):
    """One future message."""

    at_us: int
    """Microseconds after the start."""
    publisher: int
    """Number of the publisher, from 0."""
    attributes: dict[str, AttributeValue]
    payload: bytes


class TopicWorkload:
    """Who publishes what and when, and who subscribes to it."""

    def __init__(
        self,
        rng: Random,
        *,
        publishers: int = 200,
        subscribers: int = 500,
        topics: int = 500,
        rate: float = 5_000.0,
        payload_bytes: int = 100,
    ) -> None:
        """Share out the topics; ``rate`` is in messages per second, of all publishers together."""
        for what, value in (("publishers", publishers), ("subscribers", subscribers), ("topics", topics)):
            if value < 1:
                raise MisuseError(f"{what} is {value}, but must be at least 1")
        if rate <= 0 or payload_bytes < 0:
            raise MisuseError(f"rate {rate} must be positive, payload_bytes {payload_bytes} not negative")
        self.publishers, self.subscribers, self.rate = publishers, subscribers, rate
        self.topics = tuple(f"topic-{number:03d}" for number in range(topics))
        seeds = [rng.getrandbits(64) for _ in range(3)]
        self._subscribed = Random(seeds[0]).choices(self.topics, k=subscribers)
        self._published = _shared_out(self.topics, publishers, Random(seeds[1]))
        self._order = Random(seeds[2]).sample(range(publishers), k=publishers)
        self._payload = bytes(payload_bytes)

    def subscriptions(self) -> list[str]:
        """The selector of each subscriber."""
        return [f"topic = '{topic}'" for topic in self._subscribed]

    def topics_of(self, publisher: int) -> tuple[str, ...]:
        """The topics of one publisher, in the order in which it serves them."""
        return self._published[publisher]

    def publications(self, count: int) -> Iterator[TopicPublication]:
        """Messages in order of time: publishers take turns, so each keeps its share of the rate."""
        return islice(self._endless(), count)

    def _endless(self) -> Iterator[TopicPublication]:
        for number in naturals():
            turn, place = divmod(number, self.publishers)
            publisher = self._order[place]
            topics = self._published[publisher]
            attributes: dict[str, AttributeValue] = {"topic": topics[turn % len(topics)], "number": number}
            yield TopicPublication(int(number * 1_000_000 / self.rate), publisher, attributes, self._payload)


def _shared_out(topics: tuple[str, ...], publishers: int, rng: Random) -> list[tuple[str, ...]]:
    """Ten topics for each publisher, dealt like cards, so that all topics get the same share as far as it divides."""
    each = min(_TOPICS_PER_PUBLISHER, len(topics))
    hands: list[tuple[str, ...]] = []
    deck: list[str] = []
    for _ in range(publishers):
        hand: dict[str, None] = {}
        while len(hand) < each:
            deck = deck or rng.sample(topics, k=len(topics))
            hand[deck.pop()] = None
        hands.append(tuple(hand))
    return hands
