"""What brokers and clients say to each other: the frames of the protocol, as values.

Control frames are small and rare, and overtake data on every link. Data frames carry message bodies as untouched
bytes; the same frame object goes to every connection that gets the same bytes, and is encoded once.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from penstock.broker.data_frames import Deliver, Forward, Horizons, KnowledgeKind, KnowledgeMessage, Publish

__all__ = [
    "PROTOCOL_VERSION",
    "Acknowledge",
    "ControlFrame",
    "DataFrame",
    "Deliver",
    "FilterAck",
    "FilterApplied",
    "FilterProbe",
    "FilterUpdate",
    "Forward",
    "Frame",
    "Goodbye",
    "Heartbeat",
    "HeldBack",
    "Hello",
    "Horizons",
    "KnowledgeKind",
    "KnowledgeMessage",
    "LinkState",
    "Lost",
    "MechanismMessage",
    "Nack",
    "Positions",
    "PubendNames",
    "Publish",
    "PublishAck",
    "Refused",
    "StatusReply",
    "StatusRequest",
    "Subscribe",
    "Subscribed",
    "Unsubscribe",
    "Unsubscribed",
    "Welcome",
]

PROTOCOL_VERSION: Final = 2

_COUNT_MAX: Final = 2**62
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_COUNT_MAX)]
"""A number that is only ever counted up; peers that claim to be near the end of 64 bits are not believed."""
_Version: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=_COUNT_MAX)]
_Tick: TypeAlias = _Count


class _Control(msgspec.Struct, frozen=True, array_like=True):
    """A control frame; encoded as an array that starts with its tag."""


class Hello(_Control, tag="hello", frozen=True, array_like=True):
    """The first frame in each direction of a link, and of a client."""

    version: int
    role: str
    """``broker`` or ``client``."""
    name: str
    overlay: str
    incarnation: _Count = 0
    """Grows with every start of a broker; tells what it said in this life from what it said before."""
    credential: str = ""
    """A token; empty where the certificate of the connection says who it is."""
    publisher: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """Who publishes, over all its connections; with the sequence number it tells what was sent again."""


class Welcome(_Control, tag="welcome", frozen=True, array_like=True):
    """The broker's answer to a client's hello."""

    version: int
    broker: str
    overlay: str
    publisher: int
    """The number under which this client's messages are identified."""
    broker_number: int
    now_ms: int
    """The broker's clock, from which the publisher learns its skew."""
    heartbeat_ms: int
    credit_bytes: int
    """Bytes that may be published without an acknowledgement."""
    pubends: tuple[str, ...] = ()
    best_effort: tuple[str, ...] = ()
    """Those of the pubends that guarantee nothing: what was on the wire to them must not be sent again."""


class Goodbye(_Control, tag="goodbye", frozen=True, array_like=True):
    """The last frame of a connection: why it ends."""

    code: str
    reason: str


class Heartbeat(_Control, tag="heartbeat", frozen=True, array_like=True):
    """Nothing to say, but alive."""

    now_ms: int = 0


class LinkState(_Control, tag="linkstate", frozen=True, array_like=True):
    """One broker's view of its own links, flooded to all."""

    origin: str
    incarnation: _Count
    sequence: _Count
    neighbours: tuple[str, ...]
    pubends: tuple[str, ...] = ()
    best_effort: tuple[str, ...] = ()
    """Those of the pubends that guarantee nothing."""


class FilterUpdate(_Control, tag="filter", frozen=True, array_like=True):
    """A change of what the clients of one broker (``host``) want, flooded in order and acknowledged per link."""

    sequence: _Count
    """Position in this link's ordered sequence of updates."""
    host: str
    incarnation: _Count
    version: _Version
    base: _Version
    """The version it changes, or -1 if it is the whole filter."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class FilterAck(_Control, tag="filterack", frozen=True, array_like=True):
    """All filter updates of this link up to the sequence have been applied."""

    sequence: _Count


class FilterProbe(_Control, tag="probe", frozen=True, array_like=True):
    """Travels from a host up a pubend's tree: has everybody on the way applied this version?"""

    host: str
    incarnation: _Version
    version: _Version
    pubend: str


