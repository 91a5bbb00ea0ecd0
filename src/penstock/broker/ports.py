"""The interface of a broker to its shell, live or simulated: stimuli in, effects out, and deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.balancing.metrics import HostFigures
from penstock.broker.effects import Effect
from penstock.broker.mechanisms.operating import Operation
from penstock.broker.outbox import Outbox
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import TickRange
from penstock.protocol.frames import Frame
from penstock.protocol.status import BrokerStatus

__all__ = ["BrokerPort"]


class BrokerPort(Protocol):
    """The broker as its shell sees it."""

    def connect(
        self,
        connection: int,
        *,
        now_ms: int,
        dialled: str = "",
        certificate: str = "",
        source: str = "",
        is_movable: bool = True,
    ) -> Sequence[Effect]:
        """A transport was opened."""

    def receive(self, connection: int, frames: list[Frame], *, now_ms: int) -> Sequence[Effect]:
        """A batch of frames has arrived, in order."""

    def hear(self, connection: int, frames: list[Frame], *, now_ms: int) -> None:
        """The same, without the effects: ``finish`` returns those of several batches together."""

    def finish(self, *, now_ms: int) -> Sequence[Effect]:
        """All batches that arrived together have been heard."""

    def progress(self, connection: int, unfinished_bytes: int, *, now_ms: int) -> None:
        """Part of a frame has arrived, and the rest is still on its way."""

    def disconnect(self, connection: int, *, now_ms: int) -> Sequence[Effect]:
        """The transport was lost, and not because the broker closed it."""

    def committed(self, number: int, *, now_ms: int, values_only: bool = False) -> Sequence[Effect]:
        """All commits up to this number are durable; or only their named values, ahead of the rest."""

    def log_full(self, reason: str, *, now_ms: int) -> Sequence[Effect]:
        """The oldest commit must wait for space."""

    def log_read(
        self,
        number: int,
        messages: list[tuple[int, bytes]],
        last: int,
        *,
        now_ms: int,
        damaged: TickRange | None = None,
    ) -> Sequence[Effect]:
        """A read has ended: the messages up to the last tick, and the damaged ticks after it that cannot be read."""

    def kept_read(self, number: int, values: dict[str, bytes | None], *, now_ms: int) -> Sequence[Effect]:
        """Kept records were read, by name: None for each that is missing or damaged; names left out did not fit."""

    def apply(self, settings: BrokerSettings, *, now_ms: int) -> Sequence[Effect]:
        """The operator changed the settings."""

    def operate(self, operation: Operation, *, now_ms: int) -> Sequence[Effect]:
        """The operator requests an operation."""

    def retire(self, names: Sequence[str], *, now_ms: int) -> Sequence[Effect]:
        """Filters with these names are stored elsewhere for good."""

    def operated(self, fence: str, *, now_ms: int) -> Sequence[Effect]:
        """The heavy work that an ``Operate`` allowed is done."""

    def measured(self, figures: HostFigures, *, now_ms: int) -> Sequence[Effect]:
        """The shell has measured the machine."""

    def next_deadline(self) -> int | None:
        """When the shell must wake the broker."""

    def may_be_due_before(self, time_ms: int) -> bool:
        """Whether the next deadline may be earlier than this; if not, a timer for this time is early enough."""

    def on_deadline(self, *, now_ms: int) -> Sequence[Effect]:
        """The deadline was reached."""

    def knows(self, connection: int) -> bool:
        """Whether the other end of a connection has authenticated."""

    def outbox(self, connection: int) -> Outbox:
        """The frames queued for a connection."""

    def shutdown(self, *, now_ms: int) -> Sequence[Effect]:
        """Says goodbye to all peers, and closes their connections."""

    def status(self) -> BrokerStatus:
        """The broker's status, in figures."""
