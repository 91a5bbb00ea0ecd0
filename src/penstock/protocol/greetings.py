"""Control frames with which every connection begins, goes on in silence, and ends."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.protocol.control import Control, Count, Name, Names, Reason, Signed

__all__ = ["Goodbye", "Heartbeat", "Hello", "LinkProof", "Welcome"]

Digest: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=32)]

_CREDENTIAL_CHARS_MAX: Final = 4_096
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
"""As it is in message identifiers."""


class Hello(Control, tag="hello", frozen=True, array_like=True):
    """The first frame in each direction of a link, and of a client."""

    version: Count
    role: Name
    """``broker`` or ``client``."""
    name: Name
    overlay: Name
    incarnation: Count = 0
    """Grows with every start of a broker; tells what it said in this life from what it said before."""
    credential: Annotated[str, msgspec.Meta(max_length=_CREDENTIAL_CHARS_MAX)] = ""
    """A client's token; empty where the certificate of the connection says who it is. Brokers never show theirs."""
    publisher: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """Who publishes, over all its connections; with the sequence number it tells what was sent again."""
    migration: Count = 0
    """The session of the migration by which a client comes from another broker; 0 if it comes by itself."""
    origin: Name = ""
    """The broker that it comes from."""
    pinned: bool = False
    """Whether the client wants to stay where it is, whoever balances load."""
    challenge: Digest = b""
    """Of a broker with a link token: what the other end of the link has to answer."""


class LinkProof(Control, tag="proof", frozen=True, array_like=True):
    """A broker's answer to the challenge in the hello of a neighbour: it has the link token, too."""

    proof: Digest


class Welcome(Control, tag="welcome", frozen=True, array_like=True):
    """The broker's answer to a client's hello."""

    version: Count
    broker: Name
    overlay: Name
    publisher: _Number
    """The number under which this client's messages are identified."""
    broker_number: _Number
    now_ms: Count
    """The broker's clock, from which the publisher learns its skew."""
    heartbeat_ms: Signed
    credit_bytes: Signed
    """Bytes that may be published without an acknowledgement."""
    pubends: Names = ()
    best_effort: Names = ()
    """Those of the pubends that guarantee nothing: what was on the wire to them must not be sent again."""


class Goodbye(Control, tag="goodbye", frozen=True, array_like=True):
    """The last frame of a connection: why it ends."""

    code: Name
    reason: Reason


class Heartbeat(Control, tag="heartbeat", frozen=True, array_like=True):
    """Nothing to say, but alive."""

    now_ms: Signed = 0
