"""Penstock with a pubend that survives its machine: two candidates, and a synchronous pair of PostgreSQL servers.

The broker that runs the home acknowledges a message when PostgreSQL has it on both servers, whose settings are its
defaults. A publisher connects to that broker, or to the other candidate, which passes its messages on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.live_driver import Dialect, DriverError, NamingDialect
from bench.peers.peer import Service
from bench.peers.penstock import PenstockPeer
from bench.peers.postgres import Postgres
from bench.peers.server import Server
from penstock.client.sync import connect_sync
from penstock.lab.databases import DatabaseServer, database_folder, missing_reason, synchronous_pair
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan

__all__ = ["ElsewherePenstock", "HomePenstock", "HomePlan", "unready"]

_PUBEND: Final = "orders"
_CANDIDATES: Final = ("pb1", "pb2")
_REPLICAS: Final = 1
_READY_S_MAX: Final = 60.0
_POLL_S: Final = 0.1


@dataclass(slots=True, frozen=True, kw_only=True)
class HomePlan(OverlayPlan):
    """An overlay in which all brokers are candidates for one more pubend, which a database keeps."""

    database_url: str

    def toml(self, ports: Mapping[str, int]) -> str:
        """The text of the overlay file."""
        candidates = ", ".join(f'"{name}"' for name in self.pubends)
        lines = [f"[pubends.{_PUBEND}]", f"brokers = [{candidates}]", f'data = "{self.database_url}"']
        lines.append(f"replicas_min = {_REPLICAS}")
        # Without arguments, super() does not find a class with slots, which its decorator has made anew.
        return OverlayPlan.toml(self, ports) + "\n".join(lines) + "\n"


class HomePenstock(PenstockPeer):
    """Brokers of this tree; publishers connect to the one that runs the home."""

    name = "Penstock, PostgreSQL pair"
    package = "postgresql"
    is_at_home = True

    @contextmanager
    def start(self, service: Service, folder: Path) -> Iterator[Server]:
        """Run the databases and the candidates, and wait until one of them runs the home."""
        with (
            database_folder() as databases,
            synchronous_pair(databases) as pair,
            DemoOverlay(_plan(pair), folder=folder) as overlay,
        ):
            first, *others = _places(overlay, is_at_home=self.is_at_home)
            pids = [*(overlay.pid(name) for name in others), *(database.pid for database in pair)]
            yield Server(overlay.pid(first), overlay.port(first), others=pids)

    def dialect(self, service: Service, *, kept: Sequence[str] = ()) -> Dialect:
        """Penstock's own protocol, as the client library speaks it: publishers name the pubend."""
        return NamingDialect(_PUBEND)

    def missing(self) -> str:
        """Why it cannot be measured here: no PostgreSQL."""
        return missing_reason()

    def version(self) -> str:
        """The version of the database."""
        return f"with PostgreSQL {Postgres().version()}"


class ElsewherePenstock(HomePenstock):
    """Brokers of this tree; publishers connect to the candidate that does not run the home."""

    name = "Penstock, from the other candidate"
    is_at_home = False


def unready(replicas: Mapping[str, int]) -> str:
    """What the candidates lack, each given with its number of replicas, -1 where the home does not run.

    >>> unready({"pb1": -1, "pb2": 1})
    ''
    """
    held = {name: count for name, count in replicas.items() if count >= 0}
    if len(held) != 1:
        return f"{len(held)} candidates run the home"
    (name,) = held
    return "" if held[name] >= _REPLICAS else f"{held[name]} standbys have the messages that {name} acknowledges"


def _plan(pair: Sequence[DatabaseServer]) -> HomePlan:
    hosts = ",".join(database.url.partition("@")[2].partition("/")[0] for database in pair)
    before, _, after = pair[0].url.partition("@")
    url = f"{before}@{hosts}/{after.partition('/')[2]}"
    return HomePlan(
        dict.fromkeys(_CANDIDATES, ()),
        [_CANDIDATES],
        # Without heartbeats, which would disturb the measurement.
        defaults={"heartbeat_ms": 60_000, "silent_ms": 600_000},
        database_url=url,
    )


def _places(overlay: DemoOverlay, *, is_at_home: bool) -> list[str]:
    """All candidates, the one that publishers connect to first."""
    deadline_s = time.monotonic() + _READY_S_MAX
    while lacking := unready(replicas := {name: _replicas(overlay, name) for name in _CANDIDATES}):
        overlay.check()
        if time.monotonic() > deadline_s:
            said = " ".join(overlay.log(name).strip() for name in _CANDIDATES)
            raise DriverError(f"the home of {_PUBEND} did not get ready: {lacking}: {said}")
        time.sleep(_POLL_S)
    return sorted(_CANDIDATES, key=lambda name: (replicas[name] >= 0) != is_at_home)


def _replicas(overlay: DemoOverlay, name: str) -> int:
    """How many standbys have what the home acknowledges, as this candidate knows it; -1 if it does not run there."""
    with connect_sync(overlay.url(name)) as client:
        (candidacy,) = client.status().candidacies
    return candidacy.replicas if candidacy.epoch else -1
