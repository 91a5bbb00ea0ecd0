"""A virtual world: brokers, links and clients on one clock, everything in it following from one seed.

Random numbers come from children of the seed, one each for links, faults, the workload and every life of every broker,
so that a change to one leaves the others unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final, TextIO

from penstock.broker.broker import Broker
from penstock.broker.settings import BrokerSettings
from penstock.model.errors import MisuseError
from penstock.model.values import Attributes
from penstock.session.settings import Choice
from penstock.sim.candidates import Around, HomePlan, Homes
from penstock.sim.client import SimClient, address_of
from penstock.sim.clock import Clock
from penstock.sim.database import Database
from penstock.sim.host import CostModel, Host
from penstock.sim.link import ClientLink, Link
from penstock.sim.node import SimBroker
from penstock.sim.ports import MakeBroker
from penstock.sim.shell import Surroundings
from penstock.sim.trace import Trace
from penstock.sim.wire import LinkOptions

__all__ = ["START_MS", "Timed", "World"]

START_MS: Final = 1_767_225_600_000
"""When every world begins: the start of 2026, so that ticks and identifiers look as they do in real life."""
_LOOK_US: Final = 10_000
_SETTLE_MS: Final = 200

Timed = tuple[int, SimClient, Attributes, bytes]
"""A future publication: microseconds after the start, publisher, attributes, payload."""


class World:
    """One simulated overlay."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        checks: bool = False,
        output: TextIO | None = None,
        trace_lines: int = 10_000,
        make_broker: MakeBroker = Broker,
    ) -> None:
        """Begin a world; with ``checks``, brokers' invariants are checked after every step (slow)."""
        start_us = START_MS * 1_000
        self.seed = seed
        self.clock = Clock(start_us)
        self.trace = Trace(start_us=start_us, output=output, lines_max=trace_lines)
        self.faults, self.workload = Random(f"{seed}/faults"), Random(f"{seed}/workload")
        """Random numbers for faults, and for the workload."""
        self.brokers: dict[str, SimBroker] = {}
        self.clients: dict[str, SimClient] = {}
        self.links: dict[tuple[str, str], Link] = {}
        """By the names of caller and callee."""
        self.removed: dict[tuple[str, str], None] = {}
        """Links that are in no broker's settings now."""
        self.homes: Homes | None = None
        """The homes of pubends with candidates, if there are any."""
        self._client_options: dict[str, LinkOptions] = {}
        self._links_rng = Random(f"{seed}/links")
        self._make_broker, self._checks = make_broker, checks
        self.surroundings = Surroundings(
            self.clock, self.trace, Host(self.clock), self.client_link, self.given_up, seed
        )
        """What clients see of this world."""

    # --- building

    def add_broker(
        self,
        settings: BrokerSettings,
        *,
        cost: CostModel | None = None,
        speed: float = 1.0,
        memory_bytes: int | None = None,
    ) -> SimBroker:
        """Start a broker on a host of its own, which by default is infinitely fast and large."""
        self._check_new(settings.name)
        broker = SimBroker(
            settings if settings.address else replace(settings, address=address_of(settings.name)),
            self._make_broker,
            seed=f"{self.seed}/brokers",
            clock=self.clock,
            trace=self.trace,
            host=Host(self.clock, cost, speed=speed, memory_bytes=memory_bytes),
            checks=self._checks,
        )
        self.brokers[settings.name] = broker
        return broker

    def add_homes(self, plans: Iterable[HomePlan], database: Database) -> Homes:
        """Let brokers be candidates for homes, whose data is in a shared database."""
        around = Around(self.clock, self.trace, self._make_broker, str(self.seed), self._checks)
        self.homes = Homes(tuple(plans), self.brokers, database, around)
        return self.homes

    def add_link(self, caller: str, callee: str, **options: Any) -> Link:
        """Connect two brokers, for as long as both run; options as in ``LinkOptions``."""
        near, far = self.broker(caller), self.broker(callee)
        if (caller, callee) in self.links or (callee, caller) in self.links:
            raise MisuseError(f"there is a link between {caller} and {callee} already")
        return self._linked(
            caller, callee, Link(self.clock, self._links_rng, near, far, options=LinkOptions(**options))
        )

    def add_client(
        self,
        name: str,
        broker: str,
        *,
        credential: str = "",
        is_pinned: bool = False,
        choice: Choice = "near",
        **options: Any,
    ) -> SimClient:
        """Connect a client to a broker, for as long as both run; options as in ``LinkOptions``."""
        client = SimClient(
            name,
            self.surroundings,
            place=broker,
            overlay=self.broker(broker).settings.overlay,
            credential=credential,
            is_pinned=is_pinned,
            choice=choice,
        )
        self.admit(client, LinkOptions(**options))
        return client

    def admit(self, client: SimClient, options: LinkOptions) -> None:
        """Add a client to this world and open its connection; all its links are alike."""
        self._check_new(client.name)
        self.clients[client.name] = client
        self._client_options[client.name] = options
        self.client_link(client.name, client.place)
        client.open()

    def place(self, client: str, broker: str, *, loud: bool = True) -> None:
        """Move a client to this broker, wherever it was and whether its process was alive or not.

        Its link there is like its first one. If loud, the network tells the broker where it was.
        """
        self.withdraw(client, loud=loud)
        self._note(f"{client} goes to {broker}")
        self.client_link(client, broker)
        self.clients[client].come_to(broker)

    def withdraw(self, client: str, *, loud: bool = True) -> None:
        """Take a client away until it is placed somewhere."""
        self.clients[client].go_away(loud=loud)

    def add_overlay(
        self,
        links: Iterable[tuple[str, str]],
        *,
        settings: Mapping[str, Any] | None = None,
        cost: CostModel | None = None,
        guaranteed: bool = False,
        **options: Any,
    ) -> list[SimBroker]:
        """Start all brokers that these links name, and the links, with the same options."""
        pairs = list(links)
        made = self.add_brokers(pairs, settings=settings, cost=cost, guaranteed=guaranteed)
        for near, far in pairs:
            self.add_link(near, far, **options)
        return made

    def add_brokers(
        self,
        links: Iterable[tuple[str, str]],
        *,
        settings: Mapping[str, Any] | None = None,
        cost: CostModel | None = None,
        guaranteed: bool = False,
    ) -> list[SimBroker]:
        """Start all brokers that future links will name, each with a pubend ``<name>-pubend``.

        The settings apply to all brokers, and take precedence. Unless guaranteed, all pubends are best effort.
        """
        neighbours: dict[str, list[str]] = {}
        for near, far in links:
            neighbours.setdefault(near, []).append(far)
            neighbours.setdefault(far, []).append(near)
        made = []
        for number, (name, others) in enumerate(neighbours.items(), start=len(self.brokers) + 1):
            chosen = {"number": number, "pubends": (f"{name}-pubend",), "neighbours": tuple(others), **(settings or {})}
            chosen.setdefault("best_effort", () if guaranteed else chosen["pubends"])
            made.append(self.add_broker(BrokerSettings(name=name, **chosen), cost=cost))
        return made

    # --- harm and repair

    def crash(self, name: str, *, loud: bool = True) -> None:
        """End a broker with all its state; if loud, the network tells its peers, as after a kill."""
        self.broker(name).crash(loud=loud)

    def stop(self, name: str) -> None:
        """End a broker in an orderly way."""
        self.broker(name).stop()

    def restart(self, name: str, *, clock_offset_ms: int | None = None) -> None:
        """Start a broker that is down, with what is on its disk; its wall clock may have been set meanwhile."""
        broker = self.broker(name)
        if clock_offset_ms is not None:
            broker.clock_offset_ms = clock_offset_ms
        broker.start()
        for pair, link in self.links.items():
            if pair[0] == name and pair not in self.removed:
                link.want()

    def link(self, one: str, other: str) -> Link:
        """The link between two nodes, whoever dials."""
        link = self.links.get((one, other)) or self.links.get((other, one))
        if link is None:
            raise MisuseError(f"there is no link between {one} and {other}")
        return link

    def cut(self, one: str, other: str, *, loud: bool = False, one_way: bool = False) -> None:
        """Cut a link; if one way, only what the first sends to the other is lost."""
        is_from_caller = (one, other) in self.links
        self._note(f"the link {one} {other} is cut, {loud=} {one_way=}")
        self.link(one, other).cut(
            loud=loud, forward=is_from_caller or not one_way, backward=not (is_from_caller and one_way)
        )

    def unlink(self, one: str, other: str) -> None:
        """Remove a link from the settings of both brokers, which keep running."""
        self._note(f"the link {one} {other} is removed")
        self.removed[(one, other) if (one, other) in self.links else (other, one)] = None
        self.link(one, other).unwant()
        self._set_neighbours(one, other, is_linked=False)

    def relink(self, one: str, other: str) -> None:
        """Put a link back into the settings of both brokers."""
        self._note(f"the link {one} {other} is added")
        del self.removed[(one, other) if (one, other) in self.links else (other, one)]
        self._set_neighbours(one, other, is_linked=True)
        self.link(one, other).want()

    def heal(self, one: str, other: str) -> None:
        """Mend a link that was cut or stalled."""
        self._note(f"the link {one} {other} is healed")
        self.link(one, other).heal()

    # --- time

    @property
    def elapsed_ms(self) -> int:
        """Virtual time since the world began."""
        return self.clock.now_ms - START_MS

    def run_for(self, ms: int) -> None:
        """Let this much virtual time pass."""
        self.clock.run_for(ms * 1_000)

    def run_until(self, is_reached: Callable[[], bool], *, limit_ms: int) -> bool:
        """Let time pass until a condition holds, checked every ten milliseconds; returns False at the limit."""
        end_us = self.clock.now_us + limit_ms * 1_000
        while not is_reached():
            if self.clock.now_us >= end_us:
                return False
            self.clock.run_until(min(end_us, self.clock.now_us + _LOOK_US))
        return True

    def run_until_ready(self, *, limit_ms: int = 30_000) -> bool:
        """Let time pass until links are up, clients connected and their subscriptions in force, and a little more.

        The little more is for brokers that confirm subscriptions before they have heard of the whole overlay.
        """
        is_ready = self.run_until(self._is_ready, limit_ms=limit_ms)
        self.run_for(_SETTLE_MS)
        return is_ready and self._is_ready()

    def feed(self, publications: Iterable[Timed]) -> None:
        """Publish these, each at its time from now, in ascending order; they are drawn one by one."""
        self._feed_next(iter(publications), self.clock.now_us)

    # --- looking

    def broker(self, name: str) -> SimBroker:
        """The broker of that name."""
        broker = self.brokers.get(name)
        if broker is None:
            raise MisuseError(f"there is no broker {name}")
        return broker

    def given_up(self) -> dict[str, int]:
        """By pubend, the highest tick below which its broker ever wanted to trim."""
        own = {pubend: tick for broker in self.brokers.values() for pubend, tick in broker.device.given_up.items()}
        return own | (self.homes.given_up() if self.homes is not None else {})

    @property
    def nodes(self) -> list[SimBroker]:
        """All brokers, homes at all their seats included, up or not."""
        return [*self.brokers.values(), *(self.homes.nodes if self.homes is not None else [])]

    @property
    def running_homes(self) -> list[SimBroker]:
        """The homes that run now."""
        return [node for node in self.homes.nodes if node.is_up] if self.homes is not None else []

    def digest(self) -> str:
        """A fingerprint of all that happened: the same seed gives the same one."""
        return self.trace.digest()

    def _is_ready(self) -> bool:
        links = [link for link in self.links.values() if link.is_wanted and link.caller.is_up and link.callee.is_up]
        clients = [client for client in self.clients.values() if client.is_up]
        return all(link.is_connected for link in links) and all(client.is_ready for client in clients)

    def _set_neighbours(self, one: str, other: str, *, is_linked: bool) -> None:
        for name, far in ((one, other), (other, one)):
            broker = self.broker(name)
            others = tuple(each for each in broker.settings.neighbours if each != far)
            broker.apply(replace(broker.settings, neighbours=(*others, far) if is_linked else others))

    def _feed_next(self, publications: Iterator[Timed], start_us: int) -> None:
        following = next(publications, None)
        if following is not None:
            at_us, client, attributes, payload = following

            def publish() -> None:
                client.publish(attributes, payload)
                self._feed_next(publications, start_us)

            self.clock.at(start_us + at_us, publish)

    def client_link(self, client: str, broker: str) -> ClientLink:
        """The link of a client to a broker, made when first needed."""
        link = self.links.get((client, broker))
        if link is None:
            far, options = self.broker(broker), self._client_options[client]
            link = ClientLink(self.clock, self._links_rng, self.clients[client], far, options=options)
            self.links[client, broker] = link
        assert isinstance(link, ClientLink)
        return link

    def _linked(self, caller: str, callee: str, link: Link) -> Link:
        self.links[caller, callee] = link
        link.want()
        return link

    def _check_new(self, name: str) -> None:
        if name in self.brokers or name in self.clients:
            raise MisuseError(f"the name {name} is taken")

    def _note(self, what: str) -> None:
        self.trace.note(self.clock.now_us, "world", what)
