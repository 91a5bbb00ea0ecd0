"""The operations that an operator may request of a running broker, as values, and their execution."""

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
    """Move all clients to these brokers and admit no new ones; without any targets, admit clients again."""

    targets: tuple[Target, ...]


@dataclass(slots=True, frozen=True)
class Pin:
    """Keep a client where it is, despite load balancing."""

    client: str


@dataclass(slots=True, frozen=True)
class Unpin:
    """Allow a client to be moved again."""

    client: str


Operation: TypeAlias = Drain | Pin | Unpin


class Operator:
    """Carries out operations at one broker."""

    def __init__(self, rooms: Rooms, migrations: Migrations) -> None:
        self._migrations, self._draining = migrations, Draining(rooms, migrations)

    @property
    def is_draining(self) -> bool:
        """Whether new clients are refused."""
        return self._draining.is_on

    def carry_out(self, operation: Operation, *, now_ms: int) -> None:
        """Carries out an operation; raises ``MisuseError`` if it is impossible."""
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
        """When to continue a drain."""
        return self._draining.due

    def on_deadline(self, *, now_ms: int) -> None:
        """Continues a drain."""
        self._draining.on_deadline(now_ms=now_ms)

    def status(self) -> MigrationStatus:
        """The moves and pinned clients, and the progress of a drain."""
        status = self._migrations.status()
        status.drain = self._draining.status()
        return status
