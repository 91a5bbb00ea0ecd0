"""Publishers and subscribers of ``delivery-kill9``: ordinary clients that recover by themselves when brokers die.

Other experiments have the same in another layout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.delivery.kill9.oracle import DeliveryVerdict, Ledger, Reading, judge
from penstock.lab.delivery.kill9.plan import BROKERS, HOSTS, PLAN, SELECTORS, SOURCES, draw_quote
from penstock.lab.demo_overlay import DemoOverlay
from penstock.session.received import Received
from penstock.session.settings import ClientSettings

__all__ = ["LAYOUT", "Layout", "OnReceived", "PublisherPlace", "Subscriber", "SubscriberPlace", "Traffic", "trading"]

OnReceived: TypeAlias = Callable[[str, str, float], None]
"""Called for a received message with its host, its source, and the time of publication."""

_ANYWHERE: Final = tuple(each for each in BROKERS if each not in SOURCES)


@dataclass(slots=True, frozen=True)
class PublisherPlace:
    """Where a publisher publishes."""

    source: str
    """The name under which the arrival of its messages is reported."""
    pubend: str
    doors: tuple[str, ...]
    """The brokers where it tries to connect, in turn."""


@dataclass(slots=True, frozen=True)
class SubscriberPlace:
    """Where a subscriber listens, and what it wants."""

    host: str
    selector: str
    reports: bool = False
    """Whether it reports what it receives."""
    durable: str = ""
    """The durable name of the subscription, if it has one."""


@dataclass(slots=True, frozen=True)
class Layout:
    """All publishers and subscribers of an experiment."""

    publishers: tuple[PublisherPlace, ...]
    subscribers: tuple[SubscriberPlace, ...]


LAYOUT: Final = Layout(
    tuple(
        PublisherPlace(source, pubend, doors)
        for source in SOURCES
        for pubend, doors in zip(PLAN.pubends[source] * 2, ((source,),) * 2 + (_ANYWHERE, BROKERS), strict=True)
    ),
    tuple(
        SubscriberPlace(host, selector, reports=selector == SELECTORS[0]) for host in HOSTS for selector in SELECTORS
    ),
)
"""Each pubend has a publisher that stays at its broker, and one that goes wherever it is let in.

