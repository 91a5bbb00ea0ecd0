"""Frames that carry messages, or must stay in order with those that do; the same frame goes to many connections.

Bodies are opaque bytes. A frame caches its encoding, so that a fan-out encodes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

__all__ = [
    "Carry",
    "Deliver",
    "Forward",
    "Handed",
    "Horizons",
    "KnowledgeKind",
    "KnowledgeMessage",
    "LogAnswer",
    "Publish",
    "delivery_number",
    "is_guaranteed_number",
]


class Publish:
    """Messages from a client to a pubend, or to one of the broker's choice if it names none.

    They are numbered from ``first`` on; the messages of a publisher to each pubend have numbers of their own.
    """

    __slots__ = ("bodies", "encoded", "first", "pubend")

    def __init__(self, first: int, bodies: list[bytes], pubend: str = "") -> None:
        self.first = first
        self.bodies = bodies
        self.pubend = pubend
        self.encoded: bytes | None = None

    @property
    def size(self) -> int:
        """About how many bytes it has on the wire; not kept, since a broker that receives it has no use for it."""
        return 24 + len(self.pubend) + sum(map(len, self.bodies)) + 4 * len(self.bodies)


class Carry:
    """Messages of a publisher on their way up the tree of a pubend, numbered from ``first`` on.

    Without messages it is a question: whether everything up to ``after`` has arrived.
    """

    __slots__ = (
        "after",
        "asks",
        "bodies",
        "client",
        "encoded",
        "first",
        "host",
        "is_first",
        "pubend",
        "publisher",
        "round",
    )

    def __init__(
        self,
        pubend: str,
        host: str,
        publisher: bytes,
        client: str,
        numbers: tuple[int, int, int],
        bodies: list[bytes],
        *,
        is_first: bool = False,
        asks: bool = False,
    ) -> None:
        self.pubend = pubend
        self.host = host
        """The broker that the publisher is connected to."""
        self.publisher = publisher
        """The publisher's identity, bound to its client."""
        self.client = client
        """The name under which limits count what is published."""
        self.round, self.after, self.first = numbers
        """The round, which begins anew whenever something may have been lost; the last number carried before in this
        round; and the number of the first message, which is the next one unless those in between were refused."""
        self.bodies = bodies
        self.is_first = is_first
        """Whether it begins the round: the publisher knows that everything before it is settled."""
        self.asks = asks
        """Whether somebody waits for everything to be settled."""
        self.encoded: bytes | None = None

    @property
    def size(self) -> int:
        """About how many bytes it has on the wire."""
        names = len(self.pubend) + len(self.host) + len(self.publisher) + len(self.client)
        return 56 + names + sum(map(len, self.bodies)) + 4 * len(self.bodies)


class Handed:
    """Messages that a pubend hands to a member of a group, on their way to it."""

    __slots__ = (
        "attempts",
        "bodies",
        "encoded",
        "host",
        "life",
        "member",
        "pubend",
        "round",
        "sequence",
        "series",
        "ticks",
    )

    def __init__(
        self,
        pubend: str,
        host: str,
        member: bytes,
        numbers: tuple[int, int, int, int],
        ticks: list[int],
        attempts: list[int],
        bodies: list[bytes],
    ) -> None:
        self.pubend = pubend
        self.host = host
        """The broker that the member is connected to; empty on the last leg, to the client itself."""
        self.member = member
        """The member's identity; on the last leg, the number that the client has chosen, in 8 bytes."""
        self.life, self.series, self.round, self.sequence = numbers
        """The life of the pubend's broker, a number that it gives the member each time it begins to count anew, which
        connection of the member this is for, and a number that counts what is sent for it."""
        self.ticks = ticks
        self.attempts = attempts
        """How often each of them was handed out, this time included."""
        self.bodies = bodies
        self.encoded: bytes | None = None

    @property
    def size(self) -> int:
        """About how many bytes it has on the wire."""
        names = len(self.pubend) + len(self.host) + len(self.member)
        return 48 + names + sum(map(len, self.bodies)) + 16 * len(self.bodies)


class Forward:
    """Messages of one pubend on their way down its tree, in the order of their ticks."""

    __slots__ = ("bodies", "encoded", "pubend", "size", "ticks")

    def __init__(self, pubend: str, ticks: list[int], bodies: list[bytes]) -> None:
        self.pubend = pubend
        self.ticks = ticks
        self.bodies = bodies
        self.size = 16 + len(pubend) + sum(map(len, bodies)) + 12 * len(bodies)
        self.encoded: bytes | None = None


def delivery_number(place: int, *, is_guaranteed: bool) -> int:
    """The number that stands for the pubend at this place in deliveries: odd if best effort, even if guaranteed.

    It tells a client for every single message whether its tick is a position, even if the service class of the pubend
    changes meanwhile.
    """
    return 2 * place + (not is_guaranteed)


