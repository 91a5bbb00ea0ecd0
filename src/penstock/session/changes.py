"""What happened to a client, as values that its shell passes on to the application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.protocol.frames import (
    Forgotten,
    Goodbye,
    LogAnswer,
    Migrate,
    Refused,
    StatusReply,
    SurveyReply,
    TraceReply,
    Welcome,
)
from penstock.session.inbox import Inbox
from penstock.session.positions import LostTicks

__all__ = ["Answer", "Changes", "Reply"]

Reply: TypeAlias = StatusReply | Forgotten | SurveyReply | LogAnswer | TraceReply
Answer: TypeAlias = Reply | Refused
"""To a request that the application waits for; its number is that of the request."""


@dataclass(slots=True)
class Changes:
    """What the shell has to pass on to the application, after some input."""

    inboxes: dict[int, Inbox] = field(default_factory=dict)
    """The subscriptions with messages or another state, by number."""
    answers: list[Answer] = field(default_factory=list)
    """Answers to what was asked, or the reasons why there is none."""
    missing: list[LostTicks] = field(default_factory=list)
    """What some subscription will never get."""
    publishing: bool = False
    """There may be room for messages, or some are settled."""
    welcome: Welcome | None = None
    goodbye: Goodbye | None = None
    order: Migrate | None = None
    """The broker wants this client to go to another one."""
    must_come_back: bool = False
    """Durable names have to be claimed back, on a new connection: what is still said on this one is about the past."""
    lost: bool = False
    """The connection is gone."""
