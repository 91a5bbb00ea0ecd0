"""Messages as subscribers receive them; the body is decoded only as far as the application looks."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import msgspec

from penstock.model.body import MalformedBodyError, decode_attributes, decode_id
from penstock.model.expiry import EXPIRES, expires_at_ms
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.model.values import CONVERSING, REQUEST, AttributeValue
from penstock.protocol.frames import Deliver, is_guaranteed_number

__all__ = ["BestEffortReceived", "HandedOut", "Received", "received_from"]


# A struct, since it is made without running any Python, and not tracked by the garbage collector: all it refers to are
# plain values. Two messages are the same only if they are one object.
class Received(msgspec.Struct, eq=False, gc=False):
    """A message that was delivered to a subscription.

    >>> from penstock.model import Message
    >>> from penstock.model.body import encode_body
    >>> body = encode_body(MessageId(1, 2, 3_000, 0), Message({"symbol": "YHOO"}, b"18.2"))
    >>> message = Received("quotes", 7, body)
    >>> message.attributes, message.payload, message.pubend, message.published_at_ms
    ({'symbol': 'YHOO'}, b'18.2', 'quotes', 3000)
    """

    pubend: str
    """Name of the pubend that it came from."""
    tick: int
    """Its tick in the pubend's stream."""
    body: bytes
    """The encoded message."""
    _attributes: dict[str, AttributeValue] | None = None
    _payload_start: int = 0

    is_guaranteed: ClassVar[bool] = True
    """Whether its tick is a position in the pubend's stream, so that a lower tick means an earlier message."""

    @property
    def attempt(self) -> int:
        """How often it was handed out, this time included; only messages of groups come more than once."""
        return 1

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """Attribute values by name; all subscriptions of the client that got the message share this dict."""
        attributes = self._attributes
        if attributes is None:
            attributes = decode_attributes(self.body)
            # As ``expires_at_ms``: an application that publishes these attributes again could not set it.
            attributes.pop(EXPIRES, None)
            if REQUEST in attributes:
                # A request or a reply, each of which has this one; they are for the client library.
                attributes = {name: value for name, value in attributes.items() if name not in CONVERSING}
            self._attributes = attributes
        return attributes

    @property
    def payload(self) -> bytes:
        """The content."""
        return self.body[self._payload_start or self._find_payload() :]

    @property
    def content_type(self) -> str:
        """The payload's media type; empty if the publisher gave none."""
        end = self._payload_start or self._find_payload()
        # Its length is one byte, at the end of the attributes.
        return self.body[self._attributes_end() + 1 : end].decode(errors="replace")

    @property
    def id(self) -> MessageId:
        """The identifier, by which the message can be traced."""
        return decode_id(self.body)

    @property
    def published_at_ms(self) -> int:
        """When it was published, by the publisher's clock adjusted to its broker's."""
        return self.id.timestamp_ms

    @property
    def expires_at_ms(self) -> int | None:
        """When brokers stop to deliver it, by the same clock; None if it does not expire."""
        return expires_at_ms(self.body, decode_attributes(self.body))

    def __repr__(self) -> str:
        return f"<Received {self.id} from {self.pubend}: {self.attributes!r} and {len(self.payload):,} bytes>"

    def _attributes_end(self) -> int:
        start = MESSAGE_ID_BYTES
        return start + 4 + int.from_bytes(self.body[start : start + 4], "big")

    def _find_payload(self) -> int:
        end = self._attributes_end()
        start = end + 1 + self.body[end] if end < len(self.body) else 0
        if not 0 < start <= len(self.body):
            raise MalformedBodyError(f"body of {len(self.body)} bytes has no payload")
        self._payload_start = start
        return start


class BestEffortReceived(Received, eq=False, gc=False):
    """A message from a pubend that guaranteed nothing when it sent the message."""

    is_guaranteed: ClassVar[bool] = False


class HandedOut(Received, eq=False, gc=False):
    """A message that was handed to a member of a group."""

    attempt: int = 1
    """How often it was handed out, this time included."""


def received_from(frame: Deliver, pubend: str) -> list[Received]:
    """The messages of a delivery; the broker's number for the pubend tells whether they are guaranteed."""
    kind = Received if is_guaranteed_number(frame.pubend) else BestEffortReceived
    return list(map(partial(kind, pubend), frame.ticks, frame.bodies))
