"""The frames that brokers and clients exchange, as values.

Control frames are small and rare, and overtake data on every link. Data frames carry message bodies as opaque bytes;
the same frame object goes to every connection that gets the same bytes, and is encoded once.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.model.limits import BODY_BYTES_MAX, PAYLOAD_BYTES_MAX
from penstock.protocol.connection_frames import (
    Goodbye,
    Heartbeat,
    Hello,
    LinkProof,
    Migrate,
    Moved,
    MoveFailed,
    Welcome,
    carried_credit,
)
from penstock.protocol.control import (
    NAMES_MAX,
    AttributeName,
    Control,
    Count,
    Name,
    Names,
    Places,
    PlainName,
    PlainNames,
    Pubends,
    PubendTick,
    Reason,
    SelectorText,
    Signed,
    Version,
)
from penstock.protocol.data_frames import (
    Carry,
    Deliver,
    Forward,
    Handed,
    Horizons,
    KnowledgeKind,
    KnowledgeMessage,
    LogAnswer,
    Publish,
    is_guaranteed_number,
)
from penstock.protocol.stream_frames import (
    LATEST,
    Carried,
    CongestionAlert,
    CongestionQuery,
    DurableEntry,
    LogRequest,
    LogSpan,
    Missing,
    Nack,
    Positions,
    StreamForget,
    StreamForgotten,
    StreamList,
    StreamListed,
    StreamOpen,
    StreamOpened,
    StreamSettle,
    StreamSettled,
    StreamTaken,
    Ticks,
)
from penstock.protocol.trace_frames import TraceAnswer, TraceQuestion, TraceReply, TraceRequest
from penstock.protocol.work_frames import (
    Join,
    Outcomes,
    Verdicts,
    WorkAsk,
    WorkJoined,
    WorkLeave,
    WorkOutcomes,
    WorkVerdicts,
)

__all__ = [
    "LATEST",
    "PROTOCOL_VERSION",
    "Acknowledge",
    "Carried",
    "Carry",
    "CongestionAlert",
    "CongestionQuery",
    "ControlFrame",
    "DataFrame",
    "Deliver",
    "DurableEntry",
    "DurablesReply",
    "DurablesRequest",
    "FilterAck",
    "FilterApplied",
    "FilterProbe",
    "FilterUpdate",
    "Forget",
    "Forgotten",
    "Forward",
    "Frame",
    "Goodbye",
    "Handed",
    "Heartbeat",
    "HeldBack",
    "Hello",
    "Horizons",
    "InterestReply",
    "InterestRequest",
    "Join",
    "KnowledgeKind",
    "KnowledgeMessage",
    "LinkProof",
    "LinkState",
    "LogAnswer",
    "LogRequest",
    "LogSpan",
    "Lost",
    "Marks",
    "MechanismMessage",
    "Migrate",
    "Missing",
    "MoveFailed",
    "Moved",
    "Nack",
    "Outcomes",
    "Positions",
    "PubendNames",
    "PubendPlaces",
    "Publish",
    "PublishAck",
    "ReadRequest",
    "Refused",
    "Remembered",
    "Rewind",
    "Rewound",
    "Settle",
    "Settled",
    "Skipped",
    "StatusReply",
    "StatusRequest",
    "StreamForget",
    "StreamForgotten",
    "StreamList",
    "StreamListed",
    "StreamOpen",
    "StreamOpened",
    "StreamSettle",
    "StreamSettled",
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
    "Verdicts",
    "Welcome",
    "WorkAsk",
    "WorkJoined",
    "WorkLeave",
    "WorkOutcomes",
    "WorkVerdicts",
    "carried_credit",
    "is_guaranteed_number",
]

PROTOCOL_VERSION: Final = 8

_Ticks = Annotated[tuple[tuple[Name, PubendTick], ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Pubends, with a tick of each."""
Marks: TypeAlias = Annotated[tuple[tuple[PlainName, PubendTick, PubendTick], ...], msgspec.Meta(max_length=NAMES_MAX)]
"""Pubends, with two ticks of each."""
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
    life: Count = 0
    """The incarnation with which the origin's present life began."""
    known: Marks = ()
    """The guaranteed pubends among these: up to which tick this life knows what former ones may have promised, and up
    to which tick it has or misses their messages."""
    is_asking: bool = False
    """Whether the origin waits to hear from all brokers what they remember of these pubends."""


