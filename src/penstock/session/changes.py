"""What a session returns: effects that its shell carries out, and changes that the shell passes on to the application.

Every line (connection) has a number of its own. For each ``Dial`` the shell reports ``on_connected`` at most once and
``on_lost`` exactly once: when the attempt failed, or when nothing is left of the connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.protocol.frames import (
    DurablesReply,
    Forgotten,
    Frame,
    Goodbye,
    InterestReply,
    LogAnswer,
    Migrate,
    Refused,
    StatusReply,
    SurveyReply,
    TraceReply,
    Welcome,
)
from penstock.session.address import Address
from penstock.session.errors import ClientError
from penstock.session.events import ClientEvent
from penstock.session.inbox import Inbox
from penstock.session.positions import LostTicks

__all__ = ["Abort", "Answer", "Changes", "Dial", "Effect", "HangUp", "Reply"]

Reply: TypeAlias = StatusReply | Forgotten | SurveyReply | LogAnswer | TraceReply | DurablesReply | InterestReply
Answer: TypeAlias = Reply | Refused
"""The answer to a request that the application waits for; it has the number of the request."""


@dataclass(slots=True, frozen=True)
class Dial:
    """Connect to a broker; the outcome is reported under this number."""

    line: int
    address: Address


@dataclass(slots=True, frozen=True)
class HangUp:
    """Send these last words, and end the connection once they are out."""

    line: int
    last_words: tuple[Frame, ...] = ()


@dataclass(slots=True, frozen=True)
class Abort:
    """Cut the connection now, or give up the attempt to make it."""

    line: int


Effect: TypeAlias = Dial | HangUp | Abort


@dataclass(slots=True)
class Changes:
    """What follows from a stimulus: effects for the shell to carry out in order, and news for the application."""

    effects: list[Effect] = field(default_factory=list)

    inboxes: dict[int, Inbox] = field(default_factory=dict)
    """Subscriptions with new messages or a new state, by number."""
    answers: list[Answer] = field(default_factory=list)
    """Answers to requests, or the reasons why they were refused."""
    missing: list[LostTicks] = field(default_factory=list)
    """Lost ticks that some subscription will never get."""
    publishing: bool = False
    """Whether there may be room for messages, or some were settled."""
    welcome: Welcome | None = None
    goodbye: Goodbye | None = None
    order: Migrate | None = None
    """The broker's order to move to another one."""
    must_come_back: bool = False
    """Whether durable names must be claimed back on a new connection: what still arrives on this one is outdated."""
    lost: bool = False
    """Whether the connection is gone."""
    events: list[ClientEvent] = field(default_factory=list)
    """What happened that the program may want to know, besides ``missing``."""
    end: ClientError | None = None
    """Why the session has ended, if it has."""

    def join(self, other: Changes) -> None:
        """Adds later changes to these."""
        self.effects += other.effects
        self.inboxes |= other.inboxes
        self.answers += other.answers
        self.missing += other.missing
        self.publishing = self.publishing or other.publishing
        self.welcome = other.welcome or self.welcome
        self.must_come_back = self.must_come_back or other.must_come_back
        self.lost = self.lost or other.lost
        self.events += other.events
        self.end = self.end or other.end
