"""What an operator may want of a running broker, as values, and who carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.broker.due import Due
from penstock.broker.mechanisms.draining import Draining, Target
from penstock.broker.mechanisms.migration import Migrations
from penstock.broker.rooms import Rooms
from penstock.protocol.status import MigrationStatus

__all__ = ["Drain", "Operation", "Operator", "Pin", "Unpin"]


@dataclass(slots=True, frozen=True)
class Drain:
    """Have all clients go to these brokers, and let nobody in; without any, let clients in again."""

    targets: tuple[Target, ...]


@dataclass(slots=True, frozen=True)
class Pin:
    """Let a client stay where it is, whoever balances load."""

    client: str


@dataclass(slots=True, frozen=True)
class Unpin:
    """Let it be moved again."""

    client: str


Operation: TypeAlias = Drain | Pin | Unpin


class Operator:
    """Carries out operations at one broker."""

    def __init__(self, rooms: Rooms, migrations: Migrations) -> None:
        self._migrations, self._draining = migrations, Draining(rooms, migrations)

    @property
    def is_draining(self) -> bool:
        """Whether nobody is to be let in."""
        return self._draining.is_on

    def carry_out(self, operation: Operation, *, now_ms: int) -> None:
        """Do it; raises ``MisuseError`` if that cannot be."""
        match operation:
            case Pin(client):
                self._migrations.pin(client)
            case Unpin(client):
                self._migrations.unpin(client)
            case Drain(targets) if targets:
                self._draining.start(targets, now_ms=now_ms)
            case Drain():
                self._draining.stop()

    @property
    def due(self) -> Due:
        """When to go on with what takes its time."""
        return self._draining.due

    def on_deadline(self, *, now_ms: int) -> None:
        """Goes on with it."""
        self._draining.on_deadline(now_ms=now_ms)

    def status(self) -> MigrationStatus:
        """Who moves, who stays, and how far a drain is."""
        status = self._migrations.status()
        status.drain = self._draining.status()
        return status
