"""The subscriptions of one STOMP connection, by what they are to the broker.

A ``Topic`` is a plain subscription, whose messages go from the broker's frames to MESSAGE frames with as little as
possible in between. A ``Held`` one is durable, or a member of a group (a queue): its messages pass through an inbox of
``penstock.session``, which knows what was acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from penstock.protocol.frames import Missing
from penstock.protocol.stomp import StompError, StompFrame, Version, encode_headers
from penstock.session.inbox import Inbox
from penstock.session.received import Received
from penstock.stomp.destinations import DESTINATION, Destination
from penstock.stomp.unacknowledged import Unacknowledged

__all__ = ["AUTO", "Ack", "Held", "Request", "Topic", "can_be_told", "head"]

Ack: TypeAlias = Literal["auto", "client", "client-individual"]
AUTO: Final[Ack] = "auto"
_ACKS: Final = ("auto", "client", "client-individual")
_STARTS: Final = ("latest", "earliest")
_MISSING: Final = ("fail", "earliest", "latest")
_ID_CHARS_MAX: Final = 255


@dataclass(slots=True, frozen=True)
class Request:
    """What a SUBSCRIBE frame asks for."""

    id: str
    destination: Destination
    ack: Ack
    condition: str
    """The selector of the frame; empty for none."""
    name: str
    """The name of the durable subscription, within those of the client; empty if it is not durable."""
    start: str
    missing: Missing
    prefetch: int
    """How many messages the client wants at a time; 0 if it does not say."""

    @classmethod
    def parse(cls, frame: StompFrame, version: Version) -> Request:
        """Raises ``StompError`` if the frame cannot be one."""
        headers = frame.headers
        text = headers.get(DESTINATION)
        if text is None:
            raise StompError("SUBSCRIBE has no destination", DESTINATION)
        destination = Destination.parse(text)
        # 1.0 leaves it out, and names subscriptions by their destinations.
        identifier = headers.get("id", text if version is Version.V1_0 else "")
        if not identifier or len(identifier) > _ID_CHARS_MAX or not can_be_told(identifier, version):
            raise StompError(f"SUBSCRIBE needs an id of 1 to {_ID_CHARS_MAX} characters", "id")
        ack = _one_of(headers, "ack", _ACKS, AUTO)
        name = headers.get("activemq.subscriptionName", "")
        if not name and headers.get("durable") == "true" and destination.kind != "queue":
            name = identifier
        if headers.get("selector", "").strip() and destination.kind == "queue":
            raise StompError(
                "all consumers of a queue share all of it: select from a topic, or send what is selected to a queue of "
                "its own",
                "selector",
            )
        if name and destination.kind == "queue":
            raise StompError("a subscription to a queue is durable by itself", "activemq.subscriptionName")
        return cls(
            identifier,
            destination,
            ack,  # type: ignore[arg-type]
            headers.get("selector", ""),
            name,
            _one_of(headers, "penstock-start", _STARTS, "latest"),
            _one_of(headers, "penstock-missing", _MISSING, "fail"),  # type: ignore[arg-type]
            _prefetch(headers),
        )


def can_be_told(text: str, version: Version) -> bool:
    """Whether a header can have this value. In 1.0 a client may send a carriage return, and nobody can send it back."""
    return "\0" not in text and (version is not Version.V1_0 or "\r" not in text)


def _one_of(headers: dict[str, str], name: str, values: tuple[str, ...], default: str) -> str:
    value = headers.get(name, default)
    if value not in values:
        raise StompError(f"{name} is {value[:100]!r}; it must be one of {', '.join(values)}", name)
    return value


def _prefetch(headers: dict[str, str]) -> int:
    for name in ("prefetch-count", "activemq.prefetchSize"):
        text = headers.get(name)
        if text is not None:
            if not text.isascii() or not text.isdecimal() or len(text) > 9:
                raise StompError(f"{name} is {text[:100]!r}; it must be a number of messages", name)
            return int(text)
    return 0


def head(request: Request, version: Version) -> tuple[bytes, bytes]:
    """How MESSAGE frames of a subscription begin: for messages that have a destination, and for those without."""
    lines = encode_headers({"subscription": request.id}, version)
    own = encode_headers({DESTINATION: request.destination.text}, version)
    return b"MESSAGE\n" + lines, b"MESSAGE\n" + lines + own


@dataclass(slots=True, eq=False)
class Topic:
    """A plain subscription: what comes while it lasts, once, and never again."""

    request: Request
    number: int
    """Its number to the broker."""
    heads: tuple[bytes, bytes]
    waiting: Unacknowledged = field(default_factory=Unacknowledged)
    lost: str = ""
    """Ticks that were lost before its next message."""
    pending: tuple[str, ...] = ()
    """Pubends from which it was not in force yet when the broker answered."""
    is_closing: bool = False


@dataclass(slots=True, eq=False)
class Held:
    """A durable subscription, or a member of a group."""

    request: Request
    inbox: Inbox
    heads: tuple[bytes, bytes]
    waiting: Unacknowledged = field(default_factory=Unacknowledged)
    unwritten: list[Received] = field(default_factory=list)
    """Messages that need no ACK, and are not written to the connection yet."""
    lost_count: int = 0
    """How many notices of lost ticks its client was told of."""
    is_closing: bool = False
    """Whether the client has ended it; it stays until all that was acknowledged is kept."""
    is_withdrawn: bool = False
    """Whether the broker was told so."""
    unkept: list[tuple[str, int]] = field(default_factory=list)
    """Pubends and ticks of messages that were acknowledged before the end, and are not known to be kept."""

    def in_hand(self) -> tuple[Received, ...]:
        """The messages that its client has, or is about to get, and that could come again; asked for very often."""
        return (*self.waiting.messages(), *self.unwritten) if self.unwritten else self.waiting.messages()

    @property
    def is_shared(self) -> bool:
        """Whether it is a member of a group."""
        return self.inbox.work is not None
