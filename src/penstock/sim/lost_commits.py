"""What homes lose with a database that does not wait for its standby: whatever had not reached it at a promotion.

In the midst of all other harm, and some times when all else is well: then the law is as strict as for older copies of
disks (``older_copies``). If a subscriber got one of the lost messages at a broker that the home can reach, that broker
remembers it, and the pubend must mark its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Final, NamedTuple

from penstock.broker.durable import Append
from penstock.model.tick import TickRange
from penstock.sim.candidates import Home, Homes
from penstock.sim.client import SimClient
from penstock.sim.database import Record, Server
from penstock.sim.older_copies import Loss, cut_some, reached_from, remembered_of, unnoticed
from penstock.sim.world import World

__all__ = ["LostCommits"]

_SPREAD_MS: Final = (300, 1_500, 4_000)
"""How long messages have to spread before they are lost."""
_CLOCKS_MS: Final = (0, 0, 40, -40, 1_500, -1_500)
_AFTER_MS: Final = 20_000
"""Time in which another life begins where the home had failed, after some leases."""


class _Cut(NamedTuple):
    """What a home has lost with one promotion."""

    at_us: int
    home: Home
    messages: tuple[tuple[int, bytes], ...]
    """Tick and body of each message that was durable, and is not any more."""
    used: tuple[int, int]
    """The first and last tick that may have been used."""
    marks: int
    """How many marks of lost ticks the standby had seen."""


class LostCommits:
    """The commits that the homes of one world have lost."""

    def __init__(self, world: World, homes: Homes, note: Callable[[str, str], None]) -> None:
        self._world, self._homes, self._note = world, homes, note
        self._chance = Random(f"{world.seed}/lost-commits")
        self._cuts: list[_Cut] = []
        self._marked: dict[int, list[TickRange]] = {}
        """By the place of a cut, what was marked as lost between it and the next one of the same home."""
        self.problems: list[str] = []
        """Losses that were not recognised, though somebody remembered."""
        homes.database.on_promoted = self._on_promoted

    # --- what was lost

    def losses(self) -> list[Loss]:
        """What was lost so far, with every promotion."""
        losses: list[Loss] = []
        for place, each in enumerate(self._cuts):
            marked = self._marked.get(place)
            if marked is None:
                marked = [lost for _, lost in each.home.disk.marked[each.marks :]]
            first, last = each.used[0], max([tick for tick, _ in each.messages], default=each.used[0])
            is_recognised = any(lost.first <= first and last <= lost.last for lost in marked)
            ticks = frozenset(tick for tick, _ in each.messages)
            losses.append(Loss(each.at_us, each.home.plan.pubend, ticks, each.used, is_recognised))
        return losses

    def journal(self) -> list[tuple[str, int, bytes]]:
        """Pubend, tick and body of every message that was lost."""
        return [(each.home.plan.pubend, tick, body) for each in self._cuts for tick, body in each.messages]

    def _on_promoted(self, former: Server, promoted: Server) -> None:
        """A standby becomes the primary with what has reached it: the rest of the log is lost."""
        records = former.log[len(promoted.log) :]
        for home in self._homes.homes.values():
            lost = [each for each in records if each.home == home.plan.name and each.commits is not None]
            if lost:
                self._cut(home, lost, former, promoted)

    def _cut(self, home: Home, records: list[Record], former: Server, promoted: Server) -> None:
        pubend, name = home.plan.pubend, home.plan.name
        had, has = former.contents[name].disk, promoted.contents[name].disk
        appends = [each for record in records for each in record.changes if isinstance(each, Append)]
        messages = tuple((int(tick), body) for append in appends for tick, body in append.messages)
        first = has.last_tick(pubend) + 1
        used = first, max([first, had.lease(pubend), *(tick for tick, _ in messages)])
        for place, each in enumerate(self._cuts):
            if each.home is home and place not in self._marked:
                self._marked[place] = [lost for _, lost in had.marked[each.marks :]]
        self._note("lost_commits", f"{name} loses {len(records)} commits, with {len(messages)} messages")
        self._cuts.append(_Cut(self._world.clock.now_us, home, messages, used, len(has.marked)))

    # --- in peace

    def lose_in_peace(self, clients: Iterable[SimClient], trade: Callable[[], None]) -> None:
        """Lose some commits when all is well, while some subscribers are cut off; note what is not recognised."""
        database = self._homes.database
        primary, known = database.primary, len(self._cuts)
        if primary.standby is None or not primary.standby.is_up or not primary.is_up:
            return
        trade()
        self._world.run_for(self._chance.choice(_SPREAD_MS))
        primary.is_replicating = False
        brokers = {name for home in self._homes.homes.values() for name in home.plan.candidates}
        cut = cut_some(self._world, self._chance, brokers)
        trade()
        self._world.run_for(self._chance.choice(_SPREAD_MS))
        primary.crash(loud=self._chance.random() < 0.5)
        remembered: dict[str, int] = {}
        promoted = database.promote()
        assert promoted is not None
        promoted.clock_offset_ms = self._chance.choice(_CLOCKS_MS)
        for each in self.losses()[known:]:
            home = next(home for home in self._homes.homes.values() if home.plan.pubend == each.pubend)
            reached = reached_from(self._world, home.holder)
            remembered |= remembered_of({each.pubend: each.ticks}, clients, reached)
        database.rejoin()
        primary.is_replicating = True
        trade()
        self._world.run_for(_AFTER_MS)
        for pair in cut:
            self._world.heal(*pair)
        self.problems += unnoticed(self.losses()[known:], remembered)
