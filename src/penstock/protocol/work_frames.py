"""Control frames of work queues: members join groups, say what becomes of messages, and hear whether that counts.

A client speaks to its broker, the host; the host speaks for it to the pubends, up their trees, and they answer down to
the named host. Nothing here needs to arrive: hosts ask again, and clients repeat what they have no answer to.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.model.names import is_client_name
from penstock.protocol.control import (
    AttributeName,
    Control,
    Count,
    DurableName,
    Name,
    Names,
    PlainName,
    PubendTick,
    Reason,
    SelectorText,
    Signed,
)
from penstock.protocol.stream_frames import LATEST

__all__ = [
    "DEAD_LETTERS",
    "DEAD_WORK_MS",
    "DELAY_MS_MAX",
    "DELIVERIES_MAX",
    "PREFETCH_MAX",
    "VERDICTS_MAX",
    "WORK_MS_MAX",
    "WORK_MS_MIN",
    "Join",
    "Outcome",
    "Outcomes",
    "Verdict",
    "Verdicts",
    "WorkAsk",
    "WorkJoined",
    "WorkLeave",
    "WorkOutcomes",
    "WorkVerdicts",
]

DEAD_LETTERS: Final = "dead-letters"
"""The group that holds dead letters at their pubend until somebody retries or drops them; made by the broker."""
DEAD_WORK_MS: Final = 60_000
"""How long whoever looks after dead letters may take for one."""
WORK_MS_MIN: Final = 100
"""The least time that a member may have for a message."""
WORK_MS_MAX: Final = 24 * 3_600_000
DELIVERIES_MAX: Final = 1_000
DELAY_MS_MAX: Final = 30 * 24 * 3_600_000
"""How long a message that was refused can wait before it is handed out again."""
PREFETCH_MAX: Final = 1_000
"""Most messages that a member can have at a time."""
VERDICTS_MAX: Final = 1_000
"""Verdicts in one frame."""
_Why = Annotated[str, msgspec.Meta(max_length=200)]
_Kind = Annotated[int, msgspec.Meta(ge=0, le=3)]
_Outcome = Annotated[int, msgspec.Meta(ge=0, le=2)]
Member: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=32)]
"""The identity of a member, in all groups."""
_Verdicts = Annotated[tuple[tuple[PubendTick, Count, _Kind, Count, _Why], ...], msgspec.Meta(max_length=VERDICTS_MAX)]
"""Tick, attempt, verdict, how long to wait before it is handed out again in ms, and why."""
_Outcomes = Annotated[tuple[tuple[PubendTick, Count, _Kind, _Outcome], ...], msgspec.Meta(max_length=VERDICTS_MAX)]
"""Tick, attempt, verdict, and what that led to."""


class Verdict(IntEnum):
    """What a member says of a message that it was handed."""

    DONE = 0
    REFUSED = 1
    """It cannot do it now: somebody else, or later."""
    EXTENDED = 2
    """It needs more time."""
    RETURNED = 3
    """It has not begun with it, and will not: that does not count as a failure."""


class Outcome(IntEnum):
    """What a verdict has led to."""

    KEPT = 0
    """It counts."""
    LOST = 1
    """Its time was over, and somebody else was handed the message, or it was given up."""
    UNKNOWN = 2
    """The message was done so long ago that nobody knows by whom."""


class Join(Control, tag="join", frozen=True, array_like=True):
    """A client joins a group; it chooses the number itself, among its subscriptions, and leaves by ``Unsubscribe``."""

    number: Signed
    selector: SelectorText
    group: Name
    member: Member = b""
    """Tells the client from all others, on every connection that it has."""
    round: Count = 0
    """Counts the client's connections."""
    key: AttributeName = ""
    work_ms: Count = 0
    deliveries_max: Count = 0
    """Also needs a pubend for dead letters, which the operator has chosen."""
    prefetch: Count = 1
    """How many messages the client wants at a time from each pubend; 0 to make the group and be handed nothing."""
    pubends: Names = ()
    """The pubends that the group works on; empty for all guaranteed ones."""
    start: PubendTick = LATEST
    """Where a new group begins: `LATEST` for what is published from now on, 0 for all there is."""


class Verdicts(Control, tag="verdicts", frozen=True, array_like=True):
    """What a client says of messages of a pubend that it was handed."""

    number: Signed
    pubend: Name
    verdicts: _Verdicts


class Outcomes(Control, tag="outcomes", frozen=True, array_like=True):
    """What a client's verdicts have led to, once that is durable."""

    number: Signed
    pubend: Name
    outcomes: _Outcomes


class WorkAsk(Control, tag="workask", frozen=True, array_like=True):
    """A host asks a pubend for messages for a member of a group; repeated as long as the member is there."""

    pubend: PlainName
    host: PlainName
    member: Member
    client: Name
    """The member's name, for operators."""
    round: Count
    """Counts the member's connections: frames of earlier ones are ignored."""
    received: Count
    """The number up to which everything that was sent in this life and series has arrived at the host."""
    prefetch: Count
    group: DurableName
    selector: SelectorText
    key: AttributeName
    work_ms: Count
    deliveries_max: Count
    start: PubendTick
    is_owned: bool = False
    """Whether clients must authenticate, so that the group belongs to the client that makes it."""
    life: Count = 0
    """The life of the pubend's broker in which the last messages came; 0 if none has."""
    series: Count = 0
    """The series of the last messages in that life."""
    has_joined: bool = False
    """Whether the host knows that the member belongs to the group: it asks until it has heard so."""

    def __post_init__(self) -> None:
        if not is_client_name(self.client):
            raise ValueError(f"{self.client!r} is not a valid client name")


class WorkJoined(Control, tag="workjoined", frozen=True, array_like=True):
    """A pubend's answer to ``WorkAsk``: the member belongs to the group, or why it does not."""

    pubend: PlainName
    host: PlainName
    member: Member
    round: Count
    problem: Reason = ""


class WorkLeave(Control, tag="workleave", frozen=True, array_like=True):
    """A member has left, or its connection is gone and it may come back."""

    pubend: PlainName
    host: PlainName
    member: Member
    round: Count
    group: DurableName
    is_final: bool


class WorkVerdicts(Control, tag="workverdicts", frozen=True, array_like=True):
    """What a member says of messages that it was handed, on the way up."""

    pubend: PlainName
    host: PlainName
    member: Member
    group: DurableName
    verdicts: _Verdicts


class WorkOutcomes(Control, tag="workoutcomes", frozen=True, array_like=True):
    """What a member's verdicts have led to, on the way down."""

    pubend: PlainName
    host: PlainName
    member: Member
    outcomes: _Outcomes
