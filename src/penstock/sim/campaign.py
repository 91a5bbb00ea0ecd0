"""Campaigns against best effort: a random overlay, a market on it, random blows, then healing.

The laws of the checkers hold throughout. After healing the overlay must converge: everybody connected, every
subscription in force, and from then on nothing missing. Everything a campaign does follows from its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Final

from penstock.model.errors import PenstockError
from penstock.sim.checkers import broken_laws, missing
from penstock.sim.client import SimClient
from penstock.sim.topologies import broker_names, tree
from penstock.sim.workloads.quotes import QuoteWorkload
from penstock.sim.world import Timed, World

__all__ = ["BrokenLawError", "Campaign", "NoProgressError"]

_SUBSCRIBERS_PER_BROKER: Final = 3
_TRADED: Final = 200
_LATENCIES_US: Final = (0, 500, 5_000, 50_000)
_PAUSES_MS: Final = (50, 500, 3_000, 9_000)


class BrokenLawError(PenstockError):
    """A law was broken: messages came twice, out of order, unasked for, or not at all."""


class NoProgressError(PenstockError):
    """The overlay did not come to rest after all harm was repaired."""


class Campaign:
    """One seed's overlay, harm and healing."""

    def __init__(self, seed: int | str, *, checks: bool = False) -> None:
        """Draw an overlay; with ``checks``, invariants are checked after every step of every broker."""
        self.world = World(seed, checks=checks)
        self._chance: Random = self.world.faults
        self._names = broker_names(self._chance.randrange(3, 8))
        self._pairs = self._drawn_links()
        self.world.add_brokers(self._pairs)
        # Fast and slow links together: when a path changes, messages overtake each other.
        for near, far in self._pairs:
            latency_us, jitter_us = self._chance.choice(_LATENCIES_US), self._chance.choice((0, 2_000))
            self.world.add_link(near, far, latency_us=latency_us, jitter_us=jitter_us)
        quotes = QuoteWorkload(self.world.workload, 8, days=60)
        self._stream = quotes.publications(1_000_000_000)
        self._selectors = quotes.subscriptions(1_000_000)
        self.publishers = [self.world.add_client(f"pub-{name}", name) for name in self._names]
        self.subscribers = [
            self._drawn_subscriber(number) for number in range(_SUBSCRIBERS_PER_BROKER * len(self._names))
        ]

    def run(self, *, blows_max: int = 12) -> str:
        """Trade quietly, do harm, heal, and trade quietly again; returns the digest of all that happened."""
        self._come_to_rest()
        self._trade_completely()
        for _ in range(self._chance.randrange(1, blows_max)):
            self.world.feed(self._trades())
            self._chance.choice(self._blows())()
            self.world.run_for(self._chance.choice(_PAUSES_MS))
        self._repair()
        self._come_to_rest()
        self._trade_completely()
        for broker in self.world.brokers.values():
            broker.check_invariants()
        return self.world.digest()

    # --- the world

    def _drawn_links(self) -> list[tuple[str, str]]:
        links = tree(self._names, children=self._chance.randrange(1, 4))
        for _ in range(self._chance.randrange(len(self._names))):
            one, other = self._chance.sample(self._names, 2)
            if (one, other) not in links and (other, one) not in links:
                links.append((one, other))
        return links

    def _drawn_subscriber(self, number: int) -> SimClient:
        client = self.world.add_client(f"sub-{number}", self._names[number % len(self._names)])
        client.subscribe(next(self._selectors))
        return client

    def _trades(self) -> Iterator[Timed]:
        for place, quote in enumerate(islice(self._stream, _TRADED)):
            yield 1_000 * place, self.publishers[place % len(self.publishers)], quote, b""

    # --- the laws

    def _come_to_rest(self) -> None:
        # Probes are sent again after half a second, and links that lost something are noticed after five.
        if not self.world.run_until_ready(limit_ms=60_000):
            waiting = [client.name for client in self.world.clients.values() if not client.is_ready]
            apart = [f"{one}-{other}" for (one, other), link in self.world.links.items() if not link.is_connected]
            raise NoProgressError(f"seed {self.world.seed}: clients {waiting} or links {apart} are not up again")
        self.world.run_for(1_000)

    def _trade_completely(self) -> None:
        before = len(missing(self.publishers, self.subscribers))
        self.world.feed(self._trades())
        self.world.run_for(_TRADED + 1_500)
        lost = missing(self.publishers, self.subscribers)
        problems = broken_laws(self.subscribers)
        if len(lost) > before:
            problems.append(f"{len(lost) - before} messages are missing in a sound overlay, the last: {lost[-1]}")
        if problems:
            raise BrokenLawError(f"seed {self.world.seed}: {problems[0]} ({len(problems)} problems)")

    # --- harm

    def _blows(self) -> list[Callable[[], None]]:
        return [
            self._cut,
            self._cut,
            self._stall,
            self._heal,
            self._cut_client,
            self._crash,
            self._stop,
            self._restart,
            self._restart,
            self._subscribe,
            self._unsubscribe,
        ]

    def _cut(self) -> None:
        one, other = self._chance.choice(self._pairs)
        self.world.cut(one, other, loud=self._flip(), one_way=self._flip())

    def _stall(self) -> None:
        self.world.link(*self._chance.choice(self._pairs)).stall()

    def _heal(self) -> None:
        self.world.heal(*self._chance.choice(self._pairs))

    def _cut_client(self) -> None:
        number = self._chance.randrange(len(self.subscribers))
        ends = f"sub-{number}", self._names[number % len(self._names)]
        self.world.cut(*ends, loud=self._flip())
        self.world.clock.after(self._chance.randrange(8_000_000), lambda: self.world.heal(*ends))

    def _crash(self) -> None:
        for name in self._one_that(is_up=True):
            self.world.crash(name, loud=self._flip())

    def _stop(self) -> None:
        for name in self._one_that(is_up=True):
            self.world.stop(name)

    def _restart(self) -> None:
        for name in self._one_that(is_up=False):
            self.world.restart(name)

    def _subscribe(self) -> None:
        self._chance.choice(self.subscribers).subscribe(next(self._selectors))

    def _unsubscribe(self) -> None:
        client = self._chance.choice(self.subscribers)
        if client.wanted:
            client.unsubscribe(self._chance.choice(list(client.wanted)))

    def _repair(self) -> None:
        for name, broker in self.world.brokers.items():
            if not broker.is_up:
                self.world.restart(name)
        for one, other in self.world.links:
            self.world.heal(one, other)
        # Connections that broke without notice are detected by their silence.
        self.world.run_for(12_000)

    def _one_that(self, *, is_up: bool) -> list[str]:
        names = [name for name, broker in self.world.brokers.items() if broker.is_up is is_up]
        return [self._chance.choice(names)] if names else []

    def _flip(self) -> bool:
        return self._chance.random() < 0.5
