"""The other ends of a broker's connections: who they are, when they were last heard, what is queued for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple
from zlib import crc32

from penstock.broker.access import Rule
from penstock.broker.accounts import Account
from penstock.broker.effects import Wake
from penstock.broker.neighbours.filters import FILTER_WEIGHT_MAX, HostChange, filter_weight
from penstock.broker.outbox import Outbox
from penstock.broker.sources import Source
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import FilterUpdate, Hello
from penstock.selectors.selector import Selector

__all__ = [
    "Farewell",
    "Guest",
    "LinkSequence",
    "Peer",
    "PeerKind",
    "Subscription",
    "first_number",
    "guest_of",
    "may_have_been",
]


NUMBERS_TRIED: Final = 16
"""As many numbers as a publisher may have got, one after the other, where others had the first ones."""
_PARTS_MAX = 4_000
"""Most frames that one change of a filter may be split into."""


class PeerKind(Enum):
    """The role of the other end, as far as it is known."""

    STRANGER = "stranger"
    LINK = "link"
    CLIENT = "client"


@dataclass(slots=True)
class Subscription:
    """One subscription of a client."""

    key: int
    selector: Selector
    positions: int = 0
    """Pubends for which it states where it begins."""
    selector_bytes: int = 0
    """The size of its selector, as charged to the client."""
    effort: int = 0
    """The operations it adds to the matching of a message, as charged to the client."""
    is_confirmed: bool = False
    """Whether the client was told that the subscription is in force."""


@dataclass(slots=True)
class Guest:
    """The state that a broker keeps for a client."""

    account: Account
    publisher: int
    rule: Rule
    identity: bytes = b""
    """The prefix of its message identifiers: the number of the publisher, and of this broker."""
    former: set[bytes] = field(default_factory=set)
    """Prefixes of message identifiers that it made at other brokers, and publishes here."""
    publisher_id: bytes = b""
    """The identity by which its messages are deduplicated; empty if they are not to be."""
    is_pinned: bool = False
    """Whether the client wants to stay here."""
    is_leaving: bool = False
    """Whether it was asked to move to another broker, and has neither left nor said that it stays."""
    migration: int = 0
    """The session of the migration that brings it here, until it has arrived; 0 if it came by itself."""
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    """By the client's own numbers; changed only by `begin` and `end`, which keep the account up to date."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """By pubend, the tick below which it has everything."""
    sources: dict[str, Source] = field(default_factory=dict)
    """What it publishes to each pubend, by the names that it uses."""

    @property
    def client(self) -> str:
        """The name of the client."""
        return self.account.client

    def begin(self, number: int, subscription: Subscription) -> None:
        """Adds a subscription, and charges it to the account."""
        self.subscriptions[number] = subscription
        self.account.subscriptions += 1
        self.account.positions += subscription.positions
        self.account.selector_bytes += subscription.selector_bytes
        self.account.effort += subscription.effort

    def end(self, number: int) -> Subscription | None:
        """Removes a subscription, if the client has it, and takes it off the account."""
        subscription = self.subscriptions.pop(number, None)
        if subscription is not None:
            self.account.subscriptions -= 1
            self.account.positions -= subscription.positions
            self.account.selector_bytes -= subscription.selector_bytes
            self.account.effort -= subscription.effort
        return subscription


@dataclass(slots=True)
class LinkSequence:
    """The ordered, acknowledged sequence of filter updates on one link, in both directions."""

    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    _parts: list[FilterUpdate] = field(default_factory=list)
    _weight: int = 0
    """About how much memory the parts take."""

    def number(self, change: HostChange) -> list[FilterUpdate]:
        """Returns the frames of a change, numbered for this link."""
        updates = change.updates(self.sent + 1)
        self.sent += len(updates)
        return updates

    def acknowledge(self, sequence: int) -> None:
        """Notes that the neighbour has applied everything up to this number."""
        if not self.acknowledged <= sequence <= self.sent:
            raise ProtocolError(f"acknowledgement {sequence} is not in {self.acknowledged} .. {self.sent}")
        self.acknowledged = sequence

    def take(self, update: FilterUpdate) -> HostChange | None:
        """Takes the next update; returns the change that it completes, if it does."""
        if update.sequence != self.received + 1:
            raise ProtocolError(f"filter update {update.sequence} follows {self.received}")
        self.received = update.sequence
        self._weight += filter_weight(update.added) + filter_weight(update.removed)
        if len(self._parts) >= _PARTS_MAX or self._weight > FILTER_WEIGHT_MAX:
            raise ProtocolError(
                f"a change of a filter has more than {_PARTS_MAX:,} parts or {FILTER_WEIGHT_MAX:,} bytes"
            )
        self._parts.append(update)
        if update.version < 0:
            return None
        parts = self._parts
        self._parts = []
        self._weight = 0
        if any(each.host != update.host for each in parts):
            raise ProtocolError("parts of the filters of different hosts are mixed")
        return HostChange(
            update.host,
            update.incarnation,
            update.version,
            update.base,
            tuple(text for each in parts for text in each.added),
            tuple(text for each in parts for text in each.removed),
        )


@dataclass(slots=True)
class Peer:
    """The other end of one connection."""

    connection: int
    outbox: Outbox
    opened_ms: int
    heard_ms: int
    unfinished_bytes: int = 0
    """How much of a frame had arrived when its progress last counted as hearing from the peer."""
    took_ms: int = 0
    """When its outbox last had no data, or the peer had taken enough of it."""
    taking_bytes: int = 0
    """The outbox's ``taken_bytes`` at which it will have taken enough."""
    dialled: str = ""
    certificate: str = ""
    source: str = ""
    """The address it connected from; empty if unknown."""
    kind: PeerKind = PeerKind.STRANGER
    name: str = ""
    incarnation: int = 0
    """Which life of a neighbour it is, by its hello."""
    is_movable: bool = True
    """Whether a client can go to another broker without its application noticing."""
    said: bool = True
    """Whether anything was queued for it since the last heartbeat was due."""
    challenge: bytes = b""
    """The challenge it has to answer to prove that it is a neighbour, if brokers have to."""
    greeting: Hello | None = None
    """The hello it sent, while it still has to prove it."""
    guest: Guest | None = None
    sequence: LinkSequence | None = None
    wake: Wake = field(init=False)
    """The effect that gets its outbox emptied; one object, used every time."""

    def __post_init__(self) -> None:
        self.wake = Wake(self.connection)


class Farewell(NamedTuple):
    """A connection that must be closed, and why."""

    peer: Peer
    code: str
    reason: str


def first_number(publisher: bytes) -> int:
    """The number that a publisher gets for its message identifiers, unless another one at that broker has it."""
    return crc32(publisher)


def may_have_been(number: int, publisher: bytes) -> bool:
    """Whether another broker may have given a publisher this number, since its first ones were taken there."""
    return bool(publisher) and (number - first_number(publisher)) % 2**32 < NUMBERS_TRIED


def guest_of(peer: Peer) -> Guest:
    """Returns the state kept for a client; the peer must be one."""
    assert peer.guest is not None, f"{peer.name} is no client"
    return peer.guest
