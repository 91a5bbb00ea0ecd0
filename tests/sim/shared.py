"""A shared database for tests, and processes that are run to their end."""

from __future__ import annotations

from typing import Any

from penstock.broker.candidate import LeaseSettings
from penstock.broker.durable import Append
from penstock.model.tick import Tick
from penstock.sim.clock import Clock
from penstock.sim.database import Connection, Database, Server
from penstock.sim.holdings import Holdings
from penstock.sim.process import Gate, Running, Waiting
from penstock.sim.transactions import CommitChanges, Tenure

__all__ = ["ANSWER_MS", "HOME", "LEASE", "NOBODYS", "Shared", "appended", "committing"]

HOME = "q.home"
LEASE = LeaseSettings(1_000)
ANSWER_MS = 1_000
NOBODYS = Tenure(HOME, 0, "")
"""What a home is that nobody has taken yet."""


def appended(tick: int) -> Append:
    return Append("q", ((Tick(tick), b"message %d" % tick),))


def committing(number: int, *, tenure: Tenure = NOBODYS, mark: int = 0) -> CommitChanges:
    return CommitChanges(tenure, number, mark or number, (appended(number),))


class Shared:
    """A database, and whoever asks it."""

    def __init__(self, *, is_synchronous: bool = True) -> None:
        self.clock = Clock(10**9)
        self.database = Database(self.clock, is_synchronous=is_synchronous)

    @property
    def primary(self) -> Server:
        return self.database.primary

    @property
    def standby(self) -> Server:
        standby = self.primary.standby
        assert standby is not None
        return standby

    def begin(self, steps: Waiting[Any]) -> list[Any]:
        """Begin a process; what it returns is in the list when it has ended."""
        ended: list[Any] = []
        Running(steps, Gate(), ended.append)
        return ended

    def outcome(self, steps: Waiting[Any], *, within_ms: int = 60_000) -> Any:
        """Run a process to its end."""
        ended = self.begin(steps)
        end_us = self.clock.now_us + within_ms * 1_000
        while not ended and self.clock.now_us < end_us:
            self.clock.run_for(1_000)
        assert ended, "the process has not ended"
        return ended[0]

    def run(self, ms: int) -> None:
        self.clock.run_for(ms * 1_000)

    def connected(self, client: str = "b1", application: str = "test") -> Connection | None:
        found = self.outcome(self.database.connecting(client, application, listens=HOME, answer_ms=ANSWER_MS))
        assert found is None or isinstance(found, Connection)
        return found

    def cut(self, client: str, server: Server, *ways: int) -> None:
        for way in ways or (0, 1):
            self.database.paths[client, server.name].is_cut[way] = True

    def holdings(self, holder: str, *, place: int = 0, life: str = "") -> Holdings:
        return Holdings(
            self.database,
            home=HOME,
            holder=holder,
            life=life or holder,
            place=place,
            lease=LEASE,
            answer_ms=ANSWER_MS,
        )
