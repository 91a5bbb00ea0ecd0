"""The pair of PostgreSQL servers of ``failover-kill9``, with what an operator's tool does when the primary dies.

The standby is promoted, the dead server comes back as its standby, with a new copy of everything, and commits wait for
that one from then on. Until then the database has one server only, and that one is left alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from penstock.lab.databases import DatabaseServer, make_synchronous

__all__ = ["Holder", "Servers"]

_HOLDERS: Final = "SELECT broker, holder, epoch FROM penstock.holdings WHERE holder <> '' ORDER BY broker"
_HAS_HOLDERS: Final = "SELECT to_regclass('penstock.holdings') IS NOT NULL"
_HOME: Final = ".home"


@dataclass(slots=True, frozen=True)
class Holder:
    """Which candidate holds a pubend."""

    name: str
    epoch: int


class Servers:
    """A primary and its synchronous standby; all methods block, so they are for a thread."""

    def __init__(self, primary: DatabaseServer, standby: DatabaseServer) -> None:
        self.primary = primary
        self._standby = standby

    @property
    def ports(self) -> tuple[int, int]:
        """Where both servers listen; that does not change when they change places."""
        low, high = sorted((self.primary.port, self._standby.port))
        return low, high

    def holders(self) -> dict[str, Holder]:
        """Who holds each pubend, as the database has it; a lease may have run out."""
        if self.primary.execute(_HAS_HOLDERS) != "t":
            return {}
        rows = [line.split("|") for line in self.primary.execute(_HOLDERS).splitlines()]
        return {home.removesuffix(_HOME): Holder(name, int(epoch)) for home, name, epoch in rows}

    def kill_primary(self) -> None:
        """Kill the primary and all that it started."""
        self.primary.kill()

    def promote(self) -> float:
        """Promote the standby; returns when it was told to: what the promotion takes is part of a pause."""
        told_s = time.monotonic()
        self._standby.promote()
        self.primary, self._standby = self._standby, self.primary
        return told_s

    def make_standby(self) -> None:
        """Make a standby of the server that died, for which nobody waits yet."""
        self._standby.clear().make_standby_of(self.primary, name=self._standby.folder.name).start()

    def make_synchronous(self) -> float:
        """Let commits wait for the standby, and wait until they do; returns when the primary was told to."""
        told_s = time.monotonic()
        make_synchronous(self.primary, self._standby)
        return told_s
