"""Carriers, which deliver a group's messages between its members and know who they are; and one for a lone member.

A carrier may lose, delay and repeat messages: the handshake is designed for that ([Token] section 3).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from penstock.model.errors import MisuseError

__all__ = ["Alone", "Carrier", "Receiver", "checked_name"]

_NAME: Final = re.compile(r"[A-Za-z0-9._:@\[\]-]{1,100}")


class Receiver(Protocol):
    """Hears what a carrier brings."""

    def on_message(self, sender: str, payload: bytes) -> None:
        """A member has sent a message."""

    def on_members(self, members: Sequence[str]) -> None:
        """The group has these members now."""


class Carrier(Protocol):
    """Carries messages to and from the other members of one group."""

    name: str
    """This member's name; unique in the group."""

    async def open(self, group: str, receiver: Receiver) -> None:
        """Join the group."""

    def send(self, to: str, payload: bytes) -> None:
        """Send a message to one member, best effort."""

    async def close(self) -> None:
        """Leave the group."""


class Alone:
    """The carrier of a member that is alone in its group."""

    def __init__(self, name: str = "alone") -> None:
        self.name = checked_name(name, "member")

    async def open(self, group: str, receiver: Receiver) -> None:
        """Announce this member as the only one."""
        del group
        receiver.on_members([self.name])

    def send(self, to: str, payload: bytes) -> None:
        """Do nothing: there are no other members."""

    async def close(self) -> None:
        """Do nothing: there is nobody to leave."""


def checked_name(name: str, what: str) -> str:
    """The name of a group or a member; raises ``MisuseError`` if it is invalid."""
    if not _NAME.fullmatch(name):
        raise MisuseError(f"{what} {name!r} is not 1 to 100 letters, digits, dots, dashes, underscores or colons")
    return name
