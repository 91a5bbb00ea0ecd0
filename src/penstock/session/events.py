"""What happens to a client that its program may want to know: values, each with a sentence for people as its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.session.positions import LostTicks

__all__ = [
    "ClientEvent",
    "ConnectFailed",
    "Connected",
    "Disconnected",
    "EventsDropped",
    "GaveUp",
    "HeldBack",
    "Moved",
    "Refusals",
    "Refused",
    "Released",
    "Unanswered",
]

_KINDS_MAX: Final = 100
"""Pubends and reasons whose refused messages are counted apart."""


@dataclass(slots=True, frozen=True)
class Connected:
    """A broker has welcomed the client."""

    broker: str
    address: str
    away_ms: int | None = None
    """How long the client was without a connection; None if this is its first one."""

    def __str__(self) -> str:
        back = "" if self.away_ms is None else f", back after {_seconds(self.away_ms)}"
        return f"connected to broker {self.broker} at {self.address}{back}"


@dataclass(slots=True, frozen=True)
class Disconnected:
    """The connection is lost; the client tries to get another one. Nothing is held back any more."""

    broker: str
    address: str
    reason: str
    retry_ms: int
    """How long the client waits before it tries again."""

    def __str__(self) -> str:
        lost = f"lost the connection to broker {self.broker} at {self.address}"
        return f"{lost}: {self.reason}; next try in {_seconds(self.retry_ms)}"


@dataclass(slots=True, frozen=True)
class ConnectFailed:
    """All addresses were tried, and none answered; the client tries again."""

    problem: str
    """What was wrong at each address."""
    retry_ms: int

    def __str__(self) -> str:
        return f"no broker answers: {self.problem}; next try in {_seconds(self.retry_ms)}"


@dataclass(slots=True, frozen=True)
class Moved:
    """The client has moved to another broker. Nothing is held back any more, unless the new broker says so."""

    former: str
    broker: str
    address: str
    reason: str

    def __str__(self) -> str:
        return f"moved from broker {self.former} to broker {self.broker} at {self.address}: {self.reason}"


@dataclass(slots=True, frozen=True)
class Refused:
    """The broker refused a subscription, or messages.

    Messages to one pubend are counted by the reason: there is an event for the first, and then for the tenth, the
    hundredth and so on.
    """

    what: Literal["subscription", "messages"]
    subject: str
    """The selector of the subscription, or the pubend of the messages."""
    reason: str
    count: int = 1
    """How many messages were refused so far for this reason."""

    def __str__(self) -> str:
        if self.what == "subscription":
            return f"the broker refused the subscription to {self.subject}: {self.reason}"
        messages = "a message" if self.count == 1 else f"{self.count:,} messages so far"
        return f"{messages} to pubend {self.subject} refused: {self.reason}"


@dataclass(slots=True, frozen=True)
class HeldBack:
    """The messages to a pubend have to wait."""

    pubend: str
    reason: str

    def __str__(self) -> str:
        return f"messages to pubend {self.pubend} are held back: {self.reason}"


@dataclass(slots=True, frozen=True)
class Released:
    """The messages to a pubend no longer have to wait."""

    pubend: str

    def __str__(self) -> str:
        return f"messages to pubend {self.pubend} are no longer held back"


@dataclass(slots=True, frozen=True)
class Unanswered:
    """A member has left its group before everything that it acknowledged or refused was answered."""

    group: str
    count: int
    """Messages that it had acknowledged or refused: some may not have heard of it, and come again."""

    def __str__(self) -> str:
        messages = "one message" if self.count == 1 else f"{self.count:,} messages"
        return f"left group {self.group} before it was answered for {messages}, which may be handed out again"


@dataclass(slots=True, frozen=True)
class GaveUp:
    """The client has stopped for good: it was refused, or found no broker in time."""

    problem: str

    def __str__(self) -> str:
        return f"gave up: {self.problem}"


@dataclass(slots=True, frozen=True)
class EventsDropped:
    """The program did not read a stream of events, and the oldest ones were dropped."""

    count: int

    def __str__(self) -> str:
        return f"{self.count:,} events were dropped, since nobody read them"


ClientEvent: TypeAlias = (
    Connected
    | Disconnected
    | ConnectFailed
    | Moved
    | Refused
    | HeldBack
    | Released
    | LostTicks
    | Unanswered
    | GaveUp
    | EventsDropped
)


class Refusals:
    """Counts refused messages by pubend and reason, and says which counts are worth an event.

    >>> refusals = Refusals()
    >>> [len(refusals.add("quotes", "not allowed", 1)) for _ in range(12)]
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, pubend: str, reason: str, count: int) -> list[ClientEvent]:
        """Some messages were refused; returns the event, if one is due."""
        kind = (pubend, reason)
        if kind not in self._counts and len(self._counts) >= _KINDS_MAX:
            # A broker may give each message a reason of its own: those are counted together.
            kind = ("", "")
            reason = f"{reason}, and other reasons"
        before = self._counts.get(kind, 0)
        total = self._counts[kind] = before + count
        # Its number of digits has grown: 1, 10, 100 and so on.
        if before and len(str(total)) == len(str(before)):
            return []
        return [Refused("messages", pubend, reason, total)]


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:.1f} s"
