"""The fates of clients with durable subscriptions in a campaign: deaths, absences, moves, take-overs, forgetting.

There are a few names, and more clients than names. An absent client comes back at the same broker or another, after
milliseconds or after much longer than anything else is kept; one whose process survived states what it has, one that
died knows only the name. Several clients may want the same name: the last to come gets it. When the world heals,
everybody comes back, and somebody claims every name that was not forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from penstock.protocol.frames import LATEST, Missing
from penstock.sim.client import SimClient
from penstock.sim.records import Acknowledged
from penstock.sim.world import World

__all__ = ["Lives"]

_ABSENCES_MS: Final = (20, 1_000, 6_000, 15_000, 100_000)
_HABITS: Final = ((0, 1), (0, 1), (3, 1), (12, 1), (0, 7), (2, 40))
"""How many messages are left unacknowledged, and how many opportunities it takes for one acknowledgement."""
_SLOWEST: Final = (0, 40)
_SINGLE: Final = 0.4
"""The share of lives that acknowledge single messages."""
_NAMES_MAX: Final = 5
_MISSING: Final[tuple[Missing, ...]] = ("fail", "earliest", "latest")
_PURGE_MS: Final = 4_000
"""Time in which a request to forget must be answered."""
_SETTLE_MS: Final = 15_000
"""Time in which an acknowledgement reaches any pubend, if nothing is broken."""


class Lives:
    """The durable names of one world, and the clients that want them."""

    def __init__(
        self,
        world: World,
        clients: Sequence[SimClient],
        selectors: Sequence[str],
        *,
        note: Callable[[str, str], None],
        may_keep_back: bool = True,
        draw_pubends: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        """Make a name for each selector; events are noted with their kind.

        Where logs fill up soon, ``may_keep_back`` must be false: a client that never acknowledges its last messages
        would hold up everybody. ``draw_pubends`` says which pubends a new name wants; none for all.
        """
        self._world, self._chance, self._note = world, world.faults, note
        self._brokers = list(world.brokers)
        self._habits = _HABITS if may_keep_back else [each for each in _HABITS if not each[0]]
        self.clients = list(clients)
        self.names = {f"name-{number}": selector for number, selector in enumerate(selectors)}
        """Selectors by name, of all names that were not forgotten."""
        # A child generator of its own, so that older seeds still do the same otherwise.
        self._picking = Random(f"{world.seed}/lives/picking")
        self._draw_pubends = draw_pubends
        self._pubends = {name: draw_pubends() for name in self.names}
        """The pubends that each name wants; none for all."""
        self.condemned: dict[str, str] = {}
        """Selectors by name, of names that are to be forgotten."""
        self.forgotten: dict[str, int] = {}
        """When the world was told that all pubends have forgotten a name."""
        self.counts: Counter[str] = Counter()
        """Rare events, for the probes."""
        self._roles = dict(zip([client.name for client in clients], list(self.names) * len(clients), strict=False))
        for client, name in zip(self.clients, self.names, strict=False):
            self._claim(client, name)

    # --- harm

    def strike(self) -> None:
        """Let one random thing happen to a client, if there are any."""
        if not self.clients:
            return
        self._chance.choice(
            (
                self._die,
                self._die,
                self._vanish,
                self._move,
                self._give_up,
                self._take_over,
                self._usurp,
                self._condemn,
                self._add_name,
                self._add_name,
            )
        )()

    def die_at_rest(self) -> None:
        """End most processes; many come back long after other clients are given up. Acknowledged positions stay."""
        for client in self.clients:
            if self._chance.random() < 0.7:
                self._end(client, self._chance.choice((1_000, 80_000, 100_000)))

    def _die(self) -> None:
        client = self._chance.choice(self.clients)
        if client.is_up:
            self._end(client, self._chance.choice(_ABSENCES_MS))

    def _end(self, client: SimClient, absence_ms: int) -> None:
        self._note("death", f"{client.name} dies")
        self._count_absence(absence_ms)
        client.die(loud=self._flip())
        self._world.withdraw(client.name)
        self._after(absence_ms, partial(self._come_back, client))

    def _vanish(self) -> None:
        """Take a client away, but alive: it comes back with all it has."""
        client = self._chance.choice(self.clients)
        absence_ms = self._chance.choice(_ABSENCES_MS)
        self._note("absence", f"{client.name} goes away")
        self._count_absence(absence_ms)
        self._world.withdraw(client.name, loud=self._flip())
        self._after(absence_ms, partial(self._come_back, client))

    def _move(self) -> None:
        client = self._chance.choice(self.clients)
        if client.is_up:
            broker = self._chance.choice(self._brokers)
            self._note("move", f"{client.name} moves to {broker}")
            self._world.place(client.name, broker, loud=self._flip())

    def _give_up(self) -> None:
        """Unsubscribe a client for a while, without forgetting its name: the position stays."""
        client = self._chance.choice(self.clients)
        for number in list(client.wanted):
            self._note("give_up", f"{client.name} gives {client.subscriptions[number].durable} up for a while")
            client.unsubscribe(number)
            self._after(self._chance.choice(_ABSENCES_MS), partial(self._come_back, client))

    def _take_over(self) -> None:
        client = self._chance.choice(self.clients)
        if self.names and client.is_up:
            name = self._chance.choice(list(self.names))
            if name not in self._held_by(client):
                self._note("take_over", f"{client.name} wants {name}")
                self._roles[client.name] = name
                self._claim(client, name)

    def _usurp(self) -> None:
        """Take a name over while its holder is cut off with its broker: what it then acknowledges comes too late."""
        name = self._chance.choice(list(self.names))
        holders = [client for client in self.clients if name in self._held_by(client) and self._is_placed(client)]
        others = [client for client in self.clients if client not in holders and client.is_up]
        if not holders or not others:
            return
        host, usurper = self._place_of(holders[0]), self._chance.choice(others)
        self._note("usurp", f"{usurper.name} wants {name}, while {host} is cut off")
        for one, other in [pair for pair in self._world.links if host in pair and set(pair) <= set(self._brokers)]:
            self._world.cut(one, other)
            self._after(6_000, partial(self._world.heal, one, other))
        elsewhere = [broker for broker in self._brokers if broker != host]
        self._world.place(usurper.name, self._chance.choice(elsewhere))
        self._roles[usurper.name] = name
        self._claim(usurper, name, habit=_SLOWEST)
        self._after(self._chance.choice((8_000, 11_000)), partial(self._end_if_up, usurper))

    def _end_if_up(self, client: SimClient) -> None:
        if client.is_up:
            self._end(client, self._chance.choice((20, 1_000)))

    def _add_name(self) -> None:
        """Add a name while harm is done, as names are not only made in peace."""
        client = self._chance.choice(self.clients)
        if len(self.names) < _NAMES_MAX and client.is_up:
            name = f"late-{len(self.names) + len(self.condemned)}-{self._world.elapsed_ms}"
            self._note("new_name", f"{client.name} wants {name}, which is new")
            self.names[name] = self._chance.choice(list(self.names.values()))
            self._pubends[name] = self._draw_pubends()
            self._claim(client, name)

    def _condemn(self) -> None:
        if len(self.names) < 2 or self._chance.random() < 0.7:
            return
        name = self._chance.choice(list(self.names))
        self._note("forget", f"{name} is to be forgotten")
        self.condemned[name] = self.names.pop(name)
        for client in self.clients:
            for number in [each for each in client.wanted if client.subscriptions[each].durable == name]:
                client.unsubscribe(number)
            if self._roles[client.name] == name:
                self._roles[client.name] = self._chance.choice(list(self.names))
        self._chance.choice(self.clients).forget(name)

    # --- coming back

    def gather(self) -> None:
        """Bring everybody back, and have somebody claim every unclaimed name."""
        for client in self.clients:
            if not self._is_placed(client):
                self._come_back(client)
        for name in self.unclaimed():
            self.counts["names_unclaimed"] += 1
            self._claim(self._chance.choice(self.clients), name)

    def purge(self, client: SimClient) -> str:
        """Have condemned names forgotten for good, while nothing is broken; returns what could not be."""
        for name in list(self.condemned):
            for _ in range(3):
                client.forgotten.pop(name, None)
                client.forget(name)
                self._world.run_until(lambda name=name: name in client.forgotten, limit_ms=_PURGE_MS)  # type: ignore[misc]
                if name in client.forgotten:
                    break
            else:
                return f"{name} could not be forgotten"
            self.forgotten[name] = self._world.clock.now_us
            if keepers := self._keepers_of(name):
                return f"{name} is forgotten, and {keepers[0]} still keeps it"
            self._begin_anew(name)
        return ""

    def settle(self) -> None:
        """Wait, in a world at rest, until everything acknowledged so far must be stored; record it as settled."""
        last = [
            (record, list(record.acknowledged))
            for client in self.clients
            for record in map(client.subscriptions.__getitem__, client.wanted)
        ]
        self._world.run_for(_SETTLE_MS)
        now_us = self._world.clock.now_us
        for record, acknowledged in last:
            # A subscription that was given up or taken over meanwhile may have been overtaken by others before.
            if record.ended_us is None and not record.refused:
                record.settled = {each.pubend: Acknowledged(now_us, *each[1:]) for each in acknowledged}

    def unrest(self) -> str:
        """What is wrong in the end, when every name must have one holder; empty if nothing is."""
        for name in self.names:
            holders = self.holders(name)
            if len(holders) != 1:
                return f"durable subscription {name} is held by {', '.join(holders) or 'nobody'}"
            strange = [
                each for each in self._keepers_of(name) if self._pubends[name] and each not in self._pubends[name]
            ]
            if strange:
                return f"durable subscription {name} does not want {strange[0]}, which keeps it"
        return self._waiting()

    def _waiting(self) -> str:
        """Who has waited for long to hear that a message is kept."""
        for client in self.clients:
            for number, pubend, tick in client.overdue:
                return f"{client.name} waits until {pubend} {tick} of subscription {number} is kept"
        return ""

    def unclaimed(self) -> list[str]:
        """The names that nobody has or wants."""
        return [name for name in self.names if not self.holders(name)]

    def holders(self, name: str) -> list[str]:
        """The clients that have a name or want it."""
        return [client.name for client in self.clients if name in self._held_by(client)]

    def _begin_anew(self, name: str) -> None:
        selector = self.condemned.pop(name)
        if self._flip():
            self.names[name] = selector
            self._claim(self._chance.choice(self.clients), name, is_anew=True)

    def _keepers_of(self, name: str) -> list[str]:
        """The pubends that keep a name."""
        return [
            pubend
            for broker in [*self._world.brokers.values(), *self._world.running_homes]
            for pubend, figures in broker.core.status().guaranteed.pubends.items()
            if name in figures.durables
        ]

    def _come_back(self, client: SimClient) -> None:
        if not self._is_placed(client):
            before = self._place_of(client)
            broker = before if self._flip() else self._chance.choice(self._brokers)
            self._note("return", f"{client.name} comes back at {broker}")
            self.counts["durables_moved"] += broker != before
            self._world.place(client.name, broker)
        name = self._roles[client.name]
        if name in self.names and not client.wanted:
            self._claim(client, name)

    def _claim(
        self, client: SimClient, name: str, *, is_anew: bool = False, habit: tuple[int, int] | None = None
    ) -> None:
        # Where it begins matters only if nobody has ever had the name.
        otherwise = LATEST if is_anew else self._chance.choice((LATEST, LATEST, 0))
        # A client was refused because the position is gone, as it had asked: now take what is left.
        lapsed = any(
            record.durable == name and "not kept any more" in record.refused
            for each in self.clients
            for record in each.subscriptions.values()
        )
        missing: Missing = self._chance.choice(_MISSING[1:] if lapsed else _MISSING)
        client.subscribe(
            self.names[name],
            otherwise=otherwise,
            missing=missing,
            durable=name,
            habit=habit or self._chance.choice(self._habits),
            is_single=self._picking.random() < _SINGLE,
            pubends=self._pubends[name],
        )

    # --- tools

    def _held_by(self, client: SimClient) -> list[str]:
        return [client.subscriptions[number].durable for number in client.wanted]

    def _is_placed(self, client: SimClient) -> bool:
        return client.is_up and any(
            link.is_wanted for (name, _), link in self._world.links.items() if name == client.name
        )

    def _place_of(self, client: SimClient) -> str:
        """The broker where a client is; where it first was, if it is away."""
        links = {broker: link for (name, broker), link in self._world.links.items() if name == client.name}
        return next((broker for broker, link in links.items() if link.is_wanted), next(iter(links)))

    def _count_absence(self, absence_ms: int) -> None:
        self.counts["long_absences"] += absence_ms > 60_000

    def _after(self, ms: int, what: Callable[[], None]) -> None:
        self._world.clock.after(ms * 1_000, what)

    def _flip(self) -> bool:
        return self._chance.random() < 0.5
