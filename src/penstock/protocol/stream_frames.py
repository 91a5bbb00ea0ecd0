"""Control frames with which brokers serve guaranteed streams: requests, positions, and where subscriptions begin.

All travel along a pubend's tree: up to the pubend, or down to the named host.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from penstock.model.limits import SETTLED_MAX
from penstock.model.names import is_client_name
from penstock.protocol.control import (
    COUNT_MAX,
    NAMES_MAX,
    AttributeName,
    Control,
    Count,
    DurableName,
    Name,
    NoDurableName,
    NoPlainName,
    PlainName,
    PubendTick,
    Reason,
    SelectorText,
    Version,
)

__all__ = [
    "ENTRIES_MAX",
    "LATEST",
    "NACK_RANGES_MAX",
    "SELECTOR_SHOWN_CHARS",
    "Carried",
    "CongestionAlert",
    "CongestionQuery",
    "DurableEntry",
    "LogRequest",
    "LogSpan",
    "Missing",
    "Nack",
    "Positions",
    "StreamForget",
    "StreamForgotten",
    "StreamList",
    "StreamListed",
    "StreamOpen",
    "StreamOpened",
    "StreamSettle",
    "StreamSettled",
    "StreamTaken",
    "Ticks",
]

LATEST: Final = COUNT_MAX
"""Used in place of a tick: begin with what is published from now on."""
SELECTOR_SHOWN_CHARS: Final = 500
"""Characters of a durable subscription's selector that a pubend keeps, to show them."""
ENTRIES_MAX: Final = 500
"""Durable subscriptions in one answer."""
NACK_RANGES_MAX: Final = 2_000
"""Ranges that one NACK may name."""
Missing: TypeAlias = Literal["earliest", "latest", "fail"]
"""What to do if the first tick wanted is no longer kept."""
Ticks: TypeAlias = Annotated[tuple[PubendTick, ...], msgspec.Meta(max_length=SETTLED_MAX)]
"""Messages of a pubend that were acknowledged one by one."""


class Nack(Control, tag="nack", frozen=True, array_like=True):
    """A host requests ticks that are in doubt; goes up the pubend's tree to a broker that knows them."""

    pubend: PlainName
    host: PlainName
    incarnation: Version
    version: Version
    """The oldest version of the host's filter that silence may have been narrowed by."""
    ranges: Annotated[tuple[tuple[PubendTick, PubendTick], ...], msgspec.Meta(max_length=NACK_RANGES_MAX)]


class Positions(Control, tag="positions", frozen=True, array_like=True):
    """The ticks of a pubend below which the clients of hosts have everything; goes up the pubend's tree."""

    pubend: PlainName
    hosts: Annotated[tuple[tuple[PlainName, PubendTick, bool], ...], msgspec.Meta(max_length=NAMES_MAX)]
    """Host, tick, and whether the host is settled: one that has just started may not know all its clients yet."""
    durables: Annotated[
        tuple[tuple[DurableName, Count, PubendTick, PlainName], ...], msgspec.Meta(max_length=NAMES_MAX)
    ] = ()
    """Durable subscriptions whose positions have moved: name, ownership, tick, host."""


class StreamOpen(Control, tag="open", frozen=True, array_like=True):
    """A host asks a pubend where a subscription may begin, and claims the name of a durable one; goes up the tree."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    """Lets the host match the answer to its request."""
    tick: PubendTick
    """The first tick wanted, or `LATEST`."""
    missing: Missing
    durable: NoDurableName = ""
    ownership: Count = 0
    """The claim with the higher number gets the name, and the other holder is ended; no two claims share a number."""
    resumes: bool = False
    """Whether the tick counts even if the name is known: its client is ahead of what it has acknowledged."""
    client: Name = ""
    """The client that subscribes, if clients must authenticate: a durable name belongs to the one that created it."""
    shares: bool = False
    """Whether the client may use a name that another created, as its host sees it."""
    selector: Annotated[str, msgspec.Meta(max_length=SELECTOR_SHOWN_CHARS)] = ""
    """If it is durable, the selector, cut to what is shown to people."""

    def __post_init__(self) -> None:
        _check_client(self.client)


class StreamOpened(Control, tag="opened", frozen=True, array_like=True):
    """The pubend's answer, down the tree: where the subscription begins, or why it cannot."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    tick: PubendTick
    claimed: Count = 0
    """The ownership number of the request, if it claimed a durable name."""
    held: Count = 0
    """The ownership number of the present holder of the name, if that is higher."""
    problem: Reason = ""
    is_new: bool = False
    """Whether nobody had the name at this pubend before."""
    is_denied: bool = False
    """Whether the problem is that the name belongs to another client."""
    settled: Ticks = ()
    """Messages from this tick on that were acknowledged under the name: they are not to come again."""


class StreamTaken(Control, tag="taken", frozen=True, array_like=True):
    """A durable name has another owner; goes down the tree to the former one."""

    pubend: PlainName
    host: PlainName
    durable: DurableName
    ownership: Count


class StreamSettle(Control, tag="settlestream", frozen=True, array_like=True):
    """A host says what was acknowledged under a durable name, and wants to hear when it is kept; goes up the tree."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    """Lets the host match the answer to its request."""
    durable: DurableName
    ownership: Count
    below: PubendTick
    """The tick below which everything is acknowledged."""
    ticks: Ticks = ()
    """Single messages that are acknowledged, at or above that tick."""


class StreamSettled(Control, tag="streamsettled", frozen=True, array_like=True):
    """The pubend's answer to `StreamSettle`, down the tree: what it keeps of that, whatever happens."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    durable: DurableName
    ownership: Count
    below: PubendTick
    """The position of the name: everything below it is acknowledged."""
    ticks: Ticks = ()
    """Those of the single messages that are kept; the others are to be named again."""


