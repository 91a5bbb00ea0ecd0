"""What a client knows of one of its subscriptions, and the messages of it that the application has not read yet."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal, TypeAlias

from penstock.model.tick import Tick, tick_ms
from penstock.protocol.frames import LATEST, Missing
from penstock.session.positions import LostTicks, Positions, first_unread
from penstock.session.receipts import Receipts
from penstock.session.received import Received

__all__ = ["MESSAGE_BYTES", "Inbox", "InboxState", "Lag", "Wanted"]

InboxState: TypeAlias = Literal["asked", "ready", "closing", "closed", "refused"]
"""Asked for; in force; being withdrawn; withdrawn; refused by the broker, at once or later."""

MESSAGE_BYTES: Final = 200
"""What a message takes beyond its body while it waits."""
_TAKEN_OVER: Final = "was taken over"
"""What the broker's reason says when a durable subscription ends because of somebody else."""
_LOST_MAX: Final = 100
"""Notices of lost ticks that are kept; all are counted."""


@dataclass(slots=True, frozen=True)
class Wanted:
    """A subscription as it was asked for."""

    selector: str
    start: Mapping[str, int] = field(default_factory=dict)
    """By pubend, the first tick wanted."""
    otherwise: int = LATEST
    """The first tick wanted of all other pubends."""
    missing: Missing = "fail"
    durable: str = ""
    is_manual: bool = False


@dataclass(slots=True, frozen=True)
class Lag:
    """How far a subscription is behind one pubend."""

    behind_ms: int
    """From the first tick that was not read to where the pubend is, as far as this client has heard."""
    pending: int
    """Messages that have arrived and were not read."""