class FilterApplied(_Control, tag="applied", frozen=True, array_like=True):
    """The pubend's answer to a probe, down its tree: from this tick on, the path includes that version."""

    host: str
    incarnation: _Version
    version: _Version
    pubend: str
    tick: _Count


class Subscribe(_Control, tag="subscribe", frozen=True, array_like=True):
    """A client wants messages; the number is the client's own."""

    number: int
    selector: str
    positions: tuple[tuple[str, _Tick], ...] = ()
    """Pubends with the first tick wanted of each; of the others, what is published from now on."""
    resumes: bool = False
    """Whether the client continues: it was subscribed before, and pubends that are not known now will come back."""


class Subscribed(_Control, tag="subscribed", frozen=True, array_like=True):
    """The subscription is in force on all paths, except from the pubends that are pending."""

    number: int
    selector: str
    """What the client may see of what it asked for, in canonical form."""
    pending: tuple[str, ...] = ()
    starts: tuple[tuple[str, int], ...] = ()
    """Guaranteed pubends with the tick from which on nothing will be missing; said again when one was pending."""


class Unsubscribe(_Control, tag="unsubscribe", frozen=True, array_like=True):
    """A client does not want messages any more."""

    number: int


class Unsubscribed(_Control, tag="unsubscribed", frozen=True, array_like=True):
    """No more messages for this subscription follow."""

    number: int


class Refused(_Control, tag="refused", frozen=True, array_like=True):
    """A request of a client could not be granted; the connection goes on."""

    request: str
    """``subscribe``, ``unsubscribe``, ``publish`` or ``status``."""
    number: int
    reason: str


class PublishAck(_Control, tag="ack", frozen=True, array_like=True):
    """Everything up to this publish sequence has been taken over; that many bytes of credit come back."""

    sequence: int
    credit_bytes: int


class HeldBack(_Control, tag="heldback", frozen=True, array_like=True):
    """Why publishers have to wait; empty when they need not any more."""

    reason: str


class Acknowledge(_Control, tag="acknowledge", frozen=True, array_like=True):
    """A client has everything below these ticks, for all its subscriptions; pubends by the broker's numbers."""

    positions: tuple[tuple[_Count, _Tick], ...]


class Lost(_Control, tag="lost", frozen=True, array_like=True):
    """What these ticks of a pubend were will never be known; deliveries go on behind them."""

    pubend: int
    first: _Tick
    last: _Tick
    numbers: tuple[int, ...]
    """The client's own numbers of the subscriptions that may miss something."""


class Nack(_Control, tag="nack", frozen=True, array_like=True):
    """A host does not know what some ticks are; on its way up the pubend's tree to somebody who does."""

    pubend: str
    host: str
    incarnation: _Version
    version: _Version
    """The version of the host's filter that silence must have been narrowed by."""
    ranges: tuple[tuple[_Tick, _Tick], ...]


class Positions(_Control, tag="positions", frozen=True, array_like=True):
    """What the clients of hosts have of a pubend: everything below these ticks; on its way up the pubend's tree."""

    pubend: str
    hosts: tuple[tuple[str, _Tick, bool], ...]
    """Host, tick, and whether the host is settled: one that has just started may not know all its clients yet."""


class PubendNames(_Control, tag="pubends", frozen=True, array_like=True):
    """Which pubends the numbers in deliveries stand for."""

    names: tuple[tuple[int, str], ...]


class MechanismMessage(_Control, tag="mechanism", frozen=True, array_like=True):
    """A mechanism's own control traffic between neighbours."""

    mechanism: str
    payload: bytes


class StatusRequest(_Control, tag="status", frozen=True, array_like=True):
    """A client asks how the broker is."""

    number: int = 0


class StatusReply(_Control, tag="statusreply", frozen=True, array_like=True):
    """How the broker is, as JSON."""

    number: int
    status: bytes


ControlFrame: TypeAlias = (
    Hello
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
    | PublishAck
    | HeldBack
    | Acknowledge
    | Lost
    | Nack
    | Positions
    | PubendNames
    | MechanismMessage
    | StatusRequest
    | StatusReply
)


DataFrame: TypeAlias = Publish | Forward | Deliver | KnowledgeMessage | Horizons
Frame: TypeAlias = ControlFrame | DataFrame
