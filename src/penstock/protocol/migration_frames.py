"""Control frames by which a client is moved to another broker ([PADRES] on subscriber migration).

The broker where it is says where to go. The client goes there over a connection of its own, whose hello names the same
session, and tells both brokers when its subscriptions are in force there; or the old one why it stays.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.protocol.control import Control, Count, Name

__all__ = ["Migrate", "MoveFailed", "Moved"]


class Migrate(Control, tag="migrate", frozen=True, array_like=True):
    """A broker asks a client to go on at another one."""

    session: Count
    """The session of the two brokers, never 0."""
    total: Count
    """How many clients move in this session."""
    broker: Name
    address: Annotated[str, msgspec.Meta(max_length=500)]
    """Where clients reach it."""


class Moved(Control, tag="moved", frozen=True, array_like=True):
    """A client has moved: the old broker may let it go, the new one has it from now on."""

    session: Count


class MoveFailed(Control, tag="movefailed", frozen=True, array_like=True):
    """A client stays where it is."""

    session: Count
    reason: Annotated[str, msgspec.Meta(max_length=500)]
