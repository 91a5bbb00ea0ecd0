"""Campaigns against guaranteed delivery: an overlay drawn by chance, a market on it, harm, healing, and a verdict.

Everything follows from the seed: shape, limits (often hostile), who publishes and subscribes what, and the faults. The
laws are judged from outside the brokers. After healing the overlay must converge: everybody connected, everything
acknowledged, every subscription up to date with every pubend, within bounded virtual time.
"""

from __future__ import annotations

import traceback
from functools import partial
from random import Random
from typing import Final

from penstock.broker.broker import Broker
from penstock.model.tick import tick_at
from penstock.sim.bounds import exceeded
from penstock.sim.client import SimClient
from penstock.sim.delivery_plan import draw_plan
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.faults import LASTS_MS_MAX, Faults
from penstock.sim.ports import MakeBroker
from penstock.sim.probes import observed
from penstock.sim.verdict import judge
from penstock.sim.world import World

__all__ = ["DeliveryCampaign"]

_CLIENT_LATENCIES_US: Final = (0, 500, 5_000, 50_000)
_CLIENT_BANDWIDTHS: Final = (None, None, None, None, 200_000, 20_000)
"""Clients that read slowly are what outboxes and catch-ups that pause are for."""
_SYMBOLS: Final = ("ACME", "BOLT", "CORK", "DUNE")
_SELECTORS: Final = (
    "",
    "symbol = 'ACME'",
    "symbol = 'BOLT' and volume > 500",
    "volume > 800",
    "volume < 100 or symbol = 'CORK'",
    "symbol in ('ACME', 'DUNE') and volume between 200 and 700",
    "symbol <> 'CORK'",
    "volume = 1",
)
_TRADED: Final = 70
"""Messages that are published while a blow takes effect, at most."""
_PAUSES_MS: Final = (20, 200, 1_500, 6_000)
_CONVERGE_MS: Final = 180_000
"""Virtual time in which an overlay must have converged after all harm was repaired."""
_FRAMES: Final = 4
"""Frames of the program that are told of a crash."""


