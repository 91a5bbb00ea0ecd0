"""The state that all parts of a broker share: its settings, its view of the overlay, and its connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.broker.accounts import Accounts
from penstock.broker.connections import Connections
from penstock.broker.host.subscribers import Subscribers
from penstock.broker.mechanisms.tracker import Tracker
from penstock.broker.neighbours.filters import Filters
from penstock.broker.neighbours.memory import Memory
from penstock.broker.neighbours.topology import Topology
from penstock.broker.pubends import Pubends
from penstock.broker.settings import BrokerSettings, SettingsInForce
from penstock.broker.share import Share
from penstock.broker.transit.routing import Router

__all__ = ["Rooms"]


class Rooms:
    """The shared parts of one broker, made once."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        incarnation: int,
        kept: Mapping[str, bytes] | None = None,
        stopwatch: Callable[[], int] | None = None,
    ) -> None:
        self.settings = in_force = SettingsInForce.of(settings)
        self.connections = Connections(in_force)
        self.accounts = Accounts(in_force)
        self.share = Share()
        self.topology = Topology(
            settings.name,
            incarnation=incarnation,
            pubends=settings.pubends,
            best_effort=settings.best_effort,
            number=settings.number,
            can_move=settings.name in settings.homes,
        )
        self.topology.restrict(settings.members)
        self.filters = Filters(settings.name, incarnation=incarnation)
        self.subscribers = Subscribers(stopwatch)
        self.pubends = Pubends(settings.pubends, settings.best_effort)
        self.tracker = Tracker(in_force, kept or {})
        self.router = Router(
            settings.name,
            self.topology,
            self.filters,
            self.subscribers,
            self.pubends,
            self.connections,
            self.tracker,
        )
        self.memory = Memory(settings.name, self.connections, self.router)
