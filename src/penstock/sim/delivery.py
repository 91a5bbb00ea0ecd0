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
from penstock.protocol.frames import LATEST, Missing
from penstock.sim.bounds import exceeded
from penstock.sim.client import SimClient
from penstock.sim.delivery_plan import draw_plan
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.faults import LASTS_MS_MAX, Faults
from penstock.sim.lives import Lives
from penstock.sim.ports import MakeBroker
from penstock.sim.probes import observed
from penstock.sim.returning import restart_host
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
_MISSING: Final[tuple[Missing, ...]] = ("fail", "earliest", "latest")
_TRADED: Final = 70
"""Messages that are published while a blow takes effect, at most."""
_PAUSES_MS: Final = (20, 200, 1_500, 6_000)
_CONVERGE_MS: Final = 180_000
"""Virtual time in which an overlay must have converged after all harm was repaired."""
_ABSENT: Final = 0.3
"""How often clients are away for a while at the end, when all else is well."""
_DEAD: Final = 0.4
"""How often those with durable subscriptions die then, and come back after a long time."""
_ROLLED: Final = 0.15
"""How often all brokers are restarted then, one after the other; else a host is, while its clients are away."""
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
        self.faults = Faults(self.world, list(self.plan.pairs))
        # Durable positions hold logs, so that mistakes about all else that should would never show: not always.
        names_count = self._chance.choice((0, 1, 2, 3))
        selectors = self._chance.sample(_SELECTORS[:-1], names_count)
        durable = [
            self._add_client(f"dur-{number}", self._chance.choice(names))
            for number in range(names_count + self._chance.randrange(1, 3) if names_count else 0)
        ]
        self.lives = Lives(
            self.world,
            durable,
            selectors,
            note=self.faults.note,
            may_keep_back="retain_bytes_max" not in self.plan.limits,
        )
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
            if self._chance.random() < 0.3:
                self.lives.strike()
            self._meddle()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
            self._look()
        # Long enough, now and then, that what everybody has is trimmed.
        self.world.run_for(self._chance.choice((LASTS_MS_MAX, LASTS_MS_MAX, 6 * LASTS_MS_MAX)))
        self.faults.repair()
        self.lives.gather()

    def _meddle(self) -> None:
        """Whatever else is to happen while a blow takes effect."""

    def _heal(self) -> str:
        """Lets everything come to rest, twice; says what did not."""
        # First of all: what is kept for a name that nobody wants any more may be all that holds publishers back.
        self.world.run_until(lambda: self.subscribers[0].is_ready, limit_ms=_CONVERGE_MS)
        self.world.run_for(LASTS_MS_MAX)
        unrest = self.lives.purge(self.subscribers[0]) or self._rest()
        if not unrest:
            self._act_again()
            unrest = self._rest()
        self._look()
        return unrest

    def _rest(self) -> str:
        # Also now that nothing is broken: what is published now must arrive, too.
        self._trade()
        self.world.run_for(2_000)
        for _ in range(2):
            self.world.run_until(lambda: not self._unrest(), limit_ms=_CONVERGE_MS)
            # Of those who claimed a name at the same time, at different pubends first, none may be left.
            if not self.lives.unclaimed():
                break
            self.lives.gather()
        return self._unrest()

    def _act_again(self) -> None:
        """Some more trouble, when all else is well."""
        chance = self._chance.random()
        if chance < _ABSENT:
            # Long after the last start of a pubend, so that whatever nobody needs any more is trimmed at once.
            self.world.run_for(self.plan.limits["grace_ms"] + 2_000)
            self.faults.send_clients_away()
        elif chance < _ABSENT + _DEAD:
            self.lives.settle()
            self.lives.die_at_rest()
            for _ in range(4):
                self._trade()
                self.world.run_for(self.plan.limits["grace_ms"] // 2)
        elif chance < _ABSENT + _DEAD + _ROLLED:
            self.faults.roll()
            self._trade()
            self.world.run_for(LASTS_MS_MAX)
        else:
            self._restart_host()
        self.lives.gather()

    def _restart_host(self) -> None:
        """Long after all else, so that only what the host said in its former life holds logs for those who are away."""
        grace_ms = self.plan.limits["grace_ms"]
        self.world.run_for(grace_ms + 2_000)
        if restart_host(self.world, self.subscribers, self.faults.note, grace_ms=grace_ms):
            for _ in range(6):
                self._trade()
                self.world.run_for(grace_ms // 4)

    def _judge(self, run: DeliveryRun) -> None:
        brokers = self.world.brokers.values()
        run.verdict = judge(
            self.publishers,
            [*self.subscribers, *self.lives.clients],
            excused=self.faults.excused,
            journal=[each for broker in brokers for each in broker.disk.journal or ()],
            may_lapse=self.plan.may_lapse,
            forgotten=self.lives.forgotten,
            grace_ms=self.plan.limits["grace_ms"],
        )
        run.counts = observed(self.world) + self.lives.counts

    def _unrest(self) -> str:
        for client in self.world.clients.values():
            if not client.is_ready:
                return f"{client.name} is not connected, or not subscribed"
        for publisher in self.publishers:
            if publisher.backlog or publisher.unsettled:
                return f"{publisher.name} has messages that are not acknowledged"
        for host, pubend in self._guaranteed():
            last = self.world.brokers[host].disk.last_tick(pubend)
            for client in [*self.subscribers, *self.lives.clients]:
                for number in client.wanted:
                    if client.subscriptions[number].positions.get(pubend, 0) <= last:
                        return f"subscription {number} of {client.name} is not up to date with {pubend}"
        return self.lives.unrest()

    def _guaranteed(self) -> list[tuple[str, str]]:
        """The guaranteed pubends, each with its broker before it: more than at first, when some were promoted."""
        return [
            (name, pubend)
            for name, broker in self.world.brokers.items()
            for pubend in broker.settings.pubends
            if pubend not in broker.settings.best_effort
        ]

    def _look(self) -> None:
        for broker in self.world.brokers.values():
            if broker.is_up:
                broker.check_invariants()
                self._exceeded += exceeded(broker, pubends=len(self._guaranteed()))

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
            missing = self._work.choice(_MISSING)
            otherwise = self._drawn_beginning()
            client.subscribe(self._work.choice(_SELECTORS), self._drawn_start(), otherwise=otherwise, missing=missing)

    def _drawn_beginning(self) -> int:
        """Where a subscription wants to begin at all pubends: mostly now, or at a time of the past, or earliest."""
        if self._work.random() < 0.7:
            return LATEST
        ago_ms = self._work.choice((None, 2_000, 20_000, 90_000))
        return 0 if ago_ms is None else tick_at(self.world.clock.now_ms - ago_ms)

    def _drawn_start(self) -> dict[str, int]:
        """Where a subscription wants to begin at some: at messages of the past, rarely in the future."""
        if self._work.random() < 0.6:
            return {}
        start: dict[str, int] = {}
        for host, pubend in self._guaranteed():
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
