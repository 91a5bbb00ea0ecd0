"""The frames that brokers and clients exchange, as values.

Control frames are small and rare, and overtake data on every link. Data frames carry message bodies as opaque bytes;
the same frame object goes to every connection that gets the same bytes, and is encoded once.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.protocol.connection_frames import (
    Goodbye,
    Heartbeat,
    Hello,
    LinkProof,
    Migrate,
    Moved,
    MoveFailed,
    Welcome,
)
from penstock.protocol.control import (
    NAMES_MAX,
    Control,
    Count,
    Name,
    Names,
    PlainName,
    PlainNames,
    PubendTick,
    Reason,
    SelectorText,
    Signed,
    Version,
)
from penstock.protocol.data_frames import (
    Deliver,
    Forward,
    Horizons,
    KnowledgeKind,
    KnowledgeMessage,
    LogAnswer,
    Publish,
    is_guaranteed_number,
)
from penstock.protocol.stream_frames import (
    LATEST,
    CongestionAlert,
    CongestionQuery,
    LogRequest,
    LogSpan,
    Missing,
    Nack,
    Positions,
    StreamForget,
    StreamForgotten,
    StreamOpen,
    StreamOpened,
    StreamTaken,
)
from penstock.protocol.trace_frames import TraceAnswer, TraceQuestion, TraceReply, TraceRequest

__all__ = [
    "LATEST",
    "PROTOCOL_VERSION",
    "Acknowledge",
    "CongestionAlert",
    "CongestionQuery",
    "ControlFrame",
    "DataFrame",
    "Deliver",
    "FilterAck",
    "FilterApplied",
    "FilterProbe",
    "FilterUpdate",
    "Forget",
    "Forgotten",
    "Forward",
    "Frame",
    "Goodbye",
    "Heartbeat",
    "HeldBack",
    "Hello",
    "Horizons",
    "KnowledgeKind",
    "KnowledgeMessage",
    "LinkProof",
    "LinkState",
    "LogAnswer",
    "LogRequest",
    "LogSpan",
    "Lost",
    "MechanismMessage",
    "Migrate",
    "Missing",
    "MoveFailed",
    "Moved",
    "Nack",
    "Positions",
    "PubendNames",
    "Publish",
    "PublishAck",
    "ReadRequest",
    "Refused",
    "RefusedAck",
    "StatusReply",
    "StatusRequest",
    "StreamForget",
    "StreamForgotten",
    "StreamOpen",
    "StreamOpened",
    "StreamTaken",
    "Subscribe",
    "Subscribed",
    "SurveyReply",
    "SurveyRequest",
    "TraceAnswer",
    "TraceQuestion",
    "TraceReply",
    "TraceRequest",
    "Unsubscribe",
    "Unsubscribed",
    "Welcome",
    "is_guaranteed_number",
]

PROTOCOL_VERSION: Final = 7

_Ticks = Annotated[tuple[tuple[Name, PubendTick], ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Pubends, with a tick of each."""
_Selectors = Annotated[tuple[SelectorText, ...], msgspec.Meta(max_length=NAMES_MAX)]


class LinkState(Control, tag="linkstate", frozen=True, array_like=True):
    """One broker's view of its own links, flooded to all."""

    origin: PlainName
    incarnation: Count
    sequence: Count
    neighbours: PlainNames
    pubends: PlainNames = ()
    best_effort: PlainNames = ()
    """The pubends among these that guarantee nothing."""
    number: Count = 0
    """The origin's number in message identifiers."""


class FilterUpdate(Control, tag="filter", frozen=True, array_like=True):
    """A change of what the clients of one broker (``host``) want, flooded in order and acknowledged per link."""

    sequence: Count
    """Position in this link's ordered sequence of updates."""
    host: PlainName
    incarnation: Count
    version: Version
    base: Version
    """The version that it updates, or -1 if it is the whole filter."""
    added: _Selectors = ()
    removed: _Selectors = ()


class FilterAck(Control, tag="filterack", frozen=True, array_like=True):
    """All filter updates of this link up to the sequence have been applied."""

    sequence: Count


class FilterProbe(Control, tag="probe", frozen=True, array_like=True):
    """Asks, from a host up a pubend's tree, whether every broker on the way has applied this version."""

    host: PlainName
    incarnation: Version
    version: Version
    pubend: PlainName


class FilterApplied(Control, tag="applied", frozen=True, array_like=True):
    """The pubend's answer to a probe, down its tree: from this tick on, the path includes that version."""

    host: PlainName
    incarnation: Version
    version: Version
    pubend: PlainName
    tick: Count


class Subscribe(Control, tag="subscribe", frozen=True, array_like=True):
    """A client asks for messages; it chooses the number of the subscription itself."""

    number: Signed
    selector: SelectorText
    positions: _Ticks = ()
    """Pubends, with the first tick wanted of each."""
    resumes: bool = False
    """Whether the client continues: it was subscribed before, and pubends that are unknown now will come back."""
    otherwise: PubendTick = LATEST
    """The first tick wanted of all other pubends; `LATEST` for what is published from now on, 0 for all there is."""
    missing: Missing = "fail"
    """What to do if the first tick wanted is no longer kept."""
    durable: Name = ""
    """The name under which the pubends keep its positions over any absence; empty if it is not durable."""


class Subscribed(Control, tag="subscribed", frozen=True, array_like=True):
    """The subscription is in force on all paths, except from the pubends that are pending."""

    number: Signed
    selector: str
    """The requested selector, narrowed to what the client may see, in canonical form."""
    pending: Names = ()
    starts: _Ticks = ()
    """Guaranteed pubends, with the tick from which on nothing will be missing; sent again when a pending one begins."""


