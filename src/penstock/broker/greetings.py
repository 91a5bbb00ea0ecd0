"""Control frames with which every connection begins, goes on in silence, and ends."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.broker.control import Control, Count

__all__ = ["Goodbye", "Heartbeat", "Hello", "Welcome"]


class Hello(Control, tag="hello", frozen=True, array_like=True):
    """The first frame in each direction of a link, and of a client."""

    version: int
    role: str
    """``broker`` or ``client``."""
    name: str
    overlay: str
    incarnation: Count = 0
    """Grows with every start of a broker; tells what it said in this life from what it said before."""
    credential: str = ""
    """A token; empty where the certificate of the connection says who it is."""
    publisher: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """Who publishes, over all its connections; with the sequence number it tells what was sent again."""
    migration: Count = 0
    """The session of the migration by which a client comes from another broker; 0 if it comes by itself."""
    origin: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """The broker that it comes from."""
    pinned: bool = False
    """Whether the client wants to stay where it is, whoever balances load."""


class Welcome(Control, tag="welcome", frozen=True, array_like=True):
    """The broker's answer to a client's hello."""

    version: int
    broker: str
    overlay: str
    publisher: int
    """The number under which this client's messages are identified."""
    broker_number: int
    now_ms: int
    """The broker's clock, from which the publisher learns its skew."""
    heartbeat_ms: int
    credit_bytes: int
    """Bytes that may be published without an acknowledgement."""
    pubends: tuple[str, ...] = ()
    best_effort: tuple[str, ...] = ()
    """Those of the pubends that guarantee nothing: what was on the wire to them must not be sent again."""


class Goodbye(Control, tag="goodbye", frozen=True, array_like=True):
    """The last frame of a connection: why it ends."""

    code: str
    reason: str


class Heartbeat(Control, tag="heartbeat", frozen=True, array_like=True):
    """Nothing to say, but alive."""

    now_ms: int = 0
