"""Campaigns against guaranteed delivery: a random overlay, a market on it, harm, healing, and a verdict.

Everything follows from the seed: shape, limits (often hostile), who publishes and subscribes to what, and faults. The
laws, memory limits included, are judged from outside the brokers. After healing the overlay must converge: everybody
connected, everything acknowledged, every subscription up to date with every pubend, within bounded virtual time.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from penstock.broker.access import Access, Rule
from penstock.broker.broker import Broker
from penstock.model.tick import tick_at
from penstock.protocol.frames import LATEST, Missing
from penstock.selectors.selector import Selector
from penstock.session.settings import Choice
from penstock.sim.client import SimClient
from penstock.sim.delivery_plan import DeliveryPlan, draw_plan
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.disk import Disk
from penstock.sim.faults import LASTS_MS_MAX, Faults
from penstock.sim.last_values import broken, draw_views
from penstock.sim.lives import Lives
from penstock.sim.node import SimBroker
from penstock.sim.older_copies import Loss, OlderCopies
from penstock.sim.ports import MakeBroker
from penstock.sim.probes import NOWHERE, observed
from penstock.sim.verdict import judge
from penstock.sim.world import World

__all__ = ["DeliveryCampaign", "exceeded", "restart_host", "told"]

_CLIENT_LATENCIES_US: Final = (0, 500, 5_000, 50_000)
_CLIENT_BANDWIDTHS: Final = (None, None, None, None, 200_000, 20_000)
"""Some clients read slowly, to exercise outboxes and catch-ups that pause."""
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
_LIFETIMES_S: Final = (None, None, None, None, None, None, 0.05, 2.0, 20.0, 10_000_000.0)
"""How long messages live: most for ever, some for less than a blow lasts, some for longer than any clock is off."""
_TRADED: Final = 70
"""Bound on the messages published while a blow takes effect."""
_PAUSES_MS: Final = (20, 200, 1_500, 6_000)
_CONVERGE_MS: Final = 180_000
"""Virtual time in which an overlay must have converged after all harm was repaired."""
_ABSENT: Final = 0.3
"""Probability that clients are away for a while at the end, when all else is well."""
_DEAD: Final = 0.4
"""Probability that clients with durable subscriptions die at the end, and come back after a long time."""
_ROLLED: Final = 0.15
"""Probability of a rolling restart at the end; otherwise one host restarts while its clients are away."""
_DOWN_MS: Final = (20, 3_000, 12_000)
"""How long the host that restarts at the end is down."""
_WANT_ALL: Final = 0.6
"""Probability that a subscription names no pubends, and wants all."""
_MISSING_PUBEND: Final = 0.1
"""Probability that a subscription to some pubends names one that does not exist."""
_ROAMERS_MAX: Final = 3
_RULED: Final = 0.3
"""Probability that a publisher may not publish everything that it does."""
_ALLOWED: Final = ("volume >= 100", "symbol <> 'DUNE'", "symbol <> 'ACME' or volume < 500", "volume between 0 and 997")
_HASHED: Final = 0.3
"""Probability that a publisher chooses pubends by hash among all, and not among those of its broker."""
_ROAM_MS: Final = (0, 1, 50, 2_000)
"""How long a publisher is away that goes to another broker."""
_AWAY: Final = (0.3, 0.6, 0.9, 1.4)
"""How long its clients are away, as fractions of their grace period."""
_TRIMMED_MS: Final = 40_000
"""How long to wait for logs to be trimmed."""
_FRAME_BYTES_MAX: Final = 320 * 1024
"""An empty outbox takes any frame, or it could never be sent: so each may exceed its limit by one frame."""
_FRAMES: Final = 4
"""Stack frames to report for a crash."""


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
        """Draw an overlay; with ``checks``, invariants are checked after every step of every broker."""
        self.world = World(seed, checks=checks, trace_lines=trace_lines, make_broker=make_broker)
        self._chance: Random = self.world.faults
        self._work: Random = self.world.workload
        self._lifetimes = Random(f"{seed}/lifetimes")
        drawn = draw_plan(self._chance, brokers_max=brokers_max)
        self._keeping = Random(f"{seed}/last-values")
        viewed, self.views = draw_views(drawn, self._keeping)
        hosts = [settings.name for settings in viewed.hosts]
        self.plan = self._arranged(viewed)
        self.rules, self._by_hash = self._drawn_habits(seed)
        access = Access(
            rules=(*(Rule(name, publish=Selector.parse(allowed)) for name, allowed in self.rules.items()), Rule("%"))
        )
        for settings in self.plan.brokers:
            broker = self.world.add_broker(replace(settings, access=access))
            broker.disk.journal = []
        for pair, options in zip(self.plan.pairs, self.plan.links, strict=True):
            self.world.add_link(*pair, **options)
        names = [settings.name for settings in self.plan.brokers]
        self._settle_in()
        self.publishers = [self._add_client(f"pub-{number}", name) for number, name in enumerate(hosts * 2)]
        self.roamers = [
            self._add_client(f"roam-{number}", self._chance.choice(names))
            for number in range(self._chance.randrange(1, _ROAMERS_MAX + 1))
        ]
        self.publishers += self.roamers
        self._pubends = self.plan.pubends
        self._choosing = Random(f"{seed}/pubends")
        self.subscribers = [
            self._add_client(f"sub-{number}", self._chance.choice(names))
            for number in range(self._chance.randrange(3, 14))
        ]
        for client in self.subscribers:
            client.subscribe(self._chance.choice(_SELECTORS), pubends=self._drawn_pubends())
        # From a child generator of its own, so that older seeds still have the same clients.
        hosts = self._keeping.choices(names, k=self._keeping.randrange(3)) if self.views.pubends else []
        self._readers = {self.world.add_client(f"last-{number}", name): 0 for number, name in enumerate(hosts)}
        """Clients that begin with last values in the midst of all, with the numbers of their subscriptions."""
        self.faults = self._make_faults()
        # Sometimes none: durable positions hold logs, and would hide mistakes in all else that should hold them.
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
            draw_pubends=self._drawn_keepers,
        )
        self.copies = OlderCopies(self.world, seed, self.faults.note)
        self._exceeded: list[str] = []
        self._published = 0

    def _arranged(self, plan: DeliveryPlan) -> DeliveryPlan:
        """Hook for changes of the plan before anything is built."""
        return plan

    def _settle_in(self) -> None:
        """Hook for what else belongs to the world, after its brokers and links, and before its clients."""

    def _make_faults(self) -> Faults:
        """Hook for faults of other kinds."""
        return Faults(self.world, list(self.plan.pairs))

    def run(self, *, blows_max: int = 48) -> DeliveryRun:
        """Trade quietly, do harm, heal, and trade quietly again; returns the outcome."""
        run = DeliveryRun(str(self.world.seed), [*self.plan.described(), *self.views.described()])
        try:
            self._harm(blows_max)
            run.unconverged = (
                self._heal() or self._crash_at_trims() or self._lose_in_peace() or self._read_last_values()
            )
            self._judge(run)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            run.crash = told(error)
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
            if self._chance.random() < 0.4:
                self._roam()
            for client, number in self._readers.items():
                if not number and self._keeping.random() < 0.1:
                    self._readers[client] = self._begin_with_last_values(client)
            self._meddle()
            self.copies.strike()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
            self._look()
        # Now and then long enough for messages that everybody has to be trimmed.
        self.world.run_for(self._chance.choice((LASTS_MS_MAX, LASTS_MS_MAX, 6 * LASTS_MS_MAX)))
        self.faults.repair()
        self.lives.gather()

    def _meddle(self) -> None:
        """Hook for anything else to happen while a blow takes effect."""

    def _heal(self) -> str:
        """Let everything come to rest, twice; returns what did not."""
        # Purge first: messages kept for a name that nobody wants any more may be all that holds publishers back.
        self.world.run_until(lambda: self.subscribers[0].is_ready, limit_ms=_CONVERGE_MS)
        self.world.run_for(LASTS_MS_MAX)
        unrest = self.lives.purge(self.subscribers[0]) or self._rest()
        if not unrest:
            self._act_again()
            unrest = self._rest()
        self._look()
        return unrest

    def _begin_with_last_values(self, client: SimClient) -> int:
        self.faults.note("last_values", f"{client.name} begins with last values")
        return client.subscribe("", pubends=self.views.pubends, otherwise=0, last_by=self.views.attribute)

    def _crash_at_trims(self) -> str:
        """Crash brokers right when they trim logs of which they keep last values; returns what does not settle."""
        if not self.views.pubends or self.plan.limits["retain_ms"] > _TRIMMED_MS // 2:
            return ""
        for _ in range(self._keeping.randrange(1, 5)):
            self._trade()
            for device in [self.world.brokers[host.name].device for host in self.plan.hosts]:
                # Most syncs take longer than it takes to see that one has begun.
                device.slowness = self._keeping.choice((1.0, 30.0, 100.0))
                device.is_full = self._keeping.random() < 0.3
            before = self._given_up()
            self.world.run_until(partial(self._has_trimmed_since, before), limit_ms=_TRIMMED_MS)
            self.world.run_for(self._keeping.choice((0, 0, 10, 50, 100, 400)))
            for pubend in [each for each, tick in self._given_up().items() if tick != before[each]]:
                self.faults.crash(self._host_of(pubend))
            self.world.run_for(LASTS_MS_MAX)
            self.faults.repair()
        self.lives.gather()
        return self._rest()

    def _lose_in_peace(self) -> str:
        """Let brokers come back with older copies of their disks when all is well; returns what does not settle."""
        if not self.copies.is_on:
            return ""
        for _ in range(3):
            self.copies.restore_in_peace([*self.subscribers, *self.lives.clients], self._trade)
            self.lives.gather()
            unrest = self._rest()
            if unrest:
                return unrest
        return ""

    @property
    def _may_lose(self) -> bool:
        """Whether anything that was durable may be lost."""
        return self.copies.is_on

    def _losses(self) -> list[Loss]:
        """What was durable, and was lost."""
        return self.copies.losses()

    def _gone(self) -> set[tuple[str, int]]:
        """The messages that are lost in the end, by pubend and tick."""
        return self.copies.gone

    def _has_trimmed_since(self, before: dict[str, int]) -> bool:
        return self._given_up() != before

    def _host_of(self, pubend: str) -> str:
        """The broker that has a pubend, or runs it now."""
        return pubend.partition(".")[0]

    def _given_up(self) -> dict[str, int]:
        """Below which tick brokers wanted to trim the logs of which they keep last values."""
        given_up = self.world.given_up()
        return {each: given_up.get(each, 0) for each in self.views.pubends}

    def _read_last_values(self) -> str:
        """Let somebody begin with last values when everything is at rest; returns what does not come to rest."""
        if not self.views.pubends:
            return ""
        client = self.world.add_client("last", self._keeping.choice(list(self.world.brokers)))
        self._readers[client] = self._begin_with_last_values(client)
        self.world.run_until(lambda: not self._unrest(), limit_ms=_CONVERGE_MS)
        self.world.run_for(2_000)
        return self._unrest()

    def _rest(self) -> str:
        # Nothing is broken any more: what is published now must arrive, too.
        self._trade()
        self.world.run_for(2_000)
        for _ in range(2):
            self.world.run_until(lambda: not self._unrest(), limit_ms=_CONVERGE_MS)
            # If clients claimed a name at the same time, each at another pubend first, all of them may have lost it.
            if not self.lives.unclaimed():
                break
            self.lives.gather()
        return self._unrest()

    def _act_again(self) -> None:
        """Make some more trouble when all else is well."""
        chance = self._chance.random()
        if chance < _ABSENT:
            # Long after the last start of a pubend, so that messages nobody needs any more are trimmed at once.
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
        """Restart a host long after all else, so that only what its former life said holds logs for absent clients."""
        grace_ms = self.plan.limits["grace_ms"]
        self.world.run_for(grace_ms + 2_000)
        if restart_host(self.world, self.subscribers, self.faults.note, grace_ms=grace_ms):
            for _ in range(6):
                self._trade()
                self.world.run_for(grace_ms // 4)

    def _judge(self, run: DeliveryRun) -> None:
        run.verdict = judge(
            self.publishers,
            [*self.subscribers, *self.lives.clients],
            excused=self.faults.excused,
            journal=self._journal(),
            may_lapse=self.plan.may_lapse,
            forgotten=self.lives.forgotten,
            grace_ms=self.plan.limits["grace_ms"],
            brokers=self.world.brokers,
            rules=self.rules,
            losses=self._losses(),
        )
        run.verdict.lost += len(self.copies.problems)
        run.verdict.problems += self.copies.problems
        gone = self._gone()
        journal = [each for each in self._journal() if each[:2] not in gone]
        for client, number in self._readers.items():
            # Who read them in the midst of all may have got last values that were lost later.
            if number and (client.name == "last" or not self._may_lose):
                problems = broken(
                    self.views, client, number, journal, self.faults.excused, is_at_rest=client.name == "last"
                )
                run.verdict.lost += len(problems)
                run.verdict.problems += problems
        run.counts = observed(self.world) + self.lives.counts

    def _unrest(self) -> str:
        for client in self.world.clients.values():
            if not client.is_ready:
                return f"{client.name} is not connected, or not subscribed"
        for publisher in self.publishers:
            if publisher.backlog or publisher.unsettled:
                return f"{publisher.name} has messages that are not acknowledged"
        for disk, pubend in self._guaranteed():
            last = disk.last_tick(pubend)
            for client in [*self.subscribers, *self.lives.clients]:
                for number in client.wanted:
                    record = client.subscriptions[number]
                    if record.wants(pubend) and record.positions.get(pubend, 0) <= last:
                        return f"subscription {number} of {client.name} is not up to date with {pubend}"
        return self.lives.unrest()

    def _journal(self) -> list[tuple[str, int, bytes]]:
        """Everything that ever became durable, and counts."""
        return [each for broker in self.world.brokers.values() for each in broker.disk.journal or ()]

    def _guaranteed(self) -> list[tuple[Disk, str]]:
        """The guaranteed pubends, each with the disk that has it; more than at first if some were promoted."""
        return [
            (broker.disk, pubend)
            for broker in self.world.brokers.values()
            for pubend in broker.settings.pubends
            if pubend not in broker.settings.best_effort
        ]

    def _look(self) -> None:
        for broker in self.world.nodes:
            if broker.is_up:
                broker.check_invariants()
                self._exceeded += exceeded(broker, pubends=len(self._guaranteed()))

    # --- work

    def _add_client(self, name: str, broker: str) -> SimClient:
        latency_us = self._chance.choice(_CLIENT_LATENCIES_US)
        # Large messages would take for ever on the slowest links.
        bandwidth = self._chance.choice(_CLIENT_BANDWIDTHS if max(self.plan.payload_bytes) < 1_000 else (None, 200_000))
        choice: Choice = "hash" if name in self._by_hash else "near"
        return self.world.add_client(name, broker, choice=choice, latency_us=latency_us, bandwidth=bandwidth)

    def _drawn_habits(self, seed: int | str) -> tuple[dict[str, str], set[str]]:
        """What some publishers may publish, by name, and which of them choose pubends by hash.

        From a child generator of its own, so that older seeds still do the same.
        """
        chance = Random(f"{seed}/habits")
        names = [f"pub-{number}" for number in range(2 * len(self.plan.hosts))]
        names += [f"roam-{number}" for number in range(_ROAMERS_MAX)]
        rules = {name: chance.choice(_ALLOWED) for name in names if chance.random() < _RULED}
        return rules, {name for name in names if chance.random() < _HASHED}

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
            # To one of the session's choice, or to a named pubend, which may be elsewhere and best effort.
            pubend = self._work.choice(("", "", *self._pubends))
            # From a child generator of its own, so that older seeds still trade the same.
            expires = self._lifetimes.choice(_LIFETIMES_S)
            self.world.clock.after(apart_us * place, partial(publisher.publish, attributes, payload, pubend, expires))

    def _roam(self) -> None:
        """Send a publisher to another broker, with what it has not got acknowledged."""
        client = self._chance.choice(self.roamers)
        if client.is_away:
            return
        broker = self._chance.choice(list(self.world.brokers))
        self.faults.note("roam", f"{client.name} goes from {client.place} to {broker}")
        self.world.withdraw(client.name)
        away_ms = self._chance.choice(_ROAM_MS)
        self.world.clock.after(away_ms * 1_000, partial(self.world.place, client.name, broker))

    def _change_subscriptions(self) -> None:
        client = self._work.choice(self.subscribers)
        if client.wanted and self._work.random() < 0.4:
            client.unsubscribe(self._work.choice(list(client.wanted)))
        else:
            missing = self._work.choice(_MISSING)
            otherwise = self._drawn_beginning()
            selector, start, pubends = self._work.choice(_SELECTORS), self._drawn_start(), self._drawn_pubends()
            if pubends:
                start = {pubend: tick for pubend, tick in start.items() if pubend in pubends}
            client.subscribe(selector, start, otherwise=otherwise, missing=missing, pubends=pubends)

    def _drawn_pubends(self) -> tuple[str, ...]:
        """The pubends that a subscription names: mostly none, for all of them; now and then one that is missing."""
        chance = self._choosing
        if chance.random() < _WANT_ALL:
            return ()
        pubends = chance.sample(self._pubends, chance.randrange(1, len(self._pubends) + 1))
        return (*pubends, NOWHERE) if chance.random() < _MISSING_PUBEND else tuple(pubends)

    def _drawn_keepers(self) -> tuple[str, ...]:
        """The pubends that a durable subscription names: none for all, or one that can keep the name among them."""
        pubends = self._drawn_pubends()
        guaranteed = [pubend for _, pubend in self._guaranteed()]
        if not pubends or any(pubend in guaranteed for pubend in pubends):
            return pubends
        return (self._choosing.choice(guaranteed), *pubends)

    def _drawn_beginning(self) -> int:
        """Where a subscription begins by default at all pubends: mostly now, else some time ago or earliest."""
        if self._work.random() < 0.7:
            return LATEST
        ago_ms = self._work.choice((None, 2_000, 20_000, 90_000))
        return 0 if ago_ms is None else tick_at(self.world.clock.now_ms - ago_ms)

    def _drawn_start(self) -> dict[str, int]:
        """Where a subscription begins at some pubends: at messages of the past, rarely in the future."""
        if self._work.random() < 0.6:
            return {}
        start: dict[str, int] = {}
        for disk, pubend in self._guaranteed():
            ticks = disk.ticks(pubend)
            if ticks and self._work.random() < 0.7:
                start[pubend] = self._work.choice(ticks) + self._work.choice((0, 0, 1))
            elif self._work.random() < 0.05:
                start[pubend] = tick_at(self.world.clock.now_ms + 24 * 3_600_000)
        return start


def restart_host(
    world: World, subscribers: Sequence[SimClient], note: Callable[[str, str], None], *, grace_ms: int
) -> bool:
    """Restart a broker while some of its subscribers are away; returns whether there was one to restart.

    A host forgets its clients' positions when it dies, so only what it had reported holds the logs for them. A client
    that comes back within ``grace_ms`` must miss nothing, and one that comes later must be told what it misses.
    Everything is over after one and a half times the grace period.
    """
    chance = world.faults
    hosted: dict[str, list[SimClient]] = {}
    for client in subscribers:
        for (name, broker), link in world.links.items():
            if name == client.name and link.is_wanted:
                hosted.setdefault(broker, []).append(client)
    if not hosted:
        return False
    host = chance.choice(list(hosted))
    # Somebody should stay, if possible: a host with a client has something to report, and may report too much.
    absent = chance.sample(hosted[host], max(1, len(hosted[host]) * 2 // 3))
    note("host_restart", f"{host} is restarted without {', '.join(client.name for client in absent)}")
    world.crash(host, loud=chance.random() < 0.5)
    world.clock.after(chance.choice(_DOWN_MS) * 1_000, partial(_start_if_down, world, host))
    for client in absent:
        world.withdraw(client.name)
        away_ms = int(chance.choice(_AWAY) * grace_ms)
        back = host if chance.random() < 0.7 else chance.choice(list(world.brokers))
        world.clock.after(away_ms * 1_000, partial(world.place, client.name, back))
    return True


def _start_if_down(world: World, host: str) -> None:
    if not world.brokers[host].is_up:
        world.restart(host)


def exceeded(broker: SimBroker, *, pubends: int) -> list[str]:
    """Complaints about each limit that a running broker exceeds, given this many guaranteed pubends.

    The brokers' own invariants check each part. This is a second witness, which knows only the settings and the figures
    that a broker shows operators.
    """
    settings, status = broker.settings, broker.core.status()
    guaranteed = status.guaranteed
    outboxes_max = (
        status.clients * settings.client_outbox_bytes
        + len(status.links) * settings.link_outbox_bytes
        + broker.connections * _FRAME_BYTES_MAX
    )
    figures = [
        ("bytes in outboxes", status.outbox_bytes, outboxes_max),
        ("bytes in caches", guaranteed.cache_bytes, pubends * settings.cache_bytes),
    ]
    for pubend, stream in guaranteed.streams.items():
        figures.append((f"bytes pending of {pubend}", stream.pending_bytes, settings.receive_window_bytes))
        figures.append((f"catch-ups of {pubend}", stream.catch_ups, settings.catch_ups_max))
    return [
        f"{broker.name} has {count:,} {what}, more than {count_max:,}"
        for what, count, count_max in figures
        if count > count_max
    ]


def told(error: Exception) -> str:
    """An exception with the stack frames it came from, the innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    lines = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames]
    return "\n".join([*lines, f"{type(error).__name__}: {error}"])