class Unsubscribe(Control, tag="unsubscribe", frozen=True, array_like=True):
    """A client withdraws a subscription."""

    number: Signed


class Unsubscribed(Control, tag="unsubscribed", frozen=True, array_like=True):
    """No more messages for this subscription follow."""

    number: Signed


class Refused(Control, tag="refused", frozen=True, array_like=True):
    """The broker refuses a client's request; the connection stays open."""

    request: Name
    """``subscribe``, ``unsubscribe``, ``publish``, ``forget`` or ``read``."""
    number: Signed
    reason: Reason
    count: Count = 1
    """How many messages are refused, from that number on; always 1 for other requests."""


class RefusedAck(Control, tag="refusedack", frozen=True, array_like=True):
    """A client confirms that it knows about refused messages up to this sequence; the broker waits for that."""

    sequence: Count


class PublishAck(Control, tag="ack", frozen=True, array_like=True):
    """The broker has accepted or refused everything up to this publish sequence, and returns bytes of credit."""

    sequence: Signed
    credit_bytes: Signed


class HeldBack(Control, tag="heldback", frozen=True, array_like=True):
    """Tells publishers why they have to wait; the reason is empty once they no longer have to."""

    reason: Reason
    window_bytes: Count = 0
    """How many bytes may be unacknowledged meanwhile; 0 for as many as there is credit for."""


class Acknowledge(Control, tag="acknowledge", frozen=True, array_like=True):
    """A client has everything below these ticks; pubends by the broker's numbers."""

    positions: Annotated[tuple[tuple[Count, PubendTick], ...], msgspec.Meta(max_length=2 * NAMES_MAX)]
    number: Signed = -1
    """The client's number of the durable subscription; -1 for all subscriptions that are not durable."""


class Lost(Control, tag="lost", frozen=True, array_like=True):
    """These ticks of a pubend are lost for good; deliveries continue after them."""

    pubend: Signed
    first: PubendTick
    last: PubendTick
    numbers: Annotated[tuple[Signed, ...], msgspec.Meta(max_length=NAMES_MAX)]
    """The client's numbers of the subscriptions that may miss something."""


class Forget(Control, tag="forgetname", frozen=True, array_like=True):
    """A client asks to forget a durable subscription, with its positions and everything kept for it."""

    number: Signed
    """The client's number of the request."""
    durable: Name


class Forgotten(Control, tag="forgottenname", frozen=True, array_like=True):
    """A durable subscription is forgotten, except by the pubends that are pending."""

    number: Signed
    pending: Names = ()


class ReadRequest(Control, tag="read", frozen=True, array_like=True):
    """A client reads some ticks from the log of a pubend; if the answer ends earlier, the client asks on from there."""

    number: Count
    """The client's number of the request; the same when it retries."""
    pubend: Name
    first: PubendTick
    last: PubendTick
    selector: SelectorText
    bytes_max: Count
    """How much of the log to scan at once."""


class SurveyRequest(Control, tag="survey", frozen=True, array_like=True):
    """A client asks for the first and last tick in the logs of all guaranteed pubends."""

    number: Signed


class SurveyReply(Control, tag="surveyreply", frozen=True, array_like=True):
    """The pubends, with the first tick kept and the last tick known for good of each, and the pubends out of reach."""

    number: Signed
    spans: Annotated[tuple[tuple[Name, PubendTick, PubendTick], ...], msgspec.Meta(max_length=NAMES_MAX)] = ()
    unreachable: Names = ()


class PubendNames(Control, tag="pubends", frozen=True, array_like=True):
    """Maps the numbers in deliveries to pubends; ``is_guaranteed_number`` tells the service class of each."""

    names: Annotated[tuple[tuple[Count, Name], ...], msgspec.Meta(max_length=NAMES_MAX)]


class MechanismMessage(Control, tag="mechanism", frozen=True, array_like=True):
    """A mechanism's own control traffic between neighbours."""

    mechanism: Name
    payload: bytes


class StatusRequest(Control, tag="status", frozen=True, array_like=True):
    """A client asks for the broker's status."""

    number: Signed = 0


class StatusReply(Control, tag="statusreply", frozen=True, array_like=True):
    """The broker's status, as JSON."""

    number: Signed
    status: bytes


ControlFrame: TypeAlias = (
    Hello
    | LinkProof
    | Welcome
    | Goodbye
    | Heartbeat
    | LinkState
    | FilterUpdate
    | FilterAck
    | FilterProbe
    | FilterApplied
    | Subscribe
    | Subscribed
    | Unsubscribe
    | Unsubscribed
    | Refused
    | RefusedAck
    | PublishAck
    | HeldBack
    | Acknowledge
    | Lost
    | Nack
    | Positions
    | StreamOpen
    | StreamOpened
    | StreamTaken
    | StreamForget
    | StreamForgotten
    | CongestionQuery
    | CongestionAlert
    | LogRequest
    | LogSpan
    | Forget
    | Forgotten
    | ReadRequest
    | SurveyRequest
    | SurveyReply
    | TraceRequest
    | TraceReply
    | TraceQuestion
    | TraceAnswer
    | Migrate
    | Moved
    | MoveFailed
    | PubendNames
    | MechanismMessage
    | StatusRequest
    | StatusReply
)


DataFrame: TypeAlias = Publish | Forward | Deliver | KnowledgeMessage | Horizons | LogAnswer
Frame: TypeAlias = ControlFrame | DataFrame
