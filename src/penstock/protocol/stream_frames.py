"""Control frames by which brokers serve guaranteed streams: questions, positions, and where subscriptions begin.

All travel along a pubend's tree: up to the pubend, or down to the host that is named.
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
"""In place of a tick: what is published from now on."""
NACK_RANGES_MAX: Final = 2_000
"""Ranges that one NACK may name."""
Missing: TypeAlias = Literal["earliest", "latest", "fail"]
"""What to do where the first tick wanted is not kept any more."""


class Nack(Control, tag="nack", frozen=True, array_like=True):
    """A host does not know what some ticks are; on its way up the pubend's tree to somebody who does."""

    pubend: PlainName
    host: PlainName
    incarnation: Version
    version: Version
    """The version of the host's filter that silence must have been narrowed by."""
    ranges: Annotated[tuple[tuple[PubendTick, PubendTick], ...], msgspec.Meta(max_length=NACK_RANGES_MAX)]


class Positions(Control, tag="positions", frozen=True, array_like=True):
    """What the clients of hosts have of a pubend: everything below these ticks; on its way up the pubend's tree."""

    pubend: PlainName
    hosts: Annotated[tuple[tuple[PlainName, PubendTick, bool], ...], msgspec.Meta(max_length=NAMES_MAX)]
    """Host, tick, and whether the host is settled: one that has just started may not know all its clients yet."""
    durables: Annotated[
        tuple[tuple[DurableName, Count, PubendTick, PlainName], ...], msgspec.Meta(max_length=NAMES_MAX)
    ] = ()
    """Durable subscriptions that have moved: name, ownership, tick, host."""


class StreamOpen(Control, tag="open", frozen=True, array_like=True):
    """A host asks a pubend where a subscription may begin, and claims the name of a durable one; up the tree."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    """By which the host recognises the answer."""
    tick: PubendTick
    """The first tick wanted, or `LATEST`."""
    missing: Missing
    durable: NoDurableName = ""
    ownership: Count = 0
    """Who claims a name with a higher number has it, and the other one is ended; no two claims have the same number."""
    resumes: bool = False
    """Whether the tick counts although the name is known: its client is ahead of what it has acknowledged."""
    client: Name = ""
    """Whose the subscription is, if clients have to prove that: a durable name belongs to who made it."""
    shares: bool = False
    """Whether the client may have the name all the same, as its host sees it."""

    def __post_init__(self) -> None:
        _check_client(self.client)


class StreamOpened(Control, tag="opened", frozen=True, array_like=True):
    """The pubend's answer, down the tree: where the subscription begins, or why it cannot."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    tick: PubendTick
    claimed: Count = 0
    """The number that was asked with, if a durable name was claimed."""
    held: Count = 0
    """The number with which somebody holds the name, if that is higher."""
    problem: Reason = ""
    is_new: bool = False
    """Whether nobody had the name at this pubend before."""
    is_denied: bool = False
    """Whether the problem is that the name belongs to another client."""


class StreamTaken(Control, tag="taken", frozen=True, array_like=True):
    """A durable name has another owner, down the tree to the former one."""

    pubend: PlainName
    host: PlainName
    durable: DurableName
    ownership: Count


class StreamForget(Control, tag="forget", frozen=True, array_like=True):
    """A durable name is not needed any more, up the tree; the answer has the same ticket."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    durable: DurableName
    client: Name = ""
    """Who wants that, if clients have to prove who they are."""
    shares: bool = False
    """Whether it may have names of others forgotten, as its host sees it."""
    ownership: Count = 0
    """If not 0, a claim with this number is withdrawn: nothing is forgotten if the name has another owner by now."""

    def __post_init__(self) -> None:
        _check_client(self.client)


class StreamForgotten(Control, tag="forgotten", frozen=True, array_like=True):
    """Whether the pubend knew the durable name, down the tree."""

    pubend: PlainName
    host: PlainName
    ticket: Count
    existed: bool
    problem: Reason = ""
    """Why it was not forgotten, if so."""


class LogRequest(Control, tag="logask", frozen=True, array_like=True):
    """A host asks, for one of its clients, what the log of a pubend has of some ticks; up the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    """By which the host recognises the answer."""
    first: PubendTick
    last: PubendTick
    bytes_max: Count = 0
    """How much of the log to look through at once; 0 to be told only from where to where it goes."""
    selector: SelectorText = ""
    """What is wanted of it, in canonical form."""


class LogSpan(Control, tag="logspan", frozen=True, array_like=True):
    """From where to where the log of a pubend goes, down the tree."""

    pubend: PlainName
    host: PlainName
    number: Count
    earliest: PubendTick
    """The first tick that is kept."""
    latest: PubendTick
    """The last tick of which everything is known for good."""


class CongestionQuery(Control, tag="dcq", frozen=True, array_like=True):
    """DCQ: a pubend asks who is congested, and says how far its stream has come; down the tree, ahead of data."""

    pubend: PlainName
    seq: Count
    position: PubendTick


class CongestionAlert(Control, tag="uca", frozen=True, array_like=True):
    """UCA: the slowest horizon rates of those below who are congested; up the tree, ahead of data."""

    pubend: PlainName
    seq: Count
    """The query that it answers."""
    min_nonrec: float
    """In tick-seconds per second; infinite if nobody of that class alerts."""
    min_rec: float
    lag_ms: Count = 0
    host: NoPlainName = ""
    """Who is slowest."""


def _check_client(name: str) -> None:
    if not is_client_name(name):
        raise ValueError(f"{name!r} is no name of a client")
