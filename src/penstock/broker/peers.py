"""The other ends of a broker's connections: who they are, when they were last heard, what waits for them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from penstock.broker.access import Rule
from penstock.broker.accounts import Account
from penstock.broker.effects import Wake
from penstock.broker.neighbours.filters import FILTER_WEIGHT_MAX, HostChange, filter_weight
from penstock.broker.outbox import Outbox
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import FilterUpdate, HeldBack, Hello, Publish
from penstock.selectors.selector import Selector

__all__ = ["Batch", "Farewell", "Guest", "LinkSequence", "Peer", "PeerKind", "Subscription", "guest_of"]


_PARTS_MAX = 4_000
"""Frames that one change of a filter may come in."""


class PeerKind(Enum):
    """What is known of the other end."""

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
    """What its selector counts for."""
    effort: int = 0
    """What it adds to the matching of a message."""
    is_confirmed: bool = False
    """Whether the client was told that it is in force."""


@dataclass(slots=True)
class Batch:
    """Messages of a publisher that were taken in, and are not settled."""

    sequence: int
    """Of the last of them."""
    size: int
    is_durable: bool = False


@dataclass(slots=True)
class Guest:
    """What a broker keeps for a client."""

    account: Account
    publisher: int
    rule: Rule
    identity: bytes = b""
    """How the identifiers of its messages begin: the number of the publisher, and of this broker."""
    former: set[bytes] = field(default_factory=set)
    """How those begin that it made at other brokers, and publishes here."""
    credit_bytes: int = 0
    """What it may have published without getting credit back."""
    unpaid_bytes: int = 0
    """What it has published, and got no credit back for."""
    publisher_id: bytes = b""
    """By which its messages are recognised when they are sent again; empty if they are not to be."""
    is_pinned: bool = False
    is_leaving: bool = False
    """Whether it was asked to go to another broker, and has neither gone nor said that it stays."""
    """Whether the client wants to stay here."""
    migration: int = 0
    """The session of the migration by which it comes, until it has arrived; 0 if it came by itself."""
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    """By the client's own numbers; changed by `begin` and `end` only, which keep the account."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """By pubend, the tick below which it has everything."""
    published: int = -1
    """The sequence number of the last message that came; -1 before the first."""
    settled: int = 0
    """The sequence number up to which everything is taken over or refused."""
    outstanding: deque[Batch] = field(default_factory=deque)
    """What is not settled, in order: what goes to another pubend may be durable before what came earlier."""
    waiting: deque[tuple[Publish, bool]] = field(default_factory=deque)
    """What came behind a refused message, in order, and whether it was refused itself; the credit bounds it."""
    told: int = 0
    """The last message that it was told is refused."""
    refused: int = 0
    """The last refused message that has had its turn; good ones behind it wait until the client has confirmed it."""
    confirmed: int = 0
    """It knows of all refusals up to this sequence number."""
    withheld_bytes: int = 0
    """Credit that was not given back yet."""
    asks: bool = False
    """Whether it wants to be acknowledged as soon as everything is settled."""
    held_back: HeldBack = field(default_factory=lambda: HeldBack(""))
    """Why it was told to wait, if it was."""

    @property
    def client(self) -> str:
        """The name of the client."""
        return self.account.client

    def begin(self, number: int, subscription: Subscription) -> None:
        """The client has another subscription."""
        self.subscriptions[number] = subscription
        self.account.subscriptions += 1
        self.account.positions += subscription.positions
        self.account.selector_bytes += subscription.selector_bytes
        self.account.effort += subscription.effort

    def end(self, number: int) -> Subscription | None:
        """The client has this subscription no more, if it had it."""
        subscription = self.subscriptions.pop(number, None)
        if subscription is not None:
            self.account.subscriptions -= 1
            self.account.positions -= subscription.positions
            self.account.selector_bytes -= subscription.selector_bytes
            self.account.effort -= subscription.effort
        return subscription


@dataclass(slots=True)
class LinkSequence:
    """The ordered, acknowledged sequence of filter updates of one link, both directions."""

    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    _parts: list[FilterUpdate] = field(default_factory=list)
    _weight: int = 0
    """What the parts take in memory, about."""

    def number(self, change: HostChange) -> list[FilterUpdate]:
        """The frames of a change, numbered for this link."""
        updates = change.updates(self.sent + 1)
        self.sent += len(updates)
        return updates

    def acknowledge(self, sequence: int) -> None:
        """The neighbour has applied everything up to here."""
        if not self.acknowledged <= sequence <= self.sent:
            raise ProtocolError(f"acknowledgement {sequence} is not in {self.acknowledged} .. {self.sent}")
        self.acknowledged = sequence

    def take(self, update: FilterUpdate) -> HostChange | None:
        """The change that is complete with this update, if it is."""
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
        parts, self._parts, self._weight = self._parts, [], 0
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
    """How much of a frame had arrived when that last counted as heard."""
    took_ms: int = 0
    """When it last had nothing to take, or had taken enough of it."""
    taking_bytes: int = 0
    """Up to where it has to take for that, of all that was ever taken."""
    dialled: str = ""
    certificate: str = ""
    source: str = ""
    """The address that it came from; empty if nobody knows."""
    kind: PeerKind = PeerKind.STRANGER
    name: str = ""
    said: bool = True
    """Whether anything was queued since the last look."""
    challenge: bytes = b""
    """What it has to answer to prove that it is a neighbour, if brokers have to."""
    greeting: Hello | None = None
    """What it said of itself, if it still has to prove that."""
    guest: Guest | None = None
    sequence: LinkSequence | None = None
    wake: Wake = field(init=False)
    """The effect by which its outbox is emptied: the same one each time."""

    def __post_init__(self) -> None:
        self.wake = Wake(self.connection)


class Farewell(NamedTuple):
    """A connection that must end, and why."""

    peer: Peer
    code: str
    reason: str


def guest_of(peer: Peer) -> Guest:
    """What is kept for a client, which this must be."""
    assert peer.guest is not None, f"{peer.name} is no client"
    return peer.guest
