"""The interface by which mechanisms plug into a broker: small, so that adding one touches no shell.

A mechanism is a plain object. It is told of neighbours, of its own control messages from them, and of publications that
it selected; it owns its deadlines; it answers with values. Balancing, rate limiting and the token come in through here.
Congestion control and tracking do not: they look at every message, and are built into its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from msgspec import Struct

from penstock.broker.effects import Operate, Record
from penstock.model.message import Message
from penstock.model.values import Attributes
from penstock.selectors.selector import Selector

__all__ = ["Answer", "Mechanism", "PublishSystem", "Select", "Tell"]


@dataclass(slots=True, frozen=True)
class Tell:
    """Send the payload to the same mechanism at a neighbour, ahead of data."""

    neighbour: str
    payload: bytes


@dataclass(slots=True, frozen=True)
class PublishSystem:
    """Publish a message of the reserved space, best effort, to all that select it."""

    message: Message


@dataclass(slots=True, frozen=True)
class Select:
    """From now on, get the publications of the reserved space that this selects, and no others."""

    selector: Selector


Answer: TypeAlias = Tell | PublishSystem | Record | Operate | Select


class Mechanism(Protocol):
    """The methods that a broker calls on each of its mechanisms."""

    name: str
    """Unique among the mechanisms of a broker; addresses its control messages."""
    selector: Selector | None
    """The publications it wants, from anywhere in the overlay; None for none."""

    def on_neighbour(self, neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:
        """A link came up or went down."""

    def on_message(self, neighbour: str, payload: bytes, *, now_ms: int) -> list[Answer]:
        """A message has come from the same mechanism at a neighbour."""

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        """A publication that it selected has arrived."""

    def next_deadline(self) -> int | None:
        """When the mechanism wants to be woken."""

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        """The deadline was reached."""

    def status(self) -> Struct | Mapping[str, object] | None:
        """Figures for the operator: a struct, or any figures by name; None or nothing if it has none."""
