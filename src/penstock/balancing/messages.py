"""What brokers say to each other in a session, as publications of the reserved space ([PADRES] section 3.3).

They are addressed by attribute: the edges of a cluster are no neighbours of each other. What is in them besides the
address travels as the payload. Nothing that arrives is believed before it was checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

import msgspec

from penstock.balancing.estimators import Figures
from penstock.balancing.metrics import Load
from penstock.balancing.pie import MalformedError, is_name, number_in, text_in
from penstock.model.decoding import UnreadableError, decoded
from penstock.model.values import Attributes, AttributeValue

__all__ = [
    "BALANCING",
    "Content",
    "Done",
    "End",
    "Letter",
    "Moving",
    "Refusal",
    "Reply",
    "Request",
    "Watch",
    "address_of",
]

BALANCING: Final = "BALANCING"
_SESSION_MAX: Final = 2**53
_WATCHED_MAX: Final = 8
"""Clusters that an edge may be told to watch: all of them are in one selector. A head names one."""


@dataclass(slots=True, frozen=True)
class Request:
    """May I offload to you?"""

    kind: ClassVar[str] = "request"
    metric: str = ""


@dataclass(slots=True, frozen=True)
class Reply:
    """You may: this is my load, and what I get already."""

    kind: ClassVar[str] = "reply"
    figures: Figures
    address: str = ""
    """Where clients find the broker."""
    covering: tuple[str, ...] = ()
    """Its covering set."""


@dataclass(slots=True, frozen=True)
class Refusal:
    """You may not, and why."""

    kind: ClassVar[str] = "refusal"
    state: str = ""
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Moving:
    """So many subscribers are on their way; said again if they become fewer."""

    kind: ClassVar[str] = "moving"
    total: int
    trails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By client: the brokers that it must not go back to for a while."""
    estimated: Load = field(default_factory=Load)
    """What the load of the accepting broker will be, as the offloading one believes."""


@dataclass(slots=True, frozen=True)
class Done:
    """All have arrived that will: the session is over."""

    kind: ClassVar[str] = "done"
    arrived: int = 0


@dataclass(slots=True, frozen=True)
class End:
    """The session is over for me."""

    kind: ClassVar[str] = "end"
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Watch:
    """A head tells an edge: balance with the edges of these clusters, too; none to end that."""

    kind: ClassVar[str] = "watch"
    clusters: tuple[str, ...] = ()


Content: TypeAlias = Request | Reply | Refusal | Moving | Done | End | Watch
_KINDS: Final[dict[str, type[Content]]] = {
    each.kind: each for each in (Request, Reply, Refusal, Moving, Done, End, Watch)
}
_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[Content]]] = {
    name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()
}


@dataclass(slots=True, frozen=True)
class Letter:
    """A control message from one broker to another."""

    sender: str
    to: str
    session: int
    content: Content
    is_global: bool = False

    def attributes(self) -> dict[str, AttributeValue]:
        """The address, as attributes of a publication."""
        return {
            "$class": BALANCING,
            "$from": self.sender,
            "$to": self.to,
            "$session": self.session,
            "$kind": self.content.kind,
            "$scope": "global" if self.is_global else "local",
        }

    def payload(self) -> bytes:
        """The content."""
        return msgspec.msgpack.encode(self.content)

    @classmethod
    def read(cls, attributes: Attributes, payload: bytes) -> Letter:
        """From a publication; raises ``MalformedError`` for what cannot be right."""
        kind = _KINDS.get(str(attributes.get("$kind")))
        if kind is None:
            raise MalformedError(f"kind {str(attributes.get('$kind'))[:40]!r} does not exist")
        sender, to, session = address_of(attributes)
        try:
            content = decoded(_DECODERS[kind.kind].decode, payload)
        except UnreadableError as error:
            raise MalformedError(f"a {kind.kind} cannot be read: {error}") from None
        _check(content)
        return cls(sender, to, session, content, attributes.get("$scope") == "global")


def address_of(attributes: Attributes) -> tuple[str, str, int]:
    """From whom to whom a letter is, and of which session, also if nothing else of it can be read."""
    session = int(number_in(attributes, "$session", high=_SESSION_MAX))
    return text_in(attributes, "$from"), text_in(attributes, "$to"), session


def _check(content: Content) -> None:
    if isinstance(content, Reply) and not content.figures.is_sound():
        raise MalformedError("a reply has figures that no broker can have")
    if isinstance(content, Moving) and (not 0 <= content.total < _SESSION_MAX or not content.estimated.is_finite()):
        raise MalformedError(f"{content.total} subscribers cannot move")
    if isinstance(content, Watch):
        _check_watched(content.clusters)


def _check_watched(clusters: tuple[str, ...]) -> None:
    if len(clusters) > _WATCHED_MAX:
        raise MalformedError(f"{len(clusters):,} clusters cannot be watched at a time, only {_WATCHED_MAX}")
    for name in clusters:
        if not is_name(name):
            raise MalformedError(f"{name[:40]!r} is no name of a cluster")
