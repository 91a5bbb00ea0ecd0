"""Data packets of a group, which name their sender so that every member can count by sender ([Ajil] section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.ajil.errors import MalformedError
from penstock.model.errors import LimitError

__all__ = ["PAYLOAD_BYTES_MAX", "Packet", "decode_packet", "encode_packet"]

PAYLOAD_BYTES_MAX: Final = 60_000
_MARK: Final = b"Ad1"


@dataclass(slots=True, frozen=True)
class Packet:
    """A packet that was sent to a group."""

    group: str
    sender: str
    payload: bytes


def encode_packet(sender: bytes, payload: bytes) -> bytes:
    """Encode a packet as a datagram; the sender's name is at most 255 bytes."""
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise LimitError("the payload of a packet, in bytes,", len(payload), PAYLOAD_BYTES_MAX)
    return _MARK + bytes((len(sender),)) + sender + payload


def decode_packet(group: str, datagram: bytes) -> Packet:
    """Decode the packet in a datagram; raises ``MalformedError``."""
    if len(datagram) < len(_MARK) + 1 or not datagram.startswith(_MARK):
        raise MalformedError("a datagram that is no packet")
    start = len(_MARK) + 1
    end = start + datagram[len(_MARK)]
    if len(datagram) < end:
        raise MalformedError("a packet that ends within the name of its sender")
    try:
        return Packet(group, datagram[start:end].decode(), datagram[end:])
    except UnicodeDecodeError:
        raise MalformedError("a packet whose sender has no name") from None
