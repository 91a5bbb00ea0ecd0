"""The letters of a session between brokers, sent as publications in the reserved space ([PADRES] section 3.3).

They are addressed by attribute, because the edges of a cluster are not neighbours of each other. The content travels as
the payload. Everything that arrives is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

import msgspec

from penstock.balancing.estimators import Figures
from penstock.balancing.metrics import Load
from penstock.balancing.pie import MalformedError, is_cluster, is_name, number_in, text_in
from penstock.model.decoding import UnreadableError, decoded
from penstock.model.limits import PEER_NAME_CHARS_MAX
from penstock.model.values import Attributes, AttributeValue

__all__ = [
    "BALANCING",
    "COVERING_CHARS_MAX",
    "TRAIL_MAX",
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
    "fitting",
]

BALANCING: Final = "BALANCING"
COVERING_CHARS_MAX: Final = 256 * 1024
"""Most characters of a covering set in a reply."""
TRAIL_MAX: Final = 32
"""Most brokers in the trail of a client."""
_SESSION_MAX: Final = 2**53
_WATCHED_MAX: Final = 8
"""The most clusters an edge may be told to watch: they all go into one selector. A head names one."""


@dataclass(slots=True, frozen=True)
class Request:
    """Asks a broker to accept subscribers."""

    kind: ClassVar[str] = "request"
    metric: str = ""


@dataclass(slots=True, frozen=True)
class Reply:
    """Accepts a request, with the sender's load and the publications it already gets."""

    kind: ClassVar[str] = "reply"
    figures: Figures
    address: str = ""
    """Where clients reach the broker."""
    covering: tuple[str, ...] = ()
    """The broker's covering set."""


@dataclass(slots=True, frozen=True)
class Refusal:
    """Refuses a request, with the reason."""

    kind: ClassVar[str] = "refusal"
    state: str = ""
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Moving:
    """Says how many subscribers are on their way; sent again if the number falls."""

    kind: ClassVar[str] = "moving"
    total: int
    trails: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The brokers each client must not return to for a while."""
    estimated: Load = field(default_factory=Load)
    """The accepting broker's load after the session, as the offloading one estimates it."""


@dataclass(slots=True, frozen=True)
class Done:
    """Ends the session: every subscriber that will arrive has arrived."""

    kind: ClassVar[str] = "done"
    arrived: int = 0


@dataclass(slots=True, frozen=True)
class End:
    """Ends the session early, with the reason."""

    kind: ClassVar[str] = "end"
    reason: str = ""


@dataclass(slots=True, frozen=True)
class Watch:
    """Tells an edge, from its head, to balance with the edges of these clusters as well; empty to stop."""

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
        """The encoded content."""
        return msgspec.msgpack.encode(self.content)

    @classmethod
    def read(cls, attributes: Attributes, payload: bytes) -> Letter:
        """Reads a letter from a publication; raises ``MalformedError`` if it is invalid."""
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
    """Sender, recipient and session of a letter, even if nothing else in it can be read."""
    session = int(number_in(attributes, "$session", high=_SESSION_MAX))
    return text_in(attributes, "$from"), text_in(attributes, "$to"), session


def fitting(covering: Iterable[str]) -> tuple[str, ...]:
    """As much of a covering set as a reply may have: whoever gets it parses all of it in one turn."""
    found: list[str] = []
    room = COVERING_CHARS_MAX
    for selector in covering:
        room -= len(selector)
        if room < 0:
            break
        found.append(selector)
    return tuple(found)


def _check(content: Content) -> None:
    if isinstance(content, Reply):
        _check_reply(content)
    if isinstance(content, Moving):
        _check_trails(content.trails)
    if isinstance(content, Moving) and (not 0 <= content.total < _SESSION_MAX or not content.estimated.is_finite()):
        raise MalformedError(f"invalid move announcement: {content.total} subscribers, or an invalid load estimate")
    if isinstance(content, Watch):
        _check_watched(content.clusters)


def _check_reply(reply: Reply) -> None:
    if not reply.figures.is_sound():
        raise MalformedError("reply contains invalid load figures")
    chars = sum(map(len, reply.covering))
    if chars > COVERING_CHARS_MAX:
        raise MalformedError(f"a covering set of {chars:,} characters is over the limit of {COVERING_CHARS_MAX:,}")


def _check_trails(trails: dict[str, tuple[str, ...]]) -> None:
    for client, brokers in trails.items():
        if len(client) > PEER_NAME_CHARS_MAX:
            raise MalformedError(f"a client's name of {len(client):,} characters")
        if len(brokers) > TRAIL_MAX or not all(map(is_name, brokers)):
            raise MalformedError(f"the trail of client {client[:40]!r} is too long, or has something that is no broker")


def _check_watched(clusters: tuple[str, ...]) -> None:
    if len(clusters) > _WATCHED_MAX:
        raise MalformedError(f"{len(clusters):,} clusters cannot be watched at a time, only {_WATCHED_MAX}")
    for name in clusters:
        if not is_cluster(name):
            # A group of heads neither: edges and heads must not give each other clients, or these would wander.
            raise MalformedError(f"{name[:40]!r} is no name of a cluster")
