"""The new connection of a simulated client that moves, and what was said on it, until it is the client's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.protocol.frames import Migrate, Subscribed
from penstock.sim.line import Line
from penstock.sim.overlap import Key

__all__ = ["Arrival"]


@dataclass(slots=True)
class Arrival:
    """The new one of two connections."""

    order: Migrate
    origin: str
    line: Line | None = None
    names: dict[int, str] = field(default_factory=dict)
    asked_us: dict[int, int] = field(default_factory=dict)
    stated: dict[int, dict[str, int]] = field(default_factory=dict)
    """What each subscription that was asked for there has stated."""
    confirmed: dict[int, Subscribed] = field(default_factory=dict)
    begun: dict[Key, None] = field(default_factory=dict)

    @property
    def is_welcome(self) -> bool:
        """Whether the new broker has answered, so that subscriptions can be asked for there."""
        return self.line is not None and self.line.welcome is not None
