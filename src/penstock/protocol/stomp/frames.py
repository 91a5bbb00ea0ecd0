"""What a STOMP frame is: its command, headers and body, the commands there are, and the versions of the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["BODY_COMMANDS", "CLIENT_COMMANDS", "SERVER_COMMANDS", "StompFrame", "Version", "choose_version"]

CLIENT_COMMANDS: Final = frozenset(
    (
        "ABORT",
        "ACK",
        "BEGIN",
        "COMMIT",
        "CONNECT",
        "DISCONNECT",
        "NACK",
        "SEND",
        "STOMP",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
    )
)
"""What clients may send. STOMP means the same as CONNECT; STOMP and NACK came with 1.1."""
SERVER_COMMANDS: Final = frozenset(("CONNECTED", "ERROR", "MESSAGE", "RECEIPT"))
"""What servers may send."""
BODY_COMMANDS: Final = frozenset(("ERROR", "MESSAGE", "SEND"))
"""The only frames that may have a body."""


class Version(StrEnum):
    """A version of STOMP, as it stands in the headers ``accept-version`` and ``version``."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"


@dataclass(slots=True)
class StompFrame:
    """One frame of any version, with its headers as they were before they were escaped.

    Of a header that is repeated, the first counts. Only 1.1 and 1.2 say so; 1.0 is silent and is treated alike.
    """

    command: str
    headers: dict[str, str]
    """In the order of the frame; with ``content-length`` if the frame had one."""
    body: bytes = b""


def choose_version(accept_version: str | None) -> Version | None:
    """The highest version that we share with a client, from its header ``accept-version``; None if we share none.

    A client that sends no such header (None) speaks 1.0. Versions that we do not know are passed over.
    """
    if accept_version is None:
        return Version.V1_0
    accepted = {each.strip() for each in accept_version.split(",")}
    return max((version for version in Version if version in accepted), default=None)