class Inbox:
    """One subscription: its state, and a queue that says when it is full."""

    __slots__ = (
        "_last_positions",
        "blocking",
        "bytes_max",
        "fetched",
        "granted",
        "loose_ticks",
        "lost",
        "lost_count",
        "messages_max",
        "next_ticks",
        "number",
        "pending",
        "positions",
        "queue",
        "reason",
        "receipts",
        "size",
        "starts",
        "state",
        "wanted",
        "was_ready",
    )

    def __init__(self, number: int, wanted: Wanted, *, bytes_max: int, messages_max: int) -> None:
        self.number = number
        self.wanted = wanted
        """What the application wants."""
        self.granted = wanted.selector
        """What it may see of that, once the broker has answered."""
        self.state: InboxState = "asked"
        self.pending: tuple[str, ...] = ()
        """The pubends from which the subscription was not yet in force when the broker answered."""
        self.starts: dict[str, int] = {}
        """By pubend that guarantees delivery, the tick from which on nothing is missing."""
        self.was_ready = False
        """Whether it has been in force before."""
        self.positions: Final = Positions(wanted.start)
        """What has arrived."""
        self.next_ticks: Final = self.positions.next_ticks
        self.loose_ticks: Final[dict[str, int]] = {}
        """Of pubends that guarantee nothing, the tick behind the last message that came; no position."""
        self.receipts: Final = Receipts(is_manual=wanted.is_manual) if wanted.durable else None
        """What of a durable subscription was acknowledged, and may be."""
        self.fetched: Callable[[], tuple[Received, ...]] = tuple
        """Messages that were taken out on behalf of an application that has not read them yet: a blocking one."""
        self._last_positions: dict[str, int] | None = None
        self.lost: deque[LostTicks] = deque(maxlen=_LOST_MAX)
        """What will never come, the newest notices of it."""
        self.lost_count = 0
        """How many such notices there were."""
        self.reason = ""
        """Why it was refused."""
        self.queue: deque[Received] = deque()
        self.size = 0
        self.bytes_max, self.messages_max = bytes_max, messages_max
        self.blocking = False
        """Whether it was full, and has not been emptied to the half since: then nothing is read from the socket."""

    @property
    def resumes(self) -> bool:
        """Whether it can only go on: it was in force before, or something has come before the broker said so."""
        return self.was_ready or self.next_ticks != self.wanted.start

    @property
    def is_over(self) -> bool:
        """Whether no more messages will come in."""
        return self.state in ("closed", "refused")

    def push(self, received: Received) -> bool:
        """Takes a message in, unless it is a repetition; the queue may exceed its bound by what was already read."""
        if self.is_repeated(received):
            return False
        ticks = self.next_ticks if received.is_guaranteed else self.loose_ticks
        ticks[received.pubend] = received.tick + 1
        self.queue.append(received)
        self.size += len(received.body) + MESSAGE_BYTES
        return True

    def is_repeated(self, received: Received) -> bool:
        """Whether the message has arrived before; of pubends that guarantee nothing, none is known to have."""
        return received.is_guaranteed and received.tick < self.next_ticks.get(received.pubend, 0)

    def on_subscribed(self, granted: str, pending: tuple[str, ...], starts: tuple[tuple[str, int], ...]) -> None:
        """The broker has put it in force."""
        self.state, self.granted, self.pending = "ready", granted, pending
        self.was_ready = True
        for pubend, tick in starts:
            # What a broker says later of a pubend is about a continuation.
            self.starts.setdefault(pubend, tick)
            self.positions.on_start(pubend, tick)

    def on_lost(self, lost: LostTicks) -> bool:
        """Some ticks will never come; whether they are missing here."""
        is_missing = self.positions.on_lost(lost)
        if is_missing:
            self.lost.append(lost)
            self.lost_count += 1
        return is_missing

    def refuse(self, reason: str) -> None:
        """The broker does not grant it, or no longer; what waits when another took over is for that one to read."""
        self.state, self.reason = "refused", reason
        if self.is_taken_over:
            self.withdraw()

    @property
    def is_taken_over(self) -> bool:
        """Whether somebody else has its name now, or nobody."""
        return self.state == "refused" and self.speaks_of_another(self.reason)

    def speaks_of_another(self, reason: str) -> bool:
        """Whether a broker's reason to end it means that its name was claimed elsewhere, or forgotten."""
        return bool(self.wanted.durable) and _TAKEN_OVER in reason

    def read_positions(self) -> dict[str, int]:
        """By pubend, the first tick that the application has not read yet."""
        if self._last_positions is not None:
            return dict(self._last_positions)
        return first_unread(self.positions.known(), chain(self.fetched(), self.queue))

    def acknowledgeable(self) -> dict[str, int]:
        """By pubend, the tick below which the application has done with everything; of a durable subscription."""
        assert self.receipts is not None, "not durable"
        assert self._last_positions is None, "what was forgotten would count as read"
        # In this order: another thread moves messages from what was fetched into its hands.
        waiting = chain(self.fetched(), self.queue)
        return self.receipts.positions(self.positions.known(), waiting)

    def lag(self, presents: Mapping[str, int]) -> dict[str, Lag]:
        """How far the reader is behind each pubend, given how far those are."""
        pending = Counter(received.pubend for received in chain(self.fetched(), self.queue))
        lags: dict[str, Lag] = {}
        for pubend, position in self.read_positions().items():
            present = max(presents.get(pubend, 0), self.next_ticks[pubend])
            behind_ms = max(0, tick_ms(Tick(present)) - tick_ms(Tick(position)))
            lags[pubend] = Lag(behind_ms, pending[pubend])
        return lags

    def update_blocking(self) -> bool:
        """Whether nothing should be read from the socket, by this queue: from full down to the half."""
        if self.blocking:
            self.blocking = self.size * 2 > self.bytes_max or len(self.queue) * 2 > self.messages_max
        else:
            self.blocking = self.size >= self.bytes_max or len(self.queue) >= self.messages_max
        return self.blocking

    def pop(self) -> Received:
        """The oldest message."""
        received = self.queue.popleft()
        self.size -= len(received.body) + MESSAGE_BYTES
        if self.receipts is not None:
            self.receipts.hold((received,))
        return received

    def pop_many(self, messages_max: int | None = None) -> list[Received]:
        """The oldest messages, all of them or so many."""
        if messages_max is None or messages_max >= len(self.queue):
            received = list(self.queue)
            self.clear()
        else:
            received = [self.queue.popleft() for _ in range(messages_max)]
            self.size -= sum([len(each.body) for each in received]) + MESSAGE_BYTES * len(received)
        if self.receipts is not None:
            self.receipts.hold(received)
        return received

    def withdraw(self) -> None:
        """Forgets what waits, for good; the positions stay in front of it."""
        self._last_positions = self.read_positions()
        self.clear()

    def clear(self) -> None:
        """Forgets the messages."""
        self.queue.clear()
        self.size = 0

    def check_invariants(self) -> None:
        """Fails if the bytes do not add up."""
        assert self.size == sum(len(received.body) + MESSAGE_BYTES for received in self.queue)
