"""A fault: a broker comes back with an older copy of its disk, and does not know what it has lost.

In the midst of all other harm, and once when all else is well: then the law is strict. If a subscriber at another
broker got one of the lost messages, that broker remembers it, and the pubend must mark its loss. Whoever was away, or
cut off, must get each lost message or be told that it is lost. Where nobody remembers, nobody can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from random import Random
from typing import Final, NamedTuple, TypeAlias

from penstock.model.tick import Tick, format_tick
from penstock.sim.client import SimClient
from penstock.sim.disk import Disk
from penstock.sim.node import SimBroker
from penstock.sim.world import World

__all__ = ["Loss", "OlderCopies", "cut_some", "reached_from", "remembered_of", "unnoticed"]

_SHARE: Final = 0.3
"""The share of seeds that have this fault."""
_STRIKES: Final = 0.1
"""Probability that a copy is made while a blow takes effect."""
_OLD_MS: Final = (50, 500, 3_000, 12_000)
"""How long after it was made a copy comes back."""
_DOWN_MS: Final = (20, 200, 700)
_SPREAD_MS: Final = (300, 1_500, 4_000)
"""How long messages have to spread before they are lost."""
_CLOCKS_MS: Final = (0, 0, 3_000, -3_000, -3_600_000)
_AFTER_MS: Final = 8_000
"""Time in which brokers find each other again, and the pubend begins."""


_Place: TypeAlias = tuple[str, int]
"""Pubend and tick of a message."""


class Loss(NamedTuple):
    """What a pubend has lost with one older copy, or one promotion of a standby that lacked commits."""

    at_us: int
    pubend: str
    ticks: frozenset[int]
    """The ticks at which a message was durable and is not any more."""
    used: tuple[int, int]
    """The first and last tick that the pubend may have used, and does not know of any more."""
    is_recognised: bool
    """Whether the pubend has marked them as lost; else nobody can be blamed for them."""


class _Copy(NamedTuple):
    """A copy of a disk."""

    disk: Disk
    had: frozenset[_Place]
    """The messages that ever were durable on it."""


class _Restored(NamedTuple):
    """An older copy that came back."""

    at_us: int
    broker: SimBroker
    ticks: dict[str, frozenset[int]]
    """The ticks of the messages that were lost, by pubend."""
    used: dict[str, tuple[int, int]]
    """The first and last tick that may have been used, by pubend."""
    marks: int
    """How many marks the disk had seen before."""


class OlderCopies:
    """The older copies of one world."""

    def __init__(self, world: World, seed: int | str, note: Callable[[str, str], None]) -> None:
        self._world, self._note = world, note
        self._chance = Random(f"{seed}/older-copies")
        self.is_on = self._chance.random() < _SHARE
        """Whether this seed has the fault."""
        self._restored: list[_Restored] = []
        self.gone: set[_Place] = set()
        """The messages that are lost now: a copy made before an earlier loss brings what that one took."""
        self.problems: list[str] = []
        """Losses that were not recognised, though somebody remembered."""

    # --- in the midst of harm

    def strike(self) -> None:
        """Perhaps make a copy, which comes back a little later."""
        if not self.is_on or self._chance.random() >= _STRIKES:
            return
        broker = self._one()
        if broker is None:
            return
        self._note("older_copy", f"the disk of {broker.name} is copied")
        come_back = partial(self._come_back, broker, self._copied(broker))
        self._world.clock.after(self._chance.choice(_OLD_MS) * 1_000, come_back)

    def _come_back(self, broker: SimBroker, copy: _Copy) -> None:
        self._restore(broker, copy)
        self._world.clock.after(self._chance.choice(_DOWN_MS) * 1_000, partial(self._start, broker))

    def _start(self, broker: SimBroker) -> None:
        if not broker.is_up:
            self._world.restart(broker.name)

    # --- in peace

    def restore_in_peace(self, clients: Iterable[SimClient], trade: Callable[[], None]) -> None:
        """Lose some messages when all is well, while some subscribers are cut off; note what is not recognised."""
        broker = self._one()
        if broker is None or not broker.is_up:
            return
        trade()
        self._world.run_for(self._chance.choice(_SPREAD_MS))
        copy = self._copied(broker)
        cut = cut_some(self._world, self._chance, {broker.name})
        trade()
        self._world.run_for(self._chance.choice(_SPREAD_MS))
        self._restore(broker, copy)
        restored = self._restored[-1]
        # It has forgotten all that it had heard itself.
        reached = reached_from(self._world, broker.name) - {broker.name}
        remembered = remembered_of(restored.ticks, clients, reached)
        self._world.run_for(self._chance.choice(_DOWN_MS))
        offset_ms = self._chance.choice(_CLOCKS_MS)
        # Where nobody remembers, a clock that was set back would have ticks used again.
        is_remembered = all(pubend in remembered for pubend, ticks in restored.ticks.items() if ticks)
        self._world.restart(broker.name, clock_offset_ms=offset_ms if is_remembered else None)
        for pair in cut:
            self._world.heal(*pair)
        trade()
        self._world.run_for(_AFTER_MS)
        self.problems += unnoticed([loss for loss in self.losses() if loss.at_us == restored.at_us], remembered)

    # --- what was lost

    def losses(self) -> list[Loss]:
        """What was lost so far, with every copy that came back."""
        losses: list[Loss] = []
        for place, each in enumerate(self._restored):
            later = [other.marks for other in self._restored[place + 1 :] if other.broker is each.broker]
            marked = each.broker.disk.marked[each.marks : later[0] if later else None]
            for pubend, ticks in each.ticks.items():
                used = each.used[pubend]
                last = max(ticks, default=used[0])
                is_recognised = any(
                    pubend == name and lost.first <= used[0] and last <= lost.last for name, lost in marked
                )
                losses.append(Loss(each.at_us, pubend, ticks, used, is_recognised))
        return losses

    def _copied(self, broker: SimBroker) -> _Copy:
        return _Copy(broker.disk.copy(), frozenset(_written(broker) - self.gone))

    def _restore(self, broker: SimBroker, copy: _Copy) -> None:
        if broker.is_up:
            self._world.crash(broker.name, loud=self._chance.random() < 0.5)
        written = _written(broker)
        lost = written - self.gone - copy.had
        self.gone = (self.gone | lost) - copy.had
        ticks: dict[str, frozenset[int]] = {}
        used: dict[str, tuple[int, int]] = {}
        for pubend in broker.disk.pubends():
            ticks[pubend] = frozenset(tick for name, tick in lost if name == pubend)
            # A clock that was set back has some lost messages lie among those of the copy: nobody can recognise that.
            first = min([copy.disk.last_tick(pubend) + 1, *ticks[pubend]])
            ever = [tick for name, tick in written if name == pubend]
            used[pubend] = (first, max([first, broker.disk.lease(pubend), *ever]))
        self._note("older_copy_back", f"{broker.name} crashes, and gets an older copy of its disk")
        self._restored.append(_Restored(self._world.clock.now_us, broker, ticks, used, len(broker.disk.marked)))
        broker.disk.restore(copy.disk)

    def _one(self) -> SimBroker | None:
        """A broker whose guaranteed pubends all have logs."""
        found = [
            broker
            for broker in self._world.brokers.values()
            if broker.disk.pubends() and all(map(broker.disk.trimmed_below, _guaranteed(broker)))
        ]
        return self._chance.choice(found) if found else None


def _written(broker: SimBroker) -> set[_Place]:
    """The messages that ever were durable at a broker."""
    return {(pubend, tick) for pubend, tick, _ in broker.disk.journal or ()}


def cut_some(world: World, chance: Random, spared: AbstractSet[str]) -> list[tuple[str, str]]:
    """Cut links, of brokers or of clients, but none of the spared brokers with another one; returns which."""
    wanted = [pair for pair, link in world.links.items() if link.is_wanted and link.is_whole]
    pairs = [pair for pair in wanted if pair[0] not in world.brokers or not spared & set(pair)]
    cut = chance.sample(pairs, min(len(pairs), chance.randrange(4)))
    for pair in cut:
        world.cut(*pair, loud=chance.random() < 0.7)
    return cut


def reached_from(world: World, name: str) -> set[str]:
    """The brokers to which whole links lead from this one, itself included."""
    reached = {name: None}
    waiting = [name]
    for one in waiting:
        for pair, link in world.links.items():
            other = pair[0] if pair[1] == one else pair[1]
            if one in pair and other in world.brokers and other not in reached and link.is_whole:
                reached[other] = None
                waiting.append(other)
    return set(reached)


def remembered_of(
    lost: Mapping[str, frozenset[int]], clients: Iterable[SimClient], brokers: Collection[str]
) -> dict[str, int]:
    """By pubend, the last of the lost messages that somebody got who is at one of these brokers."""
    found: dict[str, int] = {}
    for client in clients:
        for each in client.deliveries if client.place in brokers and not client.is_away else ():
            if each.tick in lost.get(each.pubend, ()):
                found[each.pubend] = max(each.tick, found.get(each.pubend, 0))
    return found


def unnoticed(losses: Iterable[Loss], remembered: Mapping[str, int]) -> list[str]:
    """Complaints about losses that were not recognised, though somebody remembered."""
    return [
        f"{loss.pubend} lost {format_tick(Tick(remembered[loss.pubend]))}, which was remembered elsewhere, "
        "and did not notice"
        for loss in losses
        if loss.pubend in remembered and not loss.is_recognised
    ]


def _guaranteed(broker: SimBroker) -> list[str]:
    settings = broker.settings
    return [pubend for pubend in settings.pubends if pubend not in settings.best_effort]