class DeliveryCampaign:
    """One seed's overlay, harm and healing."""

    def __init__(
        self,
        seed: int | str,
        *,
        checks: bool = False,
        trace_lines: int = 10_000,
        brokers_max: int = 7,
        make_broker: MakeBroker = Broker,
    ) -> None:
        """Draw an overlay; with ``checks``, invariants are looked at after every step of every broker."""
        self.world = World(seed, checks=checks, trace_lines=trace_lines, make_broker=make_broker)
        self._chance: Random = self.world.faults
        self._work: Random = self.world.workload
        self.plan = draw_plan(self._chance, brokers_max=brokers_max)
        for settings in self.plan.brokers:
            broker = self.world.add_broker(settings)
            broker.disk.journal = []
        for pair, options in zip(self.plan.pairs, self.plan.links, strict=True):
            self.world.add_link(*pair, **options)
        names = [settings.name for settings in self.plan.brokers]
        hosts = [settings.name for settings in self.plan.hosts]
        self.publishers = [self._add_client(f"pub-{number}", name) for number, name in enumerate(hosts * 2)]
        self._pubends = {
            client.name: self.world.brokers[host].settings.pubends
            for client, host in zip(self.publishers, hosts * 2, strict=True)
        }
        self.subscribers = [
            self._add_client(f"sub-{number}", self._chance.choice(names))
            for number in range(self._chance.randrange(3, 14))
        ]
        for client in self.subscribers:
            client.subscribe(self._chance.choice(_SELECTORS))
        clients = [link for link in self.world.links if link[0] in self.world.clients]
        self.faults = Faults(self.world, list(self.plan.pairs), clients)
        self._exceeded: list[str] = []
        self._published = 0

    def run(self, *, blows_max: int = 48) -> DeliveryRun:
        """Quiet trading, harm, healing, quiet trading; then the verdict."""
        run = DeliveryRun(str(self.world.seed), self.plan.described())
        try:
            self._harm(blows_max)
            run.unconverged = self._heal()
            self._judge(run)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            run.crash = _told(error)
        run.exceeded = list(dict.fromkeys(self._exceeded))
        run.faults, run.timeline = self.faults.counts, self.faults.timeline
        run.simulated_ms, run.digest = self.world.elapsed_ms, self.world.digest()
        if run.failure is not None:
            run.lines = self.world.trace.lines()
        return run

    # --- harm, healing, verdict

    def _harm(self, blows_max: int) -> None:
        self.world.run_until_ready()
        self._trade()
        self.world.run_for(1_000)
        for _ in range(self._chance.randrange(4, blows_max)):
            self._trade()
            self.faults.strike()
            if self._chance.random() < 0.4:
                self._change_subscriptions()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
            self._look()
        # Long enough, now and then, that what everybody has is trimmed.
        self.world.run_for(self._chance.choice((LASTS_MS_MAX, LASTS_MS_MAX, 6 * LASTS_MS_MAX)))
        self.faults.repair()

    def _heal(self) -> str:
        """Lets everything come to rest, twice; says what did not."""
        for _ in range(2):
            # Also now that nothing is broken: what is published now must arrive, too.
            self._trade()
            self.world.run_for(2_000)
            if not self.world.run_until(lambda: not self._unrest(), limit_ms=_CONVERGE_MS):
                break
        self._look()
        return self._unrest()

    def _judge(self, run: DeliveryRun) -> None:
        brokers = self.world.brokers.values()
        run.verdict = judge(
            self.publishers,
            self.subscribers,
            excused=self.faults.excused,
            journal=[each for broker in brokers for each in broker.disk.journal or ()],
            may_lapse=self.plan.may_lapse,
        )
        run.counts = observed(self.world)

    def _unrest(self) -> str:
        for client in self.world.clients.values():
            if not client.is_ready:
                return f"{client.name} is not connected, or not subscribed"
        for publisher in self.publishers:
            if publisher.backlog or publisher.publishing.unsettled:
                return f"{publisher.name} has messages that are not acknowledged"
        for host, pubend in self.plan.guaranteed:
            last = self.world.brokers[host].disk.last_tick(pubend)
            for client in self.subscribers:
                for number in client.wanted:
                    if client.subscriptions[number].positions.get(pubend, 0) <= last:
                        return f"subscription {number} of {client.name} is not up to date with {pubend}"
        return ""

    def _look(self) -> None:
        for broker in self.world.brokers.values():
            if broker.is_up:
                broker.check_invariants()
                self._exceeded += exceeded(broker, pubends=len(self.plan.guaranteed))

    # --- work

    def _add_client(self, name: str, broker: str) -> SimClient:
        latency_us = self._chance.choice(_CLIENT_LATENCIES_US)
        # What is large would take for ever on the slowest.
        bandwidth = self._chance.choice(_CLIENT_BANDWIDTHS if max(self.plan.payload_bytes) < 1_000 else (None, 200_000))
        return self.world.add_client(name, broker, latency_us=latency_us, bandwidth=bandwidth)

    def _trade(self) -> None:
        apart_us = self._work.choice((0, 1_000, 20_000))
        for place in range(self._work.randrange(_TRADED)):
            self._published += 1
            attributes = {
                "symbol": self._work.choice(_SYMBOLS),
                "volume": self._work.randrange(1_000),
                "number": self._published,
            }
            publisher = self._work.choice(self.publishers)
            payload = b"x" * self._work.choice(self.plan.payload_bytes)
            # By hash, or to a pubend by its name, which may be one of best effort.
            pubend = self._work.choice(("", "", *self._pubends[publisher.name]))
            self.world.clock.after(apart_us * place, partial(publisher.publish, attributes, payload, pubend))

    def _change_subscriptions(self) -> None:
        client = self._work.choice(self.subscribers)
        if client.wanted and self._work.random() < 0.4:
            client.unsubscribe(self._work.choice(list(client.wanted)))
        else:
            client.subscribe(self._work.choice(_SELECTORS), self._drawn_start())

    def _drawn_start(self) -> dict[str, int]:
        """Where a subscription wants to begin: mostly now, at times at messages of the past, rarely in the future."""
        if self._work.random() < 0.6:
            return {}
        start = {}
        for host, pubend in self.plan.guaranteed:
            ticks = self.world.brokers[host].disk.ticks(pubend)
            if ticks and self._work.random() < 0.7:
                start[pubend] = self._work.choice(ticks) + self._work.choice((0, 0, 1))
            elif self._work.random() < 0.05:
                start[pubend] = tick_at(self.world.clock.now_ms + 24 * 3_600_000)
        return start


def _told(error: Exception) -> str:
    """An exception with the frames where it came from, the innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    lines = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames]
    return "\n".join([*lines, f"{type(error).__name__}: {error}"])
