"""The requests of a host to the rest of its broker: values, carried out in order by the part that composes it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.broker.host.edge import HostSubscription

__all__ = ["Begun", "Doubt", "OpenAt", "Refusal", "Settled", "Wish"]


class Doubt(NamedTuple):
    """Something of a pubend's stream may be in doubt: ``Edges.questions`` says what to ask."""

    pubend: str


class OpenAt(NamedTuple):
    """Ask a pubend where a subscription may begin."""

    subscription: HostSubscription
    pubend: str


class Begun(NamedTuple):
    """A subscription has begun on another pubend: tell its client."""

    subscription: HostSubscription


class Refusal(NamedTuple):
    """A subscription cannot begin where it wants to, or has lost its name."""

    subscription: HostSubscription
    reason: str


class Settled(NamedTuple):
    """A client's request to forget a durable name was answered by all pubends, or has timed out: tell the client."""

    connection: int
    number: int
    name: str
    existed: bool
    """Whether any pubend knew the name."""
    problem: str
    """Why a pubend did not forget the name."""
    pending: tuple[str, ...]
    """Pubends that have not answered."""


Wish: TypeAlias = Doubt | OpenAt | Begun | Refusal | Settled
