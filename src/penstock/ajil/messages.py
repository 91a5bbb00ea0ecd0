"""The messages of the control channel between nodes, and their encoding ([Ajil] sections 3.1 and 4.2).

Messages are MessagePack arrays that begin with a tag. Unreadable or impossible ones raise a ``MalformedError``: a node
counts and ignores them. Every message says which policy its sender has, so that others notice an older one.
"""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from penstock.ajil.aup import Aup
from penstock.ajil.errors import AupError, MalformedError
from penstock.model.decoding import UnreadableError, decoded

__all__ = [
    "MESSAGE_BYTES_MAX",
    "TOP_SENDERS_MAX",
    "ControlMessage",
    "Demand",
    "Entry",
    "Policy",
    "Report",
    "decode",
    "encode",
    "fits",
]

MESSAGE_BYTES_MAX: Final = 60_000
"""Size of an encoded message that fits into one datagram."""
TOP_SENDERS_MAX: Final = 8
"""Most senders that a report names for a group."""
_ENTRIES_MAX: Final = 10_000
_AMOUNT_MAX: Final = 1e15
_VERSION_HEARD_MAX: Final = 2**52
"""Highest version accepted from others. An operator can set a higher one at a node, so no policy is final."""

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=255)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=_AMOUNT_MAX)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """The traffic of a group, or of the reporter's share of it, in one epoch."""

    group: Name
    bytes: Amount
    packets: Amount
    senders: Number = 0
    """Number of senders."""
    top: Annotated[tuple[tuple[Name, Amount, Amount], ...], msgspec.Meta(max_length=TOP_SENDERS_MAX)] = ()
    """The top senders: name, bytes, packets."""


class Report(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """The traffic that a node has seen in an epoch."""

    node: Name
    version: Number
    """Version of the node's policy."""
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=_ENTRIES_MAX)]
    """May be empty: a new node tells which policy it has, and is sent a newer one."""


class Demand(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """How much a node wants to send in an epoch, under a hard limit."""

    node: Name
    version: Number
    serial: Number
    """Grows with every announcement."""
    bytes: Amount
    packets: Amount


class Policy(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """The policy that a node has."""

    node: Name
    fields: dict[Name, Any]

    @property
    def aup(self) -> Aup:
        """The policy; raises ``MalformedError`` if it cannot work."""
        try:
            return Aup(**self.fields)
        except (AupError, TypeError) as error:
            raise MalformedError(f"a policy of node {self.node!r}: {error}") from None

    @classmethod
    def of(cls, node: str, aup: Aup) -> Policy:
        """The message that announces a node's policy."""
        return cls(node, msgspec.to_builtins(aup))


ControlMessage: TypeAlias = Report | Demand | Policy
_DECODER: Final = msgspec.msgpack.Decoder(ControlMessage)


def encode(message: ControlMessage) -> bytes:
    """Encodes a message."""
    data = msgspec.msgpack.encode(message)
    assert len(data) <= MESSAGE_BYTES_MAX, f"a {type(message).__name__} of {len(data):,} bytes"
    return data


def fits(message: ControlMessage) -> bool:
    """Whether a message is small enough to send."""
    return len(msgspec.msgpack.encode(message)) <= MESSAGE_BYTES_MAX


def decode(data: bytes) -> ControlMessage:
    """Decodes a message; raises ``MalformedError``."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise MalformedError(f"a control message of {len(data):,} bytes, over the limit of {MESSAGE_BYTES_MAX:,}")
    try:
        message: ControlMessage = decoded(_DECODER.decode, data)
    except UnreadableError as error:
        raise MalformedError(f"a control message that cannot be read: {error}") from None
    if isinstance(message, Policy):
        # A policy that cannot work is refused here, before anybody trusts it.
        if message.aup.version > _VERSION_HEARD_MAX:
            raise MalformedError(
                f"node {message.node!r} announced policy version {message.aup.version}, "
                f"above the highest accepted version {_VERSION_HEARD_MAX}"
            )
    elif isinstance(message, Report):
        _check_finite(each for entry in message.entries for each in (entry.bytes, entry.packets))
    return message


def _check_finite(amounts: Any) -> None:
    if not all(map(isfinite, amounts)):
        raise MalformedError("a control message with an amount that is not finite")
