"""Campaigns against pubends that move: the delivery campaign, where pubends have candidates and share a database.

Everything else is as there: the market, all harm, healing, and the laws. On top of these, a life of a home takes no
step once a later one has begun, and the database answers nobody else than the holder. What counts as durable is what
the database has in the end: what only a former primary has was never acknowledged.

Some databases do not wait for their standby, and lose commits when it is promoted. Then each lost message must come to
whoever is owed it, or be told as lost, where anybody in reach remembers it (``lost_commits``).
"""

from __future__ import annotations

from random import Random
from typing import Final

from penstock.broker.broker import Broker
from penstock.sim.candidates import Homes
from penstock.sim.database import Database
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.delivery_plan import DeliveryPlan
from penstock.sim.delivery_run import DeliveryRun
from penstock.sim.disk import Disk
from penstock.sim.failover_faults import FailoverFaults
from penstock.sim.failover_plan import draw_homes
from penstock.sim.lost_commits import LostCommits
from penstock.sim.older_copies import Loss
from penstock.sim.ports import MakeBroker

__all__ = ["FAILOVER_PROBES", "FailoverCampaign"]

FAILOVER_PROBES: Final = {
    "taken_after_crash": "a candidate took a home over whose holder had crashed",
    "taken_after_pause": "a candidate took a home over whose holder was stopped, or had been",
    "taken_from_the_living": "a candidate took a home over whose holder lived",
    "doubtful_commits_repeated": "a commit in doubt was not in the database, and was repeated",
    "doubtful_commits_found": "a commit in doubt was in the database",
    "fenced_commits": "a commit was refused, as the home had a later epoch",
    "fenced_reads": "a read was refused, as the home had a later epoch",
    "fewer_commits": "a home met a former primary that lacked what had been committed since, and ended",
    "fell_silent": "a home fell silent, as its lease had run out",
    "lost_commits": "a standby was promoted that lacked commits of a home",
    "lost_commits_recognised": "a home marked as lost what its database had lost",
    "superseded": "a life of a home, or its neighbour, heard of a later one, and ended what belonged to the former",
    "planned_moves": "a home was to move to another candidate",
    "moved": "a home moved because somebody had asked for it",
}
"""What each probe of this campaign means, by its name."""

_ASYNCHRONOUS: Final = 0.15
"""Share of overlays whose database does not wait for its standby, and so may lose commits."""
_SYNCS_US: Final = (1_500, 1_500, 10_000, 30_000)
_REPLICATIONS_US: Final = (500, 500, 5_000, 20_000)
"""How long the database takes to write, and to reach its standby: on some, most commits are under way at any time."""


class FailoverCampaign(DeliveryCampaign):
    """One seed's overlay, homes, harm and healing."""

    _homes: Homes
    _commits: LostCommits | None = None
    """What the homes lose, if their database does not wait for its standby."""

    def __init__(
        self,
        seed: int | str,
        *,
        checks: bool = False,
        trace_lines: int = 10_000,
        brokers_max: int = 6,
        make_broker: MakeBroker = Broker,
        asynchronous: float = _ASYNCHRONOUS,
    ) -> None:
        """Draw an overlay; with ``checks``, invariants are checked after every step of every broker."""
        self._moving = Random(f"failover/{seed}/homes")
        self._is_synchronous = self._moving.random() >= asynchronous
        super().__init__(
            f"failover/{seed}",
            checks=checks,
            trace_lines=trace_lines,
            brokers_max=brokers_max,
            make_broker=make_broker,
        )

    def _arranged(self, plan: DeliveryPlan) -> DeliveryPlan:
        return draw_homes(plan, self._moving)

    def _settle_in(self) -> None:
        database = Database(self.world.clock, is_synchronous=self._is_synchronous)
        sync_us, replication_us = self._moving.choice(_SYNCS_US), self._moving.choice(_REPLICATIONS_US)
        for server in database.servers:
            server.sync_us, server.replication_us = sync_us, replication_us
        self._homes = self.world.add_homes(self.plan.homes, database)

    def _make_faults(self) -> FailoverFaults:
        faults = FailoverFaults(self.world, list(self.plan.pairs), self._homes)
        if not self._is_synchronous:
            self._commits = LostCommits(self.world, self._homes, faults.note)
        return faults

    def _lose_in_peace(self) -> str:
        unrest = super()._lose_in_peace()
        if self._commits is None:
            return unrest
        for _ in range(3):
            if unrest:
                break
            self._commits.lose_in_peace([*self.subscribers, *self.lives.clients], self._trade)
            self.lives.gather()
            unrest = self._rest()
        return unrest

    @property
    def _may_lose(self) -> bool:
        return super()._may_lose or self._commits is not None

    def _losses(self) -> list[Loss]:
        return super()._losses() + ([] if self._commits is None else self._commits.losses())

    def _gone(self) -> set[tuple[str, int]]:
        lost = [] if self._commits is None else self._commits.losses()
        return super()._gone() | {(loss.pubend, tick) for loss in lost for tick in loss.ticks}

    def _host_of(self, pubend: str) -> str:
        for home in self._homes.homes.values():
            if home.plan.pubend == pubend:
                return home.holder
        return super()._host_of(pubend)

    def _journal(self) -> list[tuple[str, int, bytes]]:
        moving = [each for home in self._homes.homes.values() for each in home.disk.journal or ()]
        lost = [] if self._commits is None else self._commits.journal()
        return super()._journal() + moving + lost

    def _guaranteed(self) -> list[tuple[Disk, str]]:
        moving = [(home.disk, home.plan.pubend) for home in self._homes.homes.values()]
        return super()._guaranteed() + moving

    def _unrest(self) -> str:
        return self._homes.unrest() or super()._unrest()

    def _judge(self, run: DeliveryRun) -> None:
        super()._judge(run)
        if self._commits is not None:
            losses = self._commits.losses()
            run.verdict.lost += len(self._commits.problems)
            run.verdict.problems += self._commits.problems
            run.counts["lost_commits"] = len(losses)
            run.counts["lost_commits_recognised"] = sum(each.is_recognised for each in losses)
        for home in self._homes.homes.values():
            run.verdict.duplicated += len(home.breaches)
            run.verdict.problems += home.breaches
            run.counts += home.counts
        run.counts["fell_silent"] = sum(node.silences for node in self._homes.nodes)
        run.counts["superseded"] = sum(node.closed["superseded"] for node in self.world.nodes)
