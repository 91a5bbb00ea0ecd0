"""Publishers and subscribers of ``balancing-live``: ordinary clients, and an oracle that knows what each must get.

Subscribers join while quotes are published. When a subscription is in force at all pubends, we note outside the brokers
how much has been published so far: all later quotes are owed. Earlier quotes may arrive or not, but once one has
arrived, none after it may be missing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Final

from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.balancing.live.plan import EDGES, HEAD, PAYLOAD, PUBENDS, SELECTORS, draw_quote
from penstock.lab.delivery.kill9.oracle import DeliveryVerdict, Ledger, Reading, judge
from penstock.lab.demo_overlay import DemoOverlay
from penstock.session.settings import ClientSettings

__all__ = ["Subscriber", "Traffic", "owed", "trading"]

_PATIENT: Final = ClientSettings(backoff_max_ms=500, close_ms=1_000)
_STAYS: Final = ClientSettings(backoff_max_ms=500, close_ms=1_000, pinned=True)
_BEHIND_MAX: Final = 5
"""The most late quotes that a publisher makes up for: a machine may be late for a moment."""
_POLL_S: Final = 0.02


def owed(fitting: Sequence[int], floor: int, got: Sequence[int]) -> list[int]:
    """The numbers that a subscriber must get: those above the floor, and all from the first one it got.

    >>> owed([2, 4, 6, 8], 5, [4, 6, 8]), owed([2, 4, 6, 8], 5, [])
    ([4, 6, 8], [6, 8])
    """
    first = min([floor + 1, *got[:1]])
    return [number for number in fitting if number >= first]


class Subscriber:
    """One subscriber, the messages it got from each publisher, and the brokers it was at."""

    def __init__(self, client: Client, selector: int, subscription: Subscription, ledger: Ledger) -> None:
        self.client, self.selector, self.subscription = client, selector, subscription
        self._ledger = ledger
        self.floors = [0] * len(PUBENDS)
        """For each publisher, the number of the last quote that is not owed."""
        self.readings = [Reading() for _ in PUBENDS]
        self.trail: list[str] = []
        """The brokers at which it was seen, in order."""
        self.strange = 0
        """Received messages that differ from all published ones."""

    async def read(self) -> None:
        """Read messages until cancelled."""
        async for batch in self.subscription.batches():
            for received in batch:
                found = self._ledger.find(received.attributes)
                if found is None or received.payload != PAYLOAD or received.pubend != PUBENDS[found[0]]:
                    self.strange += 1
                else:
                    self.readings[found[0]].add(found[1])

    def look(self) -> str:
        """Return its current broker, and record it in the trail."""
        broker = self.client.broker
        if self.trail[-1:] != [broker]:
            self.trail.append(broker)
        return broker

    def owed(self, publisher: int) -> list[int]:
        """The numbers of a publisher's quotes that it must get."""
        fitting = self._ledger.fitting(self.selector, publisher)
        return owed(fitting, self.floors[publisher], self.readings[publisher].numbers)

    def lacks(self) -> bool:
        """Whether an owed quote has not arrived."""
        return any(
            len(self.owed(publisher)) > len(set(reading.numbers)) for publisher, reading in enumerate(self.readings)
        )


class Traffic:
    """All publishers and subscribers, and the ledger of what was published."""

    def __init__(self, overlay: DemoOverlay, publishers: list[Client], askers: dict[str, Client]) -> None:
        self.askers = askers
        """For each edge, a client that asks for its status."""
        self.ledger = Ledger(len(PUBENDS), SELECTORS)
        self.subscribers: list[Subscriber] = []
        self._overlay, self._publishers = overlay, publishers
        self._issued = [0] * len(PUBENDS)
        self._is_over = False

    @property
    def delivered(self) -> int:
        """Messages that subscribers received, all together."""
        return sum(len(reading.numbers) for each in self.subscribers for reading in each.readings)

    @property
    def migrations(self) -> int:
        """How often subscribers were moved."""
        return sum(each.client.counters.moves for each in self.subscribers)

    def census(self) -> dict[str, int]:
        """How many subscribers each edge has."""
        found = Counter(each.look() for each in self.subscribers)
        return {edge: found[edge] for edge in EDGES}

    async def join(self, edge: str) -> Subscriber:
        """Add a subscriber at this edge, and wait until its subscription is in force."""
        number = len(self.subscribers)
        client = await connect(self._overlay.url(edge), name=f"subscriber-{number}", settings=_PATIENT).open()
        selector = number % len(SELECTORS)
        subscription = client.subscribe(SELECTORS[selector])
        subscriber = Subscriber(client, selector, subscription, self.ledger)
        self.subscribers.append(subscriber)
        await subscription.ready()
        while not set(PUBENDS) <= subscription.starts.keys():
            await asyncio.sleep(_POLL_S)
        subscriber.floors = list(self._issued)
        return subscriber

    async def publish(self, rng: Random, rate: float) -> None:
        """Publish at a rate, all publishers together, until ``stop``."""
        seeds = [rng.getrandbits(64) for _ in PUBENDS]
        await asyncio.gather(
            *(self._publish(number, Random(seed), rate / len(PUBENDS)) for number, seed in enumerate(seeds))
        )

    def stop(self) -> None:
        """Stop publishing."""
        self._is_over = True

    async def settle(self, seconds: float) -> bool:
        """Wait until all messages are acknowledged and all owed ones received; False if that takes too long."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(client.flush() for client in self._publishers))
                while any(each.lacks() for each in self.subscribers):
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True

    def verdicts(self) -> list[DeliveryVerdict]:
        """Errors in the received messages, for each subscriber and publisher."""
        return [
            judge(each.owed(number), client.counters.acknowledged, each.readings[number])
            for each in self.subscribers
            for number, client in enumerate(self._publishers)
        ]

    async def _publish(self, publisher: int, rng: Random, rate: float) -> None:
        client, pubend = self._publishers[publisher], PUBENDS[publisher]
        # Publishers do not all start at the same moment.
        due_s = time.monotonic() + publisher / len(PUBENDS) / rate
        while not self._is_over:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            due_s = max(due_s, time.monotonic() - _BEHIND_MAX / rate) + 1 / rate
            quote = draw_quote(rng, self._issued[publisher])
            self._issued[publisher] += 1
            message = self.ledger.issue(publisher, quote, now_s=time.monotonic())
            await client.publish(message, PAYLOAD, pubend=pubend)


@asynccontextmanager
async def trading(overlay: DemoOverlay) -> AsyncIterator[Traffic]:
    """Connect publishers, and a client to ask each edge; subscribers join later."""
    async with AsyncExitStack() as stack:

        async def client(broker: str, name: str) -> Client:
            made = await connect(overlay.url(broker), name=name, settings=_STAYS).open()
            # No flush: messages not acknowledged by now have been judged already.
            stack.push_async_callback(made.close, flush=False)
            return made

        publishers = [await client(HEAD, f"publisher-{number}") for number in range(len(PUBENDS))]
        traffic = Traffic(overlay, publishers, {edge: await client(edge, f"asker-{edge}") for edge in EDGES})
        try:
            yield traffic
        finally:
            await asyncio.gather(*(each.client.close(flush=False) for each in traffic.subscribers))
