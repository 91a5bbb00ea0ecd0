"""Runs the publishers and subscribers, and keeps the ledger of what each has sent and received.

After its last quote each publisher sends a mark, to which every subscriber subscribes as well. Messages of a publisher
arrive in order: once a subscriber has the mark, every earlier message has arrived, or never will.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story.market import FILLING, MARK, SENT_AT, Feed, Market, with_mark
from penstock.client.client import Client
from penstock.client.subscription import Subscription
from penstock.session.received import Received
from penstock.sim.workloads.quotes import Publication

__all__ = ["Connect", "Crowd", "Member", "Publisher"]

Connect: TypeAlias = Callable[[str, str], Client]
"""Makes a client, not connected yet, from an address and a name."""
_BEAT_S: Final = 0.05
"""Time between two batches of a publisher."""
_LATE_S_MAX: Final = 0.25
"""The most time that a delayed publisher makes up for."""
_AT_ONCE: Final = 20
"""Subscribers that join at the same time."""


@dataclass(slots=True)
class Member:
    """One subscriber and what it received."""

    name: str
    selector: str
    is_durable: bool = False
    ids: list[bytes] = field(default_factory=list)
    latencies_ns: array[int] = field(default_factory=lambda: array("q"))
    damaged: int = 0
    """Messages whose payload is not what was published."""
    marks: int = 0
    client: Client | None = None
    subscription: Subscription | None = None

    @property
    def broker(self) -> str:
        """The broker it is connected to now."""
        return self.client.broker if self.client is not None else ""

    async def join(self, client: Client) -> None:
        """Subscribe, and wait until the subscription is in force."""
        durable = self.name if self.is_durable else ""
        self.client = client
        self.subscription = client.subscribe(with_mark(self.selector), durable=durable)
        await self.subscription.ready()

    def on_batch(self, batch: Sequence[Received]) -> None:
        """Record received messages and their latencies."""
        now_ns = time.time_ns()
        for received in batch:
            self.ids.append(received.id.to_bytes())
            payload = received.payload
            if payload[SENT_AT.size :] == FILLING:
                self.latencies_ns.append(now_ns - SENT_AT.unpack_from(payload)[0])
            else:
                self.damaged += 1
            if MARK in received.attributes:
                self.marks += 1


class Publisher:
    """Publishes one feed, no faster than the broker acknowledges it."""

    def __init__(self, feed: Feed, client: Client, quotes: Iterator[Publication], sent: list[SentMessage]) -> None:
        self.feed: Final = feed
        self.client: Final = client
        self._quotes, self._sent = quotes, sent

    @property
    def published(self) -> int:
        """Messages that the broker has acknowledged."""
        return self.client.counters.acknowledged

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until told to stop; the last message is a mark."""
        due_s = time.perf_counter()
        while not stop.is_set():
            now_s = time.perf_counter()
            due_s = max(due_s, now_s - _LATE_S_MAX)
            count = int((now_s - due_s) * self.feed.rate)
            due_s += count / self.feed.rate
            for quote in islice(self._quotes, count):
                await self._publish(quote)
            # Pending acknowledgements hold up the next messages: so a limit at the broker also limits the feed.
            await self.client.flush()
            await asyncio.sleep(_BEAT_S)
        await self._publish({MARK: self.feed.name})
        await self.client.flush()

    async def _publish(self, attributes: Publication) -> None:
        payload = SENT_AT.pack(time.time_ns()) + FILLING
        message_id = await self.client.publish(attributes, payload, pubend=self.feed.pubend)
        self._sent.append(SentMessage(message_id, attributes))


class Crowd:
    """All publishers and subscribers, and what they have done so far."""

    def __init__(self, market: Market, *, durable: int) -> None:
        self.market: Final = market
        self.members = [
            Member(f"subscriber-{number:03}", selector, number <= durable)
            for number, selector in enumerate(market.selectors, start=1)
        ]
        self.publishers: list[Publisher] = []
        self.sent: list[SentMessage] = []
        self.delivered_by: Counter[str] = Counter()
        """Deliveries by broker: the one where the subscriber was at the time."""

    @property
    def published(self) -> int:
        """Messages that the brokers have acknowledged."""
        return sum(each.published for each in self.publishers)

    @property
    def delivered(self) -> int:
        """Deliveries to all subscribers together."""
        return self.delivered_by.total()

    @property
    def is_done(self) -> bool:
        """Whether every subscriber has the last message of every publisher."""
        return all(each.marks >= len(self.publishers) for each in self.members)

    @property
    def moves(self) -> int:
        """How often subscribers were moved from one broker to another."""
        return sum(each.client.counters.moves for each in self.members if each.client is not None)

    def clients_by_broker(self) -> Counter[str]:
        """How many subscribers are at each broker now."""
        return Counter(each.broker for each in self.members if each.broker)

    async def join(self, stack: AsyncExitStack, url: str, *, connect: Connect) -> None:
        """Connect all subscribers to one broker, some at a time."""
        for first in range(0, len(self.members), _AT_ONCE):
            some = self.members[first : first + _AT_ONCE]
            clients = [await stack.enter_async_context(connect(url, each.name)) for each in some]
            await asyncio.gather(*(each.join(client) for each, client in zip(some, clients, strict=True)))

    async def hire(self, stack: AsyncExitStack, url: str, *, connect: Connect) -> None:
        """Connect the publishers."""
        for feed in self.market.feeds:
            client = await stack.enter_async_context(connect(url, f"feed-{feed.name}"))
            self.publishers.append(Publisher(feed, client, self.market.quotes(feed), self.sent))

    async def read(self, member: Member) -> None:
        """Read what one subscriber gets, until its subscription ends."""
        assert member.subscription is not None, "has not joined"
        async for batch in member.subscription.batches():
            self.delivered_by[member.broker] += len(batch)
            member.on_batch(batch)
