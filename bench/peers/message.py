"""The messages that all peers carry: the same attributes and the same payload, encoded for each protocol.

A protocol with headers (STOMP, AMQP) carries the attributes as headers. One without (MQTT, RESP, and NATS as most of
its clients use it) carries them encoded within the payload, as applications do: there the payload is a message of
Penstock with its identifier, so that the bytes on the wire are nearly the same for all.

The last eight bytes of every payload are the time at which it was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.live_load import PAYLOAD_BYTES, STAMP, Load
from penstock.model.values import AttributeValue

__all__ = ["BARE_PAYLOAD", "PeerMessage", "PeerRing", "peer_messages"]

BARE_PAYLOAD: Final = bytes(PAYLOAD_BYTES - STAMP.size)
"""A payload without the time stamp at its end."""


@dataclass(slots=True, frozen=True)
class PeerMessage:
    """One message of a workload."""

    topic: str
    attributes: dict[str, AttributeValue]
    packed: bytes
    """Attributes and payload in one, without the time stamp at the end; equally long for all messages of a workload."""


class PeerRing:
    """Frames of one protocol, each in two parts around the time stamp."""

    def __init__(self, heads: Iterable[bytes], tail: bytes) -> None:
        """Keep the part before the stamp for every message, and the part after it, which is the same for all."""
        self._heads = list(heads)
        self._tail = tail
        self.body_bytes: Final = max(map(len, self._heads)) + STAMP.size + len(tail)

    def __len__(self) -> int:
        return len(self._heads)

    def frame(self, first: int, place: int, count: int, stamp_ns: int, identity: bytes = b"") -> bytes:
        """A batch of messages from a place in the ring; messages of these protocols have neither number nor origin."""
        end = STAMP.pack(stamp_ns) + self._tail
        return b"".join([head + end for head in self._heads[place : place + count]])


def peer_messages(messages: Iterable[dict[str, AttributeValue]], *, topic: str) -> Sequence[PeerMessage]:
    """The messages of a workload, on the topic that an attribute ``topic`` names, or else all on the given one."""
    load = Load(messages)
    return [
        PeerMessage(str(attributes.get("topic", topic)), attributes, load.body(place)[: -STAMP.size])
        for place, attributes in enumerate(load.messages)
    ]
