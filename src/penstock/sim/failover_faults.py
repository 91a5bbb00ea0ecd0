"""Random faults of a shared database and of those who want to run homes, besides all that strikes any overlay.

Candidates are stopped for longer than a lease, crash with what they hold, and are asked to move it. The database is
slow or stopped; its primary is killed and comes back, or its standby is promoted, by another clock; the network between
a candidate and a server is cut, in both ways or in one; an operator cancels waits for the standby; and a former primary
goes on beside the new one. Every blow is repaired some time later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from penstock.sim.candidates import Home, Homes
from penstock.sim.database import Path, Server
from penstock.sim.faults import Faults
from penstock.sim.world import World

__all__ = ["FailoverFaults"]

_STRUCK: Final = 0.55
"""Share of blows that concern homes."""
_PAUSES_LEASES: Final = (0.3, 0.9, 1.2, 1.8, 3.0, 8.0)
"""How long processes are stopped, as multiples of the lease."""
_STOPPED_AT_ONCE: Final = 0.15
"""Share of lives whose process is stopped when they begin, as long as harm is done."""
_SLOW: Final = (20.0, 200.0, 1_000.0)
_WAITS_MS: Final = (0, 1, 2, 4, 8, 20, 60)
_PROMOTED_MS: Final = (0, 50, 600, 3_000, 9_000)
"""How long it takes until the standby of a dead primary is promoted."""
_DATABASE_CLOCKS_MS: Final = (0, 0, 0, 40, -40, 1_500, -1_500, 20_000, -20_000)
"""By how much the clock of a server is off that is promoted."""
_APART_MS: Final = (0, 0, 1, 5, 400)


class FailoverFaults(Faults):
    """The faults of a world with homes."""

    def __init__(self, world: World, pairs: list[tuple[str, str]], homes: Homes) -> None:
        super().__init__(world, pairs)
        self._homes, self._database = homes, homes.database
        self._beginnings = Random(f"{world.seed}/beginnings")
        """Whether and when those are stopped that begin to run a home."""
        for home in homes.homes.values():
            home.on_begun = partial(self._on_begun, home)
        self._is_calm = False
        """Whether everything is to stay as it is."""

    def strike(self) -> None:
        """Strike one blow, or two that come together."""
        self._is_calm = False
        if self._chance.random() >= _STRUCK:
            super().strike()
            return
        for _ in range(self._chance.choice((1, 1, 1, 1, 2))):
            # In the midst of the commits of what is published now.
            blow, wait_ms = self._chance.choice(self._home_blows()), self._chance.choice(_WAITS_MS)
            self._world.clock.after(wait_ms * 1_000 + self._chance.randrange(1_000), blow)

    def repair(self) -> None:
        """Repair everything at once."""
        self._is_calm = True
        for broker in self._world.brokers.values():
            broker.gate.open()
        super().repair()
        self._repair_database()

    def _repair_database(self) -> None:
        database = self._database
        for path in database.paths.values():
            _mend(path)
        for server in database.servers:
            server.slowness = 1.0
            server.is_replicating = True
            database.go_on(server)
        database.start(database.primary)
        database.rejoin()

    def _home_blows(self) -> list[Callable[[], None]]:
        return [
            self._pause,
            self._pause,
            self._pause,
            self._crash_holder,
            self._crash_holder,
            self._move,
            self._move,
            self._slow_database,
            self._slow_database,
            self._stop_database,
            self._restart_primary,
            self._restart_primary,
            self._fail_over,
            self._fail_over,
            self._fail_over,
            self._split,
            self._split,
            self._cut_database,
            self._cut_database,
            self._cut_database,
            self._reset_connections,
            self._reset_connections,
            self._part_servers,
            self._cancel_waits,
            self._crash_standby,
        ]

    # --- candidates

    def _pause(self) -> None:
        """Stop the process of a holder for a while."""
        home = self._one_home()
        name = home.holder or self._chance.choice(home.plan.candidates)
        self._stop_process(name, int(self._chance.choice(_PAUSES_LEASES) * home.plan.lease.lease_ms))

    def _on_begun(self, home: Home, name: str) -> None:
        """Stop some of those that begin to run a home before they have found out what is in it."""
        if self._is_calm or self._beginnings.random() >= _STOPPED_AT_ONCE:
            return
        stopped_ms = int(self._beginnings.choice(_PAUSES_LEASES) * home.plan.lease.lease_ms)
        wait_us = self._beginnings.choice((0, 500, 1_000, 2_000, 10_000))
        self._world.clock.after(wait_us, partial(self._stop_process, name, stopped_ms))

    def _stop_process(self, name: str, stopped_ms: int) -> None:
        broker = self._world.brokers[name]
        if broker.is_up and not broker.gate.is_shut:
            self.note("pause", f"{name} is stopped for {stopped_ms:,} ms")
            broker.gate.shut()
            self._world.clock.after(stopped_ms * 1_000, partial(self._wake, name))

    def _wake(self, name: str) -> None:
        broker = self._world.brokers[name]
        if broker.gate.is_shut:
            self._note(f"{name} goes on")
            broker.gate.open()

    def _crash_holder(self) -> None:
        name = self._one_home().holder
        if name and self._world.brokers[name].is_up:
            self.note("crash_holder", f"{name} crashes, which runs a home")
            self._world.crash(name, loud=self._flip())
            self._later("", partial(self._restart, name))

    def _move(self) -> None:
        """Ask for a home to move to a candidate, by way of any candidate."""
        home = self._one_home()
        to, asked = self._chance.choice(home.plan.candidates), self._chance.choice(home.plan.candidates)
        self.note("planned_move", f"{home.plan.name} is to move to {to}, says {asked}")
        home.counts["planned_moves"] += to != home.holder
        home.seats[asked].want(to)

    # --- servers

    def _slow_database(self) -> None:
        server = self._database.primary
        server.slowness = self._chance.choice(_SLOW)
        self.note("slow_database", f"{server.name} is {server.slowness:.0f} times slower")
        self._later(f"{server.name} is quick again", partial(_quicken, server))

    def _stop_database(self) -> None:
        server = self._chance.choice(self._database.servers)
        if server.is_up:
            self.note("stop_database", f"{server.name} is stopped")
            server.gate.shut()
            self._later(f"{server.name} goes on", partial(self._database.go_on, server))

    def _restart_primary(self) -> None:
        server = self._database.primary
        if server.is_up:
            self.note("restart_primary", f"{server.name} is killed, the primary")
            server.crash(loud=self._flip())
            self._later(f"{server.name} starts again", partial(self._start, server))

    def _crash_standby(self) -> None:
        server = self._database.primary.standby
        if server is not None and server.is_up:
            self.note("crash_standby", f"{server.name} is killed, the standby")
            server.crash(loud=True)
            self._later(f"{server.name} starts again", partial(self._start, server))

    def _start(self, server: Server) -> None:
        self._database.start(server)

    def _fail_over(self) -> None:
        """Kill the primary; the standby is promoted, and later the former primary follows it."""
        server = self._database.primary
        if not server.is_up or server.standby is None:
            return
        self.note("fail_over", f"{server.name} is killed, and its standby is to be promoted")
        server.crash(loud=self._flip())
        self._world.clock.after(self._chance.choice(_PROMOTED_MS) * 1_000, self._promote_standby)
        if self._chance.random() < 0.3:
            # It comes back as what it was, and does not know that there is another primary.
            self._world.clock.after(self._chance.choice(_PROMOTED_MS) * 1_000, partial(self._start, server))
        self._later("the other server follows the primary", self._rejoin)

    def _split(self) -> None:
        """Promote the standby while the primary lives, and goes on to answer some candidates."""
        server = self._database.primary
        if not server.is_up or server.standby is None or not server.standby.is_up:
            return
        if not self._database.is_synchronous:
            # It must be dead: nothing else keeps a former primary from answering.
            self._fail_over()
            return
        self.note("split", f"the standby of {server.name} is promoted, which lives")
        server.is_replicating = False
        for name in self._world.brokers:
            kept = self._chance.choice(self._database.servers)
            for other in self._database.servers:
                if other is not kept and self._flip():
                    self._cut_path(name, other, both=True)
        self._world.clock.after(self._chance.choice(_APART_MS) * 1_000, self._promote_standby)
        self._later("the other server follows the primary", self._rejoin)

    def _promote_standby(self) -> None:
        offset_ms = self._chance.choice(_DATABASE_CLOCKS_MS)
        server = self._database.promote()
        if server is not None:
            server.clock_offset_ms = offset_ms
            self._note(f"{server.name} is promoted, its clock off by {offset_ms:,} ms")

    def _rejoin(self) -> None:
        self._database.start(self._database.primary)
        for server in self._database.servers:
            server.is_replicating = True
        self._database.rejoin()

    def _part_servers(self) -> None:
        """Cut the network between the servers."""
        server = self._database.primary
        self.note("part_servers", f"nothing reaches the standby of {server.name}")
        server.is_replicating = False
        self._later("the standby is reached again", partial(self._unite, server))

    @staticmethod
    def _unite(server: Server) -> None:
        server.is_replicating = True
        if server.is_up:
            server.ship()

    def _cancel_waits(self) -> None:
        server = self._database.primary
        if server.is_up and server.is_synchronous:
            # So that something waits.
            server.is_replicating = False
            self.note("cancel_waits", f"waits for the standby of {server.name} are cancelled again and again")
            for at_ms in (5, 60, 300, 900):
                self._world.clock.after(at_ms * 1_000, server.cancel_waits)
            self._later("the standby is reached again", partial(self._unite, server))

    def _reset_connections(self) -> None:
        """End all connections with what they are in the midst of, as an operator or a proxy may."""
        server = self._database.primary
        self.note("reset_connections", f"{server.name} ends all connections")
        for application in dict.fromkeys(connection.application for connection in server.connections):
            server.evict(application)

    # --- the network

    def _cut_database(self) -> None:
        """Cut a candidate off from a server or from both, perhaps in one way only."""
        home = self._one_home()
        name = home.holder if home.holder and self._flip() else self._chance.choice(home.plan.candidates)
        servers = self._database.servers if self._flip() else [self._database.primary]
        both = self._flip()
        names = ", ".join(server.name for server in servers)
        self.note("cut_database", f"{name} is cut off from {names}{'' if both else ', one way'}")
        for server in servers:
            self._cut_path(name, server, both=both)

    def _cut_path(self, name: str, server: Server, *, both: bool) -> None:
        path = self._database.paths[name, server.name]
        way = self._chance.randrange(2)
        path.is_cut = [both or way == 0, both or way == 1]
        self._later(f"{name} reaches {server.name} again", partial(_mend, path))

    def _one_home(self) -> Home:
        return self._chance.choice(list(self._homes.homes.values()))


def _mend(path: Path) -> None:
    path.is_cut = [False, False]


def _quicken(server: Server) -> None:
    server.slowness = 1.0
