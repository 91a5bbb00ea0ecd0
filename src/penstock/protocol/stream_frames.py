"""Control frames with which brokers serve guaranteed streams: requests, positions, and where subscriptions begin.

All travel along a pubend's tree: up to the pubend, or down to the named host.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from penstock.model.names import is_client_name
from penstock.protocol.control import (
    COUNT_MAX,
    NAMES_MAX,
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
    "LATEST",
    "NACK_RANGES_MAX",
    "CongestionAlert",
    "CongestionQuery",
    "LogRequest",
    "LogSpan",
    "Missing",
    "Nack",
    "Positions",
    "StreamForget",
    "StreamForgotten",
    "StreamOpen",
    "StreamOpened",
    "StreamTaken",
]

LATEST: Final = COUNT_MAX
"""Used in place of a tick: begin with what is published from now on."""
NACK_RANGES_MAX: Final = 2_000
"""Ranges that one NACK may name."""
Missing: TypeAlias = Literal["earliest", "latest", "fail"]
"""What to do if the first tick wanted is no longer kept."""


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


class StreamTaken(Control, tag="taken", frozen=True, array_like=True):
    """A durable name has another owner; goes down the tree to the former one."""

    pubend: PlainName
    host: PlainName
    durable: DurableName
    ownership: Count


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


class LogSpan(Control, tag="logspan", frozen=True, array_like=True):
    """The first and last tick in the log of a pubend; goes down the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    earliest: PubendTick
    """The first tick kept."""
    latest: PubendTick
    """The last tick up to which everything is known for good."""


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
