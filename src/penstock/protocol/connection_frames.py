"""Control frames that open a connection, keep it alive, move its client to another broker, and end it.

To move a client ([PADRES] on subscriber migration), its broker tells it where to go. The client opens a second
connection, to the new broker, whose hello names the same session. When its subscriptions are in force there, it tells
both brokers; if it stays, it tells the old one why.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.protocol.control import Control, Count, Name, Names, Places, Reason, Signed

__all__ = ["Goodbye", "Heartbeat", "Hello", "LinkProof", "Migrate", "MoveFailed", "Moved", "Welcome", "carried_credit"]

Digest: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=32)]

_CREDENTIAL_CHARS_MAX: Final = 4_096
_CARRIED_BYTES_MIN: Final = 16 * 1024
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""The number of a publisher or a broker, as in message identifiers."""


class Hello(Control, tag="hello", frozen=True, array_like=True):
    """The first frame in each direction of a link, and the first from a client."""

    version: Count
    role: Name
    """``broker`` or ``client``."""
    name: Name
    overlay: Name
    incarnation: Count = 0
    """Grows with every start of a broker; separates what it says now from what it said before a restart."""
    credential: Annotated[str, msgspec.Meta(max_length=_CREDENTIAL_CHARS_MAX)] = ""
    """A client's token; empty if the certificate of the connection identifies it. Brokers never send theirs."""
    publisher: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """The publisher's identity over all connections; with the sequence number it reveals repetitions."""
    migration: Count = 0
    """Session of the migration that brings the client from another broker; 0 if it comes on its own."""
    origin: Name = ""
    """The broker that the client migrates from."""
    pinned: bool = False
    """Whether the client wants to stay at its broker, whatever load balancing decides."""
    challenge: Digest = b""
    """From a broker with a link token: a challenge that the other end of the link must answer."""


class LinkProof(Control, tag="proof", frozen=True, array_like=True):
    """A broker's answer to the challenge in a neighbour's hello: proves that it has the link token, too."""

    proof: Digest


class Welcome(Control, tag="welcome", frozen=True, array_like=True):
    """The broker's answer to a client's hello."""

    version: Count
    broker: Name
    overlay: Name
    publisher: _Number
    """The client's number in the identifiers of its messages."""
    broker_number: _Number
    now_ms: Count
    """The broker's clock, from which the publisher learns its skew."""
    heartbeat_ms: Signed
    credit_bytes: Signed
    """Bytes that may be published to each pubend of this broker without an acknowledgement; for others see
    ``carried_credit``."""
    pubends: Names = ()
    """The pubends of this broker."""
    best_effort: Names = ()
    """The pubends among these that guarantee nothing: what was on the wire to them must not be sent again."""
    others: Places = ()
    """The pubends of other brokers, as far as this one knows them."""
    is_complete: bool = True
    """Whether the broker knows all there are; otherwise more will follow."""


def carried_credit(credit_bytes: int) -> int:
    """Bytes that may be published to a pubend of another broker, if this much may be to one of the broker's own.

    Less, since many publishers share the links on the way, and brokers keep what they carry in memory.
    """
    return max(credit_bytes // 2, min(credit_bytes, _CARRIED_BYTES_MIN))


class Goodbye(Control, tag="goodbye", frozen=True, array_like=True):
    """The last frame of a connection: why it ends."""

    code: Name
    reason: Reason


class Heartbeat(Control, tag="heartbeat", frozen=True, array_like=True):
    """Shows that an idle sender is alive."""

    now_ms: Signed = 0


class Migrate(Control, tag="migrate", frozen=True, array_like=True):
    """A broker asks a client to move to another one."""

    session: Count
    """The migration session of the two brokers, never 0."""
    total: Count
    """How many clients move in this session."""
    broker: Name
    address: Annotated[str, msgspec.Meta(max_length=500)]
    """Where clients reach that broker."""


class Moved(Control, tag="moved", frozen=True, array_like=True):
    """A client has moved: the old broker may release it, and the new one serves it from now on."""

    session: Count


class MoveFailed(Control, tag="movefailed", frozen=True, array_like=True):
    """A client stays where it is, and says why."""

    session: Count
    reason: Annotated[str, msgspec.Meta(max_length=500)]
