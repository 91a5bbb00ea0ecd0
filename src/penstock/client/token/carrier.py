"""What carries the messages of a group between its members, and tells who they are; and the carrier of a member alone.

A carrier may lose, delay and repeat messages: the handshake is made for that ([Token] section 3).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from penstock.model.errors import MisuseError

__all__ = ["Alone", "Carrier", "Receiver", "checked_name"]

_NAME: Final = re.compile(r"[A-Za-z0-9._:@\[\]-]{1,100}")


class Receiver(Protocol):
    """Whom a carrier tells what it hears."""

    def on_message(self, sender: str, payload: bytes) -> None:
        """A member said something."""

    def on_members(self, members: Sequence[str]) -> None:
        """These are the members now."""


class Carrier(Protocol):
    """The way to the other members of one group."""

    name: str
    """Of this member; unique in the group."""

    async def open(self, group: str, receiver: Receiver) -> None:
        """Join the group."""

    def send(self, to: str, payload: bytes) -> None:
        """To one member, as well as it goes."""

    async def close(self) -> None:
        """Leave the group."""


class Alone:
    """The carrier of a member that has joined nobody."""

    def __init__(self, name: str = "alone") -> None:
        self.name = checked_name(name, "member")

    async def open(self, group: str, receiver: Receiver) -> None:
        """There is nobody to join."""
        del group
        receiver.on_members([self.name])

    def send(self, to: str, payload: bytes) -> None:
        """Nobody is there to hear it."""

    async def close(self) -> None:
        """Nobody is left."""


def checked_name(name: str, what: str) -> str:
    """The name of a group or a member, if it is one."""
    if not _NAME.fullmatch(name):
        raise MisuseError(f"{what} {name!r} is not 1 to 100 letters, digits, dots, dashes, underscores or colons")
    return name