class Remembered(Control, tag="remembered", frozen=True, array_like=True):
    """A broker tells another one what it has heard of its pubends in former lives, if that life does not know it."""

    to: PlainName
    host: PlainName
    """The broker that remembers."""
    life: Count
    """The life of the other that it answers."""
    marks: Marks = ()
    """Pubends, with the last tick of which anything was heard, and the last one that has a message."""
    hops: Count = 0
    """How many brokers have forwarded it."""


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
    pubends: Pubends = ()
    """The only pubends whose messages it wants; none for all. They need not exist yet."""


class Subscribed(Control, tag="subscribed", frozen=True, array_like=True):
    """The subscription is in force on all paths, except from the pubends that are pending."""

    number: Signed
    selector: str
    """The requested selector, narrowed to what the client may see, in canonical form."""
    pending: Names = ()
    """Pubends from which it is not in force yet, and those it names that the broker does not know."""
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
    """``subscribe``, ``unsubscribe``, ``publish``, ``forget``, ``durables`` or ``read``."""
    number: Signed
    reason: Reason
    count: Count = 1
    """How many messages are refused, from that number on; always 1 for other requests."""
    pubend: Name = ""
    """The pubend of refused messages. A ``Rewind`` follows: nothing from the first of them on was taken."""


class Rewind(Control, tag="rewind", frozen=True, array_like=True):
    """The broker has not taken a client's messages to a pubend from a number on, and wants them again.

    Until the client has answered, the broker ignores what it sends to that pubend.
    """

    number: Count
    """The first message wanted, unless it was refused."""
    round: Count
    """Lets the broker match the answer."""
    pubend: Name = ""
    credit_bytes: Version = -1
    """How much the client may publish: then nobody knows which of these messages have arrived.

    If it is -1, none of them was taken, and the client has its credit for them back.
    """


class Rewound(Control, tag="rewound", frozen=True, array_like=True):
    """A client answers a ``Rewind``: what follows begins with the number that the broker wants."""

    round: Count
    pubend: Name = ""


class Skipped(Control, tag="skipped", frozen=True, array_like=True):
    """A client's next message to a pubend has this number: those between the last one and it were refused."""

    number: Count
    pubend: Name = ""


class PublishAck(Control, tag="ack", frozen=True, array_like=True):
    """The broker has everything up to this number of a client's messages to a pubend, and returns bytes of credit."""

    sequence: Signed
    credit_bytes: Signed
    pubend: Name = ""


class HeldBack(Control, tag="heldback", frozen=True, array_like=True):
    """Tells publishers to a pubend why they have to wait; the reason is empty once they no longer have to."""

    reason: Reason
    window_bytes: Count = 0
    """How many bytes may be unacknowledged meanwhile; 0 for as many as there is credit for."""
    pubend: Name = ""


class PubendPlaces(Control, tag="places", frozen=True, array_like=True):
    """Which pubends of the overlay a client can publish to has changed."""

    added: Places = ()
    """New ones, and those that have moved or changed their service class."""
    gone: Names = ()
    is_complete: bool = True
    """Whether the broker knows all there are."""


class Acknowledge(Control, tag="acknowledge", frozen=True, array_like=True):
    """A client has everything below these ticks; pubends by the broker's numbers."""

    positions: Annotated[tuple[tuple[Count, PubendTick], ...], msgspec.Meta(max_length=2 * NAMES_MAX)]
    number: Signed = -1
    """The client's number of the durable subscription; -1 for all subscriptions that are not durable."""


class Settle(Control, tag="settle", frozen=True, array_like=True):
    """A client says what its durable subscription is done with at one pubend, and wants to hear when that is kept."""

    number: Signed
    """The client's number of the subscription."""
    pubend: Count
    """The broker's number for the pubend."""
    below: PubendTick
    """The tick below which everything is acknowledged, as in `Acknowledge`."""
    ticks: Ticks = ()
    """Single messages that are acknowledged, at or above that tick."""


