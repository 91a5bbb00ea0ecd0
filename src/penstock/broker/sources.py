"""What a broker keeps of each publisher and pubend, while messages come in order: from a client or another broker.

The *door* of a publisher is the broker that it is connected to, the *home* of a pubend is the broker that hosts it. If
they are the same, one source is all there is. Otherwise the door has one with a passage, and the home one of a visitor.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from penstock.protocol.frames import HeldBack

__all__ = ["NO_REASON", "Batch", "Passage", "Source"]

NO_REASON = HeldBack("")


@dataclass(slots=True)
class Batch:
    """Accepted messages of a publisher that are not settled yet."""

    sequence: int
    """The number of the last of them."""
    size: int
    is_durable: bool = False


@dataclass(slots=True)
class Passage:
    """How a door's messages get to a pubend elsewhere."""

    round: int = 0
    """Tells the home what belongs together: a new one begins whenever something may have been lost on the way."""
    carried: int = 0
    """The last number carried in this round; until one is, the number before the first."""
    is_first: bool = True
    """Whether the next frame begins the round."""
    parent: str = ""
    """The neighbour to which this round's messages go; empty while there is no path."""
    is_stalled: bool = False
    """Whether messages find no way at the moment: the client will be asked for them again."""
    waits_for: str = ""
    """The neighbour for whose link it waits; until something is sent there, even after it was told to go on."""
    woken_ms: int = 0
    """When it was last told to go on, after it had waited for a link."""
    denied_bytes: int = 0
    """How many bytes found the link full; there may be more."""
    is_guaranteed: bool = True
    held_back: HeldBack = NO_REASON
    """Why to wait: what the home last said, or that there is no way."""
    said: HeldBack = NO_REASON
    """What the home last said; it holds, over rounds, until the home says otherwise."""
    path_bytes: int = 0
    """How many bytes may be on their way, since some were lost there; 0 for all the credit."""
    path_reason: str = ""
    """Why: what the home said then, or nothing if it was not the home."""
    gained_bytes: int = 0
    """How many bytes have arrived since then."""
    broken_ms: int = 0
    """When the home last said that something is missing."""
    ask_ms: int | None = None
    """When to ask the home what it has, or to try again; None if nobody waits for anything."""
    wait_ms: int = 0
    """How long to wait before that; grows while nothing is heard."""


@dataclass(slots=True, eq=False)
class Source:
    """The messages of one publisher to one pubend."""

    pubend: str
    publisher: bytes
    """The identity by which the pubend recognises repetitions; empty if it need not."""
    sender: str
    """The name under which limits count what is published."""
    connection: int = -1
    """The connection of the client; -1 for a visitor."""
    name: str = ""
    """What the client calls the pubend: empty if it left the choice to the broker."""
    host: str = ""
    """The door of a visitor; empty for a client of this broker."""
    passage: Passage | None = None
    """The way to the pubend, if it is not one of this broker's own."""
    credit_bytes: int = 0
    """How much may be published without getting credit back."""
    unpaid_bytes: int = 0
    """How much was published without getting credit back."""
    withheld_bytes: int = 0
    """Credit that was not given back yet."""
    received: int = -1
    """The number of the last message received; -1 before the first."""
    settled: int = 0
    """The number up to which everything is settled."""
    outstanding: deque[Batch] = field(default_factory=deque)
    """Unsettled batches, in order."""
    round: int = 0
    """The last time that the client was asked to begin anew; for a visitor, the round of the passage."""
    may_jump: bool = True
    """Whether the next message may have any higher number: the publisher knows that those before it are settled."""
    is_rewinding: bool = False
    """Whether messages are ignored: the client was asked to begin anew, or will be, and has not done so yet."""
    asks: bool = False
    """Whether it wants an acknowledgement as soon as everything is settled."""
    held_back: HeldBack = NO_REASON
    """Why it was told to wait, if it was."""
    is_gone: bool = False
    """Whether its client or its door has left."""
