"""A square surge of publishers on several live brokers under one limit, measured at a subscriber (decision record 11).

Broker processes run on loopback with a ``[limit]`` table in their file. Messages over a publisher's quota wait at its
broker and, by back-pressure, at the publisher: nothing is lost. One publisher connects in the middle of the surge.

An epoch of 200 ms has only some fifty messages, so a broker reports its shares more often than by default.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from penstock.ajil.amounts import Floats
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.lab.ajil.charts import dress
from penstock.lab.ajil.live.multicast import settled_figures, surge_panel
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.values import AttributeValue
from penstock.session.settings import ClientSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AJIL_LIVE_OVERLAY"]

_EPOCH_S: Final = 0.2
_LIMIT_BYTES_S: Final = 60_000
_BASE, _PEAK = 2 / 3, 1.25
_PAYLOAD: Final = bytes(150)
_HOSTS: Final = ("pb1", "pb2")
_TUNED: Final = ("alpha", "beta", "smoothing", "report_fraction")
"""Policy fields that are parameters of the experiment."""
_BURST_S: Final = 0.05
"""The most delay that a publisher makes up for: being held back leaves it no backlog."""
_LATE_SHARE: Final = 0.02
_SETTLE_S_MAX: Final = 60.0


class _LimitedPlan(OverlayPlan):
    """Two brokers with publishers, one in between, one with the subscriber, all under one limit."""

    limit: ClassVar[Mapping[str, float]] = {}

    def toml(self, ports: Mapping[str, int]) -> str:
        lines = ["[limit]", f'rate = "{_LIMIT_BYTES_S}"', f"epoch_ms = {int(_EPOCH_S * 1000)}"]
        lines += [f"{key} = {value}" for key, value in self.limit.items()]
        return super().toml(ports) + "\n".join(lines) + "\n"


def _plan(context: Context) -> OverlayPlan:
    class Plan(_LimitedPlan):
        limit: ClassVar[Mapping[str, float]] = {key: context.number(key) for key in _TUNED}

    pubends = {"pb1": ("pb1.a",), "pb2": ("pb2.a",), "ib": (), "sb": ()}
    return Plan(pubends, [("pb1", "ib"), ("pb2", "ib"), ("sb", "ib")])


class _Run:
    """The clients of one run, and what arrives at the subscriber."""

    def __init__(self, context: Context, overlay: DemoOverlay) -> None:
        self._context, self._overlay = context, overlay
        self.surge_s = (0.0, 0.0)
        self.end_s = self.start_s = 0.0
        self.arrived: list[float] = []
        self.received: dict[tuple[str, int], int] = {}
        self.published = 0
        self.held: dict[str, None] = {}
        self.body_bytes = len(encode_body(MessageIdSource(publisher=1, broker=1).next(1), self._message("late", 0)))

    def _message(self, publisher: str, number: int) -> Message:
        # Padded: every message has the same size, whatever its number.
        attributes: dict[str, AttributeValue] = {
            "topic": f"topic-{number % 4}",
            "publisher": f"{publisher:<16}",
            "number": 2**31 + number,
        }
        return Message(attributes, _PAYLOAD)

    async def run(self) -> None:
        context = self._context
        async with AsyncExitStack() as stack:
            await self._overlay.linked()
            reader = await stack.enter_async_context(connect(self._overlay.url("sb")))
            subscription = reader.subscribe("TRUE")
            await subscription.ready()
            while len(subscription.starts) < len(_HOSTS):
                await asyncio.sleep(0.05)
            count = context.integer("publishers")
            names = [f"publisher-{number}" for number in range(count)]
            clients = {name: await self._client(stack, number) for number, name in enumerate(names)}
            self.start_s = time.time() + 0.5
            first_s = self.start_s + context.number("before_s")
            self.surge_s = (first_s, first_s + context.number("surge_s"))
            self.end_s = self.surge_s[1] + context.number("after_s")
            context.reporter.stage("seconds", total=int(self.end_s - time.time()))
            weights = np.linspace(1.0, 2.0, count)
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._read(subscription)), group.create_task(self._watch(clients))]
                offers = [
                    group.create_task(self._offer(client, name, float(share)))
                    for (name, client), share in zip(clients.items(), weights / weights.sum(), strict=True)
                ]
                offers.append(group.create_task(self._come_late(stack)))
                for each in offers:
                    await each
                await self._settle()
                for each in beside:
                    each.cancel()

    async def _client(self, stack: AsyncExitStack, number: int) -> Client:
        made = connect(self._overlay.url(_HOSTS[number % len(_HOSTS)]), settings=ClientSettings(close_ms=1_000))
        return await stack.enter_async_context(made)

    async def _come_late(self, stack: AsyncExitStack) -> None:
        middle_s = (self.surge_s[0] + self.surge_s[1]) / 2
        await asyncio.sleep(max(middle_s - time.time(), 0))
        await self._offer(await self._client(stack, 0), "late", _LATE_SHARE)

    async def _offer(self, client: Client, name: str, share: float) -> None:
        """Publish at the rate of the load; after being held back, make up for little of the wait."""
        due_s, number = time.time(), 0
        while (now_s := time.time()) < self.end_s:
            in_surge = self.surge_s[0] <= now_s < self.surge_s[1]
            rate = share * _LIMIT_BYTES_S / self.body_bytes * (_PEAK if in_surge else _BASE)
            due_s = max(due_s, now_s - _BURST_S)
            if due_s > now_s:
                await asyncio.sleep(due_s - now_s)
            due_s += 1 / rate
            message = self._message(name, number)
            await client.publish(message.attributes, message.payload)
            self.published += 1
            number += 1
        await client.flush()

    async def _read(self, subscription: Subscription) -> None:
        async for batch in subscription.batches():
            now_s = time.time()
            for received in batch:
                self.arrived.append(now_s)
                key = str(received.attributes["publisher"]), int(str(received.attributes["number"]))
                self.received[key] = self.received.get(key, 0) + 1

    async def _watch(self, clients: Mapping[str, Client]) -> None:
        while True:
            await asyncio.sleep(1)
            self._overlay.check()
            self._context.reporter.advance()
            self.held |= {name: None for name, client in clients.items() if "is slowed down to" in client.held_back}

    async def _settle(self) -> None:
        deadline_s = time.monotonic() + _SETTLE_S_MAX
        while len(self.received) < self.published and time.monotonic() < deadline_s:
            await asyncio.sleep(0.05)


def _measure(context: Context) -> Mapping[str, float]:
    context.reporter.stage("brokers start")
    with DemoOverlay(_plan(context)) as overlay:
        run = _Run(context, overlay)
        asyncio.run(run.run())
    edges = np.arange(run.start_s, run.end_s, _EPOCH_S)
    counts, _ = np.histogram(run.arrived, bins=edges)
    shares = counts * run.body_bytes / (_LIMIT_BYTES_S * _EPOCH_S)
    middles = edges[:-1] + _EPOCH_S / 2
    surge = shares[(middles > run.surge_s[0] + _EPOCH_S) & (middles < run.surge_s[1])]
    before = shares[(middles > run.start_s + 0.4) & (middles < run.surge_s[0])]
    context.figure(lambda figure: _draw(figure, middles - run.start_s, shares, run))
    return {
        **settled_figures(surge),
        "lost": run.published - len(run.received),
        "duplicated": sum(run.received.values()) - len(run.received),
        "published": run.published,
        "load_before": round(float(before.mean()), 4),
        "publishers_told": len(run.held),
    }


def _draw(figure: Figure, times: Floats, shares: Floats, run: _Run) -> None:
    axes: Any = figure.add_subplot()
    first_s, last_s = (each - run.start_s for each in run.surge_s)
    surge_panel(axes, times, shares, surge_s=(first_s, last_s), late="a publisher comes late")
    dress(axes, "A square surge on four live brokers, epochs of 200 ms", "time (s)", "traffic (% of the limit)")


AJIL_LIVE_OVERLAY: Final = Experiment(
    name="ajil-live-overlay",
    summary="a square surge of publishers on two of four live brokers under one limit",
    source="beyond the paper (decision record 11)",
    parameters=(
        Parameter("publishers", 6, "publishers, on two brokers in turn", quick=2, minimum=2, maximum=50),
        Parameter("alpha", 0.5, "share of the groups that react", minimum=0.0, maximum=1.0),
        Parameter("beta", 0.25, "share of the senders that react", minimum=0.0, maximum=1.0),
        Parameter("smoothing", 1.0, "weight of the newest rate of a group", minimum=0.01, maximum=1.0),
        Parameter("report_fraction", 0.5, "c: reports as a share of messages", minimum=0.001, maximum=1.0),
        Parameter("before_s", 4.0, "seconds before the surge", quick=1.0, minimum=0.5),
        Parameter("surge_s", 12.0, "seconds of the surge", quick=4.0, minimum=3.0),
        Parameter("after_s", 3.0, "seconds after it", quick=0.5, minimum=0.4),
    ),
    published={"overshoot": "at most 0.05 (ours)", "lost": 0},
    run=_measure,
)