class Settled(Control, tag="settled", frozen=True, array_like=True):
    """What a pubend keeps of what was acknowledged for a durable subscription: those messages do not come again.

    A broker also says this where a subscription begins, ahead of its messages, of those acknowledged before.
    """

    number: Signed
    pubend: Count
    below: PubendTick
    """The tick below which everything is acknowledged; 0 where the subscription begins."""
    ticks: Ticks = ()


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
    pubends: Pubends = ()
    """The only pubends that are to forget it; none for all."""


class Forgotten(Control, tag="forgottenname", frozen=True, array_like=True):
    """A durable subscription is forgotten, except by the pubends that are pending."""

    number: Signed
    pending: Names = ()


class DurablesRequest(Control, tag="durables", frozen=True, array_like=True):
    """A client asks which durable subscriptions a pubend keeps; if there are more, it asks on from the last one."""

    number: Count
    pubend: Name
    after: Name = ""
    """The name after which to begin."""
    durable: Name = ""
    """The only name that is asked for; empty for all."""


class DurablesReply(Control, tag="durablesreply", frozen=True, array_like=True):
    """The durable subscriptions of a pubend that the client may see."""

    number: Count
    entries: tuple[DurableEntry, ...] = ()
    is_more: bool = False


class InterestRequest(Control, tag="interest", frozen=True, array_like=True):
    """A client asks whether anybody wants a message that it publishes to a pubend."""

    number: Count
    pubend: Name
    """Empty for any."""
    body: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX - PAYLOAD_BYTES_MAX)]
    """The message, without its payload."""


class InterestReply(Control, tag="interestreply", frozen=True, array_like=True):
    """Whether the broker is sure that nobody wants a message: it knows all brokers, and what their clients want."""

    number: Count
    is_nobody: bool


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
    key: AttributeName = ""
    """The attribute by whose values last values are looked for: of ticks that were trimmed, the answer has the newest
    message of each value if the pubend keeps these. Empty to read the log alone."""


class SurveyRequest(Control, tag="survey", frozen=True, array_like=True):
    """A client asks for the first and last tick in the logs of all guaranteed pubends."""

    number: Signed
    key: AttributeName = ""
    """The attribute by whose values last values are looked for; empty for none."""


class SurveyReply(Control, tag="surveyreply", frozen=True, array_like=True):
    """The pubends, with the first tick kept and the last tick known for good of each, and the pubends out of reach."""

    number: Signed
    spans: Annotated[tuple[tuple[Name, PubendTick, PubendTick], ...], msgspec.Meta(max_length=NAMES_MAX)] = ()
    unreachable: Names = ()
    keeping: Names = ()
    """The pubends that keep the last values that are looked for, also of what was trimmed from their logs."""


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
    | Remembered
    | FilterProbe
    | FilterApplied
    | Subscribe
    | Subscribed
    | Unsubscribe
    | Unsubscribed
    | Refused
    | Rewind
    | Rewound
    | Skipped
    | PublishAck
    | HeldBack
    | Acknowledge
    | Settle
    | Settled
    | Lost
    | Nack
    | Positions
    | StreamOpen
    | StreamOpened
    | StreamSettle
    | StreamSettled
    | StreamTaken
    | StreamForget
    | StreamForgotten
    | StreamList
    | StreamListed
    | Carried
    | CongestionQuery
    | CongestionAlert
    | LogRequest
    | LogSpan
    | Forget
    | Forgotten
    | DurablesRequest
    | DurablesReply
    | InterestRequest
    | InterestReply
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
    | PubendPlaces
    | MechanismMessage
    | StatusRequest
    | StatusReply
    | Join
    | Outcomes
    | Verdicts
    | WorkAsk
    | WorkJoined
    | WorkLeave
    | WorkOutcomes
    | WorkVerdicts
)


DataFrame: TypeAlias = Publish | Carry | Forward | Deliver | KnowledgeMessage | Horizons | LogAnswer | Handed
Frame: TypeAlias = ControlFrame | DataFrame