At each host, the subscriber to everything reports what it receives.
"""
_PATIENT: Final = ClientSettings(backoff_max_ms=500, close_ms=1_000)
_TURN_S: Final = 0.01
_POLL_S: Final = 0.02
_PAYLOAD: Final = bytes(range(100))


class Subscriber:
    """One subscriber, and the messages it got from each publisher."""

    def __init__(
        self,
        number: int,
        subscription: Subscription,
        ledger: Ledger,
        on_received: OnReceived | None = None,
        *,
        layout: Layout = LAYOUT,
    ) -> None:
        self.number, self.subscription = number, subscription
        self._ledger, self._on_received = ledger, on_received
        self._layout = layout
        self.readings = [Reading() for _ in layout.publishers]
        self.strange = 0
        """Received messages that differ from all published ones."""

    async def read(self) -> None:
        """Read messages until cancelled."""
        async for batch in self.subscription.batches():
            for received in batch:
                self._take(received)

    def _take(self, received: Received) -> None:
        found = self._ledger.find(received.attributes)
        if found is None or received.payload != _PAYLOAD:
            self.strange += 1
            return
        publisher, number, published_s = found
        self.readings[publisher].add(number)
        if self._on_received is not None:
            layout = self._layout
            self._on_received(layout.subscribers[self.number].host, layout.publishers[publisher].source, published_s)

    def lacks(self) -> int:
        """The number of messages it still has to get, if all published ones are acknowledged."""
        wanted = sum(len(self._ledger.fitting(self.number, publisher)) for publisher in range(len(self.readings)))
        return wanted - sum(len(reading.numbers) for reading in self.readings)


class Traffic:
    """All publishers and subscribers, and the ledger of what was published."""

    def __init__(
        self,
        ledger: Ledger,
        publishers: list[Client],
        readers: list[Client],
        subscribers: list[Subscriber],
        *,
        layout: Layout = LAYOUT,
    ) -> None:
        self.ledger, self.subscribers = ledger, subscribers
        self._layout = layout
        self._publishers, self._readers = publishers, readers
        self._is_enough = False

    @property
    def acked(self) -> int:
        """Messages that were acknowledged."""
        return sum(self._acked(publisher) for publisher in range(len(self._publishers)))

    @property
    def strange(self) -> int:
        """Received messages that differ from all published ones."""
        return sum(each.strange for each in self.subscribers)

    @property
    def repeated(self) -> int:
        """Duplicates that client libraries have hidden from their applications."""
        return sum(client.counters.repeated for client in self._readers)

    @property
    def delivered(self) -> int:
        """Messages that subscribers received, all together."""
        return sum(len(reading.numbers) for each in self.subscribers for reading in each.readings)

    async def publish(self, rng: Random, rate: float, seconds: float) -> None:
        """Publish for some seconds, or until it is enough, at a rate for all publishers together."""
        self._is_enough = False
        share = rate / len(self._publishers)
        seeds = [rng.getrandbits(64) for _ in self._publishers]
        work = [self._publish(number, Random(seed), share, seconds) for number, seed in enumerate(seeds)]
        await asyncio.gather(*work)

    def enough(self) -> None:
        """Let ``publish`` return now."""
        self._is_enough = True

    async def settle(self) -> None:
        """Wait until all messages are acknowledged, and every subscriber has what it should have."""
        await asyncio.gather(*(client.flush() for client in self._publishers))
        while any(each.lacks() > 0 for each in self.subscribers):
            await asyncio.sleep(_POLL_S)

    def verdicts(self) -> dict[tuple[int, int], DeliveryVerdict]:
        """Errors in the received messages, by subscriber and publisher."""
        return {
            (each.number, publisher): judge(
                self.ledger.fitting(each.number, publisher), self._acked(publisher), each.readings[publisher]
            )
            for each in self.subscribers
            for publisher in range(len(self._publishers))
        }

    def describe(self, subscriber: int, publisher: int) -> str:
        """Describe a subscriber and a publisher in words."""
        listening = self._layout.subscribers[subscriber]
        publishing = self._layout.publishers[publisher]
        where = f"publisher {publisher} to {publishing.pubend} at {' or '.join(publishing.doors)}"
        return f"subscriber {subscriber} at {listening.host} ({listening.selector}), {where}"

    def _acked(self, publisher: int) -> int:
        # Clients number messages as the ledger does, and brokers acknowledge in order; if a message were refused or
        # given up, the next flush would raise.
        return self._publishers[publisher].counters.acknowledged

    async def _publish(self, number: int, rng: Random, rate: float, seconds: float) -> None:
        client, pubend = self._publishers[number], self._layout.publishers[number].pubend
        started_s, sent = time.monotonic(), 0
        while (elapsed_s := time.monotonic() - started_s) < seconds and not self._is_enough:
            for _ in range(int(elapsed_s * rate) + 1 - sent):
                message = self.ledger.issue(number, draw_quote(rng), now_s=time.monotonic())
                await client.publish(message, _PAYLOAD, pubend=pubend)
                sent += 1
            await asyncio.sleep(_TURN_S)


@asynccontextmanager
async def trading(overlay: DemoOverlay, on_received: OnReceived, layout: Layout = LAYOUT) -> AsyncIterator[Traffic]:
    """Connect publishers, and subscribers that miss nothing from now on."""
    ledger = Ledger(len(layout.publishers), [place.selector for place in layout.subscribers])
    pubends = {place.pubend for place in layout.publishers}
    async with AsyncExitStack() as stack:

        async def client(brokers: Sequence[str], name: str) -> Client:
            made = connect(",".join(map(overlay.url, brokers)), name=name, settings=_PATIENT)
            await made.open()
            # No flush: messages not acknowledged by now have been judged already.
            stack.push_async_callback(made.close, flush=False)
            return made

        readers = [
            await client([place.host], f"subscriber-{number}") for number, place in enumerate(layout.subscribers)
        ]
        subscribers = []
        for number, place in enumerate(layout.subscribers):
            subscription = readers[number].subscribe(place.selector, durable=place.durable)
            listener = on_received if place.reports else None
            subscribers.append(Subscriber(number, subscription, ledger, listener, layout=layout))
        for each in subscribers:
            await each.subscription.ready()
            while not pubends <= each.subscription.starts.keys():
                await asyncio.sleep(_POLL_S)
        publishers = [
            await client(place.doors, f"publisher-{number}") for number, place in enumerate(layout.publishers)
        ]
        yield Traffic(ledger, publishers, readers, subscribers, layout=layout)