def is_guaranteed_number(number: int) -> bool:
    """Whether a number in deliveries stands for a guaranteed pubend."""
    return number % 2 == 0


class Deliver:
    """Messages of one pubend for the subscriptions of a client, in the order of their ticks."""

    __slots__ = ("bodies", "encoded", "numbers", "pubend", "size", "ticks")

    def __init__(self, pubend: int, ticks: Sequence[int], numbers: Sequence[bytes], bodies: Sequence[bytes]) -> None:
        self.pubend = pubend
        """The broker's number for the pubend."""
        self.ticks = ticks
        self.numbers = numbers
        """For each message, the client's numbers of the subscriptions that want it, four bytes each, big-endian."""
        self.bodies = bodies
        if len(ticks) == 1:
            self.size = 25 + len(numbers[0]) + len(bodies[0])
        else:
            self.size = 11 + 14 * len(ticks) + sum(map(len, numbers)) + sum(map(len, bodies))
        self.encoded: bytes | None = None


class KnowledgeKind(IntEnum):
    """Where knowledge goes, and what ticks without data mean."""

    LIVE = 0
    """Down the whole tree."""
    ANSWER = 1
    """Towards those who asked."""
    LOST = 2
    """Towards those who asked: what was at these ticks is lost for good."""


class KnowledgeMessage:
    """States for every tick of a pubend from first to last whether it is data, which it carries, or silence."""

    __slots__ = ("bodies", "encoded", "first", "is_whole", "kind", "last", "pubend", "size", "ticks", "versions")

    def __init__(
        self,
        pubend: str,
        first: int,
        last: int,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        *,
        kind: KnowledgeKind = KnowledgeKind.LIVE,
        versions: tuple[tuple[str, int, int], ...] = (),
        is_whole: bool = False,
    ) -> None:
        self.pubend = pubend
        self.first = first
        self.last = last
        self.ticks = ticks
        self.bodies = bodies
        self.kind = kind
        self.versions = versions
        """Host, incarnation and version of each filter that narrowed it, except those that the previous message of this
        pubend on this connection stated already."""
        self.is_whole = is_whole
        """Whether the list of versions is complete, and replaces those of earlier messages."""
        self.size = 36 + len(pubend) + sum(map(len, bodies)) + 12 * len(bodies) + 32 * len(versions)
        self.encoded: bytes | None = None


class Horizons:
    """Everything below a tick of a pubend has been sent: to some subscriptions of a client, or to all but some.

    The first such frame for a subscription and a pubend on a connection names the subscription, and says where it
    begins; until then, frames for "all but some" do not apply to it.
    """

    __slots__ = ("encoded", "is_only", "numbers", "present", "pubend", "size", "tick")

    def __init__(
        self, pubend: int, tick: int, numbers: bytes = b"", *, is_only: bool = False, present: int = 0
    ) -> None:
        self.pubend = pubend
        """The broker's number for the pubend."""
        self.tick = tick
        self.present = max(present, tick)
        """How far the pubend itself is, as far as the broker knows."""
        self.numbers = numbers
        """The client's numbers of subscriptions, four bytes each, big-endian."""
        self.is_only = is_only
        """Whether the frame applies to these subscriptions, or to all others."""
        self.size = 28 + len(numbers)
        self.encoded: bytes | None = None


class LogAnswer:
    """What the log of a pubend holds for all ticks from first to last, on its way to the client that asked.

    If the last tick lies before the first, nothing is known there yet.
    """

    __slots__ = (
        "bodies",
        "encoded",
        "first",
        "host",
        "is_compacted",
        "last",
        "lost",
        "number",
        "pubend",
        "size",
        "ticks",
    )

    def __init__(
        self,
        pubend: str,
        host: str,
        number: int,
        ticks_from_to: tuple[int, int],
        ticks: list[int],
        bodies: list[bytes],
        lost: tuple[tuple[int, int], ...] = (),
        *,
        is_compacted: bool = False,
    ) -> None:
        self.pubend = pubend
        self.host = host
        """The host whose client asked; empty on the last leg, to the client itself."""
        self.number = number
        """Number of the request, as the asker counts them."""
        self.first, self.last = ticks_from_to
        self.ticks = ticks
        self.bodies = bodies
        self.lost = lost
        """Ranges of ticks that were trimmed or are damaged: what was there is lost for good."""
        self.is_compacted = is_compacted
        """Whether these ticks were trimmed, and this is what is kept of them: the newest message of each key."""
        # Includes the memory to hold the frame: requests for nothing are cheap, and their answers may wait for long.
        self.size = 512 + len(pubend) + len(host) + sum(map(len, bodies)) + 12 * len(bodies) + 16 * len(lost)
        self.encoded: bytes | None = None
