"""What the simulator asks of a broker: the interface of ``Broker`` as far as it is used here."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

from penstock.broker.durable import Recovered
from penstock.broker.effects import Effect
from penstock.broker.frames import Frame
from penstock.broker.outbox import Outbox
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import TickRange

__all__ = ["BrokerCore", "MakeBroker"]


class BrokerCore(Protocol):
    """A broker without its shell: stimuli in, effects out."""

    def connect(self, connection: int, *, now_ms: int, dialled: str = "", certificate: str = "") -> list[Effect]:
        """A transport exists."""

    def receive(self, connection: int, frames: list[Frame], *, now_ms: int) -> list[Effect]:
        """Frames arrived, in order."""

    def disconnect(self, connection: int, *, now_ms: int) -> list[Effect]:
        """A transport is lost."""

    def committed(self, number: int, *, now_ms: int) -> list[Effect]:
        """All commits up to this number are durable."""

    def log_full(self, reason: str, *, now_ms: int) -> list[Effect]:
        """The oldest commit has to wait for space."""

    def log_read(
        self,
        number: int,
        messages: list[tuple[int, bytes]],
        last: int,
        *,
        now_ms: int,
        damaged: TickRange | None = None,
    ) -> list[Effect]:
        """A read found this, up to the last tick; what is damaged lies right behind it."""

    def apply(self, settings: BrokerSettings, *, now_ms: int) -> list[Effect]:
        """The operator changed the settings."""

    def next_deadline(self) -> int | None:
        """When to wake the broker, in milliseconds."""

    def on_deadline(self, *, now_ms: int) -> list[Effect]:
        """The time has come."""

    def outbox(self, connection: int) -> Outbox:
        """What waits for a connection."""

    def shutdown(self, *, now_ms: int) -> list[Effect]:
        """Say goodbye to everybody."""

    def status(self) -> Mapping[str, Any]:
        """How the broker is."""


class MakeBroker(Protocol):
    """What makes a broker: the class itself, or a stand-in for tests."""

    def __call__(self, settings: BrokerSettings, *, incarnation: int, rng: Random, recovered: Recovered) -> BrokerCore:
        """A broker that has just started, and what it found on its disk."""