class StreamForget(Control, tag="forget", frozen=True, array_like=True):
    """A host asks to forget a durable name; goes up the tree, and the answer has the same ticket."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    durable: DurableName
    client: Name = ""
    """The client that asks, if clients must authenticate."""
    shares: bool = False
    """Whether the client may forget a name that another created, as its host sees it."""
    ownership: Count = 0
    """If not 0, withdraws the claim with this number: nothing is forgotten if the name has had another owner since."""

    def __post_init__(self) -> None:
        _check_client(self.client)


class StreamForgotten(Control, tag="forgotten", frozen=True, array_like=True):
    """The pubend's answer to `StreamForget`, down the tree: whether it knew the durable name."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    existed: bool
    problem: Reason = ""
    """Why the name was not forgotten, if it was not."""


class StreamList(Control, tag="list", frozen=True, array_like=True):
    """A host asks a pubend, for one of its clients, which durable subscriptions it keeps; goes up the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    """Lets the host match the answer to its request."""
    after: NoDurableName = ""
    """The name after which to begin, in alphabetical order."""
    durable: NoDurableName = ""
    """The only name that is asked for; empty for all."""
    client: Name = ""
    """The client that asks, if clients must authenticate: it may see its own names, or all if its rule says so."""

    def __post_init__(self) -> None:
        _check_client(self.client)


class DurableEntry(msgspec.Struct, frozen=True, array_like=True):
    """One durable subscription, or one group, at one pubend."""

    name: Name
    client: Name
    """The client that created it; empty if clients did not have to authenticate."""
    host: Name
    """The broker where its owner is, or was last."""
    tick: PubendTick
    """The tick below which everything is acknowledged."""
    silent_ms: Version
    """Time since its broker last spoke of it; -1 if it did not since the pubend's broker started."""
    is_away: bool
    """Whether that is so long that nobody uses it."""
    behind_ms: Count
    """Time from its position to where the pubend is."""
    messages: Count
    """Messages in the log from its position on, whether its selector wants them or not."""
    is_exact: bool
    """Whether that number is exact; otherwise it is estimated from the size of the log."""
    log_bytes: Count
    """About how much of the log is kept from its position on."""
    selector: Annotated[str, msgspec.Meta(max_length=SELECTOR_SHOWN_CHARS)] = ""
    """What it last wanted; cut if it is long, and empty if that is not known."""
    members: Version = -1
    """How many members a group has; -1 for a subscription of one client."""
    settled: Count = 0
    """How many messages from its position on are acknowledged one by one."""


class StreamListed(Control, tag="listed", frozen=True, array_like=True):
    """The pubend's answer to `StreamList`, down the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    entries: Annotated[tuple[DurableEntry, ...], msgspec.Meta(max_length=ENTRIES_MAX)] = ()
    is_more: bool = False
    """Whether there are more after the last of these."""


class LogRequest(Control, tag="logask", frozen=True, array_like=True):
    """A host reads some ticks from the log of a pubend for one of its clients; goes up the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    """Lets the host match the answer to its request."""
    first: PubendTick
    last: PubendTick
    bytes_max: Count = 0
    """How much of the log to scan at once; 0 to ask only for its first and last tick."""
    selector: SelectorText = ""
    """Which messages of the log are wanted, in canonical form."""
    key: AttributeName = ""
    """The attribute by whose values last values are looked for; empty to read the log alone."""


class LogSpan(Control, tag="logspan", frozen=True, array_like=True):
    """The first and last tick in the log of a pubend; goes down the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    earliest: PubendTick
    """The first tick kept."""
    latest: PubendTick
    """The last tick up to which everything is known for good."""
    is_keeping: bool = False
    """Whether the pubend keeps the last values that are looked for, also of what was trimmed."""


class Carried(Control, tag="carried", frozen=True, array_like=True):
    """A pubend's answer to what a broker carries to it for a publisher; goes down the tree."""

    pubend: PlainName
    host: PlainName
    """The broker that the publisher is connected to."""
    publisher: Annotated[bytes, msgspec.Meta(max_length=32)]
    round: Count
    """The round of the frame that it answers; frames of earlier rounds are ignored."""
    settled: Count
    """The number up to which everything is durable, or sent on if the pubend is best effort."""
    reason: Reason = ""
    """Why the publisher has to wait; empty if it need not."""
    window_bytes: Count = 0
    """How many bytes may be unacknowledged meanwhile; 0 for as many as there is credit for."""
    is_broken: bool = False
    """Whether something is missing: the broker must begin a new round, with all that is not settled."""
    is_late: bool = False
    """Whether a frame of an earlier round than this has come: if the broker has not begun this one itself, its rounds
    are too low, since its clock was set back."""
    announced: PubendTick = 0
    """The last tick at which the pubend has announced a message; 0 if it guarantees nothing, or has announced none."""


class CongestionQuery(Control, tag="dcq", frozen=True, array_like=True):
    """DCQ: a pubend asks which hosts are congested, and says how far it is; goes down the tree, ahead of data."""

    pubend: PlainName
    seq: Count
    position: PubendTick


class CongestionAlert(Control, tag="uca", frozen=True, array_like=True):
    """UCA: the slowest horizon rates of the congested hosts below; goes up the tree, ahead of data."""

    pubend: PlainName
    seq: Count
    """The query that it answers."""
    min_nonrec: float
    """Slowest rate of non-recovering hosts, in tick-seconds per second; infinite if none alerts."""
    min_rec: float
    lag_ms: Count = 0
    host: NoPlainName = ""
    """The slowest host."""


def _check_client(name: str) -> None:
    if not is_client_name(name):
        raise ValueError(f"{name!r} is not a valid client name")
