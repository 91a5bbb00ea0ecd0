"""What happens in a demo: publishers of quotes at one broker, subscribers with selectors at two others.

After its last quote each publisher sends a mark, which every subscriber asks for as well. Messages of a publisher
arrive in order: with the mark a subscriber knows that whatever came before it has arrived, or never will.
"""

from __future__ import annotations

import asyncio
import re
import struct
import time
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, Final, NoReturn

from penstock.cli.demo_verdict import SentMessage
from penstock.client import Client, Received, connect
from penstock.lab.demo_overlay import DemoOverlay
from penstock.sim.workloads import QuoteWorkload
from penstock.sim.workloads.quotes import Publication

__all__ = ["DemoSettings", "DemoSubscriber", "Tally", "assigned", "demo_selectors", "play"]

_PUBLISHING: Final = "pb1"
_SUBSCRIBING: Final = ("sb1", "sb2")
_PUBLISHERS: Final = 2
_MARK: Final = "demo_mark"
_TAIL_S_MAX: Final = 30.0
"""What has not arrived so long after the last publication is lost."""
_PAUSE_S: Final = 0.005
_LOOK_S: Final = 0.5
_QUOTES: Final = 10_000
_SENT_AT: Final = struct.Struct(">Q")
_FILLING: Final = bytes(range(100 - _SENT_AT.size))


@dataclass(slots=True, frozen=True)
class DemoSettings:
    """How large, how fast and how long."""

    seconds: float = 20.0
    rate: float = 500.0
    """Messages per second, of all publishers together."""
    subscribers: int = 20
    seed: int = 0


@dataclass(slots=True)
class DemoSubscriber:
    """One subscriber and what it got."""

    broker: str
    selector: str
    ids: list[bytes] = field(default_factory=list)
    latencies_ns: list[int] = field(default_factory=list)
    damaged: int = 0
    """Messages whose payload is not what was published."""

    def on_batch(self, batch: list[Received]) -> None:
        """Note what has come, and how long it took."""
        now_ns = time.time_ns()
        for received in batch:
            self.ids.append(received.id.to_bytes())
            payload = received.payload
            if payload[_SENT_AT.size :] == _FILLING:
                self.latencies_ns.append(now_ns - _SENT_AT.unpack_from(payload)[0])
            else:
                self.damaged += 1


@dataclass(slots=True)
class Tally:
    """How far the demo has come."""

    subscribers: list[DemoSubscriber]
    sent: list[SentMessage] = field(default_factory=list)
    brokers: dict[str, dict[str, int]] = field(default_factory=dict)
    """What each broker counts: published, forwarded, delivered."""
    publishing_s: float = 0.0

    @property
    def delivered(self) -> int:
        """Deliveries to all subscribers together."""
        return sum(len(each.ids) for each in self.subscribers)


def demo_selectors(workload: QuoteWorkload, count: int) -> list[str]:
    """Selectors of the six templates: each template once as far as the count goes, then in the shares of the paper."""
    texts = list(workload.subscriptions(max(count, 100)))
    firsts: dict[str, int] = {}
    for place, text in enumerate(texts):
        firsts.setdefault(re.sub(r"'[^']*'|[\d.]+", "?", text), place)
    order = dict.fromkeys([*firsts.values(), *range(len(texts))])
    return [texts[place] for place in order][:count]


def assigned(selectors: Iterable[str]) -> list[DemoSubscriber]:
    """Subscribers with these selectors, in turn at one broker and the other."""
    return [DemoSubscriber(broker, selector) for selector, broker in zip(selectors, cycle(_SUBSCRIBING), strict=False)]


async def play(overlay: DemoOverlay, settings: DemoSettings, workload: QuoteWorkload, tally: Tally) -> None:
    """Publish and subscribe to the end; ``tally`` is filled on the way, for who looks on."""
    await overlay.linked()
    async with AsyncExitStack() as stack:

        async def client(broker: str, name: str) -> Client:
            return await stack.enter_async_context(connect(overlay.url(broker), name=name))

        monitors = {name: await client(name, f"monitor-{name}") for name in overlay.plan.pubends}
        numbered = list(enumerate(tally.subscribers, start=1))
        readers = [_Reader(each, await client(each.broker, f"subscriber-{number}")) for number, each in numbered]
        await asyncio.gather(*(each.ready() for each in readers))
        quotes = workload.sample(_QUOTES)
        publishers = [
            _Publisher(await client(_PUBLISHING, f"publisher-{turn + 1}"), quotes[turn::_PUBLISHERS], tally)
            for turn in range(_PUBLISHERS)
        ]
        work = _publish(publishers, readers, settings, tally)
        await _unless_failed(work, _look(overlay, monitors, tally), *(each.read() for each in readers))
        await _count(monitors, tally)


class _Reader:
    """Reads what one subscriber gets, and watches for the marks."""

    def __init__(self, subscriber: DemoSubscriber, client: Client) -> None:
        self._subscriber = subscriber
        self._quotes = client.subscribe(subscriber.selector)
        self._marks = client.subscribe(f"{_MARK} IS NOT NULL")

    async def ready(self) -> None:
        await self._quotes.ready()
        await self._marks.ready()

    async def read(self) -> None:
        async for batch in self._quotes.batches():
            self._subscriber.on_batch(batch)

    async def finish(self) -> None:
        """Wait for all marks, then until what came before them has been read."""
        for _ in range(_PUBLISHERS):
            await self._marks.get()
        while self._quotes.queued:
            await asyncio.sleep(0)


class _Publisher:
    """Publishes quotes, and remembers them."""

    def __init__(self, client: Client, quotes: list[Publication], tally: Tally) -> None:
        self._client, self._quotes, self._tally = client, cycle(quotes), tally

    async def publish(self, seconds: float, rate: float) -> None:
        started_s = time.perf_counter()
        sent = 0
        while (elapsed_s := time.perf_counter() - started_s) < seconds:
            for quote in islice(self._quotes, int(elapsed_s * rate) + 1 - sent):
                payload = _SENT_AT.pack(time.time_ns()) + _FILLING
                self._tally.sent.append(SentMessage(await self._client.publish(quote, payload), quote))
                sent += 1
            await asyncio.sleep(_PAUSE_S)
        await self._client.flush()

    async def mark(self) -> None:
        await self._client.publish({_MARK: 1})
        await self._client.flush()


async def _publish(publishers: list[_Publisher], readers: list[_Reader], settings: DemoSettings, tally: Tally) -> None:
    started_s = time.perf_counter()
    share = settings.rate / len(publishers)
    await asyncio.gather(*(each.publish(settings.seconds, share) for each in publishers))
    tally.publishing_s = time.perf_counter() - started_s
    await asyncio.gather(*(each.mark() for each in publishers))
    with suppress(TimeoutError):
        async with asyncio.timeout(_TAIL_S_MAX):
            await asyncio.gather(*(each.finish() for each in readers))


async def _look(overlay: DemoOverlay, monitors: dict[str, Client], tally: Tally) -> NoReturn:
    """Ask the brokers what they count, and see that none of them has ended."""
    while True:
        overlay.check()
        await _count(monitors, tally)
        await asyncio.sleep(_LOOK_S)


async def _count(monitors: dict[str, Client], tally: Tally) -> None:
    for name, client in monitors.items():
        tally.brokers[name] = (await client.status())["counts"]


async def _unless_failed(work: Coroutine[Any, Any, None], *endless: Coroutine[Any, Any, None]) -> None:
    """Do the work to its end, unless something beside it fails; then nothing goes on."""
    tasks = [asyncio.create_task(each) for each in (work, *endless)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
