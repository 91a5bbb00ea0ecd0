"""The state of one of a client's subscriptions, and its messages that the application has not read yet."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, Literal, TypeAlias

from penstock.model.limits import SETTLED_MAX
from penstock.model.tick import Tick, tick_ms
from penstock.protocol.frames import LATEST, Handed, Missing, Outcomes
from penstock.session.last_values import LastValues
from penstock.session.positions import LostTicks, Positions, first_unread
from penstock.session.receipts import Receipts
from penstock.session.received import HandedOut, Received
from penstock.session.work import Shared, Work

__all__ = ["MESSAGE_BYTES", "Inbox", "InboxState", "Lag", "Wanted"]

InboxState: TypeAlias = Literal["asked", "ready", "paused", "closing", "closed", "refused"]
"""Requested; in force; withdrawn until the application resumes it; being withdrawn; withdrawn; refused by the broker,
at once or later."""

MESSAGE_BYTES: Final = 200
"""Memory that a waiting message takes besides its body."""
_TAKEN_OVER: Final = "was taken over"
"""Part of the broker's reason when it ends a durable subscription because of somebody else."""
_RECENT_MAX: Final = 1_000
"""How many messages of a best-effort pubend are recognised if they come again over another connection."""
_LOST_MAX: Final = 100
"""Notices of lost ticks that are kept; all are counted."""


@dataclass(slots=True, frozen=True)
class Wanted:
    """A subscription as the application asked for it."""

    selector: str
    start: Mapping[str, int] = field(default_factory=dict)
    """By pubend, the first tick wanted."""
    otherwise: int = LATEST
    """The first tick wanted of all other pubends."""
    missing: Missing = "fail"
    durable: str = ""
    is_manual: bool = False
    pubends: tuple[str, ...] = ()
    """The only pubends whose messages are wanted; none for all."""
    shared: Shared | None = None
    """The group that it is to become a member of."""
    last_by: str = ""
    """The attribute for each value of which the newest message comes first; empty if none is to."""

    def wants(self, pubend: str) -> bool:
        """Whether messages of a pubend are wanted."""
        return not self.pubends or pubend in self.pubends


@dataclass(slots=True, frozen=True)
class Lag:
    """How far a subscription is behind one pubend."""

    behind_ms: int
    """Time from the first unread tick to where the pubend is, as far as this client has heard."""
    pending: int
    """Messages that have arrived and are not read yet."""


def _recent() -> deque[int]:
    return deque(maxlen=_RECENT_MAX)


class Inbox:
    """One subscription: its state, and a queue that says when it is full."""

    __slots__ = (
        "_last_positions",
        "blocking",
        "bytes_max",
        "fetched",
        "former",
        "granted",
        "last_values",
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
        "recent",
        "settled",
        "size",
        "starts",
        "state",
        "wanted",
        "was_ready",
        "work",
    )

    def __init__(self, number: int, wanted: Wanted, *, bytes_max: int, messages_max: int, member: bytes = b"") -> None:
        self.number = number
        self.wanted = wanted
        """What the application asked for."""
        self.granted = wanted.selector
        """The selector; once the broker has answered, narrowed to what the client may see."""
        self.state: InboxState = "asked"
        self.pending: tuple[str, ...] = ()
        """The pubends from which the subscription was not yet in force when the broker answered."""
        self.starts: dict[str, int] = {}
        """By guaranteed pubend, the tick from which on nothing is missing."""
        self.was_ready = False
        """Whether the subscription has ever been in force."""
        self.positions: Final = Positions(wanted.start)
        """How far messages have arrived."""
        self.next_ticks: Final = self.positions.next_ticks
        self.recent: Final[defaultdict[str, deque[int]]] = defaultdict(_recent)
        """By best-effort pubend, the ticks of the last messages that arrived."""
        self.former: dict[str, frozenset[int]] = {}
        """By best-effort pubend, the ticks of the last messages that arrived over connections before this one."""
        self.receipts: Final = Receipts(is_manual=wanted.is_manual) if wanted.durable else None
        """What was and what may be acknowledged, if the subscription is durable."""
        self.settled: Final[dict[str, set[int]]] = {}
        """By pubend, messages still to come that were acknowledged before under this name: nobody reads them again."""
        self.work: Final = Work(wanted.shared, member) if wanted.shared is not None else None
        """The messages of a group that this client has, if it is a member of one."""
        self.last_values = LastValues(wanted.selector, wanted.last_by, wanted.pubends) if wanted.last_by else None
        """The scan of logs that has to end before the subscription is requested; None once it has."""
        self.fetched: Callable[[], tuple[Received, ...]] = tuple
        """Messages fetched for a blocking application that has not read them yet."""
        self._last_positions: dict[str, int] | None = None
        self.lost: deque[LostTicks] = deque(maxlen=_LOST_MAX)
        """The newest notices of ticks that will never arrive."""
        self.lost_count = 0
        """Notices of lost ticks in total."""
        self.reason = ""
        """Why the subscription was refused."""
        self.queue: deque[Received] = deque()
        self.size = 0
        self.bytes_max, self.messages_max = bytes_max, messages_max
        self.blocking = False
        """Whether the queue was full and has not been half emptied since: then nothing is read from the socket."""

    @property
    def resumes(self) -> bool:
        """Whether to resume, not begin: it has been in force, or messages arrived before the broker confirmed it."""
        return self.was_ready or self.next_ticks != self.wanted.start

    @property
    def unanswered(self) -> int:
        """How many messages of a group were acknowledged or refused, with no answer so far, before it is withdrawn."""
        return self.work.unanswered if self.work is not None and self.state in ("asked", "ready") else 0

    @property
    def is_over(self) -> bool:
        """Whether no more messages will arrive."""
        return self.state in ("closed", "refused")

    def push(self, received: Received) -> bool:
        """Queues a message, unless it is a repetition; data already read from the socket may exceed the bound."""
        if self.is_repeated(received):
            return False
        if received.is_guaranteed:
            self.next_ticks[received.pubend] = received.tick + 1
            if received.pubend in self.settled and self.was_settled(received):
                return False
        else:
            self.recent[received.pubend].append(received.tick)
        self.queue.append(received)
        self.size += len(received.body) + MESSAGE_BYTES
        return True

    def take_in(self, frame: Handed) -> bool:
        """Messages of a group were handed to this client; returns whether some are new."""
        assert self.work is not None, "not a member of a group"
        news = self.work.take_in(frame)
        # Their time was over before the application has read them, and now they have come again.
        self._drop(frame.pubend, {message.tick for message in news})
        for message in news:
            self.queue.append(message)
            self.size += len(message.body) + MESSAGE_BYTES
        return bool(news)

    def on_outcomes(self, frame: Outcomes) -> None:
        """A pubend has answered what was said of its messages; drops unread ones that others were handed."""
        assert self.work is not None, "not a member of a group"
        self._drop(frame.pubend, self.work.on_outcomes(frame))

    def _drop(self, pubend: str, ticks: set[int]) -> None:
        """Drops unread messages of a group."""
        if not ticks:
            return
        for old in [each for each in self.queue if each.pubend == pubend and each.tick in ticks]:
            self.queue.remove(old)
            self.size -= len(old.body) + MESSAGE_BYTES

    def begin_after(self, last_values: LastValues) -> None:
        """The scan of logs has ended: its messages come first, and the subscription begins after everything read.

        As one that resumes: should a log give up messages before the broker has put it in force, it is told of them.
        """
        self.last_values = None
        for pubend, tick in last_values.positions().items():
            self.positions.on_start(pubend, tick)
        for received in last_values.values():
            self.queue.append(received)
            self.size += len(received.body) + MESSAGE_BYTES
        self.lost.extend(last_values.lost)
        self.lost_count += len(last_values.lost)

    def unread(self) -> Iterator[Received]:
        """The messages that have arrived and that the application has not read."""
        return chain(self.fetched(), self.queue)

    def is_repeated(self, received: Received) -> bool:
        """Whether the message has arrived before; without positions, over a connection before this one."""
        if not received.is_guaranteed:
            return received.tick in self.former.get(received.pubend, ())
        return received.tick < self.next_ticks.get(received.pubend, 0)

    def on_settled(self, pubend: str, ticks: Iterable[int]) -> None:
        """The pubend keeps acknowledgements of these messages: those still to come are not for the application."""
        position = self.next_ticks.get(pubend, 0)
        ahead = {tick for tick in ticks if tick >= position}
        if ahead:
            known = {tick for tick in self.settled.get(pubend, ()) if tick >= position} | ahead
            # On each of two connections a broker names as many as a pubend keeps, and no more.
            self.settled[pubend] = known if len(known) <= 2 * SETTLED_MAX else ahead

    def was_settled(self, received: Received) -> bool:
        """Whether a message that has just come was acknowledged before under this name; asked once for each."""
        ticks = self.settled[received.pubend]
        if received.tick not in ticks:
            return False
        ticks.remove(received.tick)
        if not ticks:
            del self.settled[received.pubend]
        return True

    def change_connection(self) -> None:
        """What comes next comes over another connection, perhaps by a slower way: then some of it came before."""
        self.former = {pubend: frozenset(ticks) for pubend, ticks in self.recent.items()}

    def is_beyond(self, pubend: str, tick: int) -> bool:
        """Whether a tick of a best-effort pubend lies beyond the last message that arrived."""
        recent = self.recent.get(pubend)
        return not recent or tick > recent[-1]

    def on_subscribed(self, granted: str, pending: tuple[str, ...], starts: tuple[tuple[str, int], ...]) -> None:
        """The broker has put the subscription in force."""
        self.state = "ready"
        self.granted = granted
        self.pending = pending
        self.was_ready = True
        for pubend, tick in starts:
            # The first start counts: what a broker says later of a pubend is about a continuation.
            self.starts.setdefault(pubend, tick)
            self.positions.on_start(pubend, tick)

    def on_lost(self, lost: LostTicks) -> bool:
        """Some ticks will never arrive; returns whether this subscription misses them."""
        is_missing = self.positions.on_lost(lost)
        if is_missing:
            self.lost.append(lost)
            self.lost_count += 1
        return is_missing

    def refuse(self, reason: str) -> None:
        """The broker refuses the subscription, at once or later; if another took over, that one reads what waits."""
        self.state, self.reason = "refused", reason
        if self.is_taken_over:
            self.withdraw()

    @property
    def is_taken_over(self) -> bool:
        """Whether it ended because its name was claimed elsewhere, or forgotten."""
        return self.state == "refused" and self.speaks_of_another(self.reason)

    def speaks_of_another(self, reason: str) -> bool:
        """Whether a broker's reason means that the name was claimed elsewhere, or forgotten."""
        return bool(self.wanted.durable) and _TAKEN_OVER in reason

    def read_positions(self) -> dict[str, int]:
        """By pubend, the first tick that the application has not read yet."""
        if self._last_positions is not None:
            return dict(self._last_positions)
        return first_unread(self.positions.known(), chain(self.fetched(), self.queue))

    def acknowledgeable(self) -> dict[str, int]:
        """By pubend, the tick below which the application is done with everything; only for durable subscriptions."""
        assert self.receipts is not None, "not durable"
        assert self._last_positions is None, "what was forgotten would count as read"
        # Fetched messages first, then those in hand: another thread moves them in that direction.
        waiting = chain(self.fetched(), self.queue)
        return self.receipts.positions(self.positions.known(), waiting)

    def lag(self, presents: Mapping[str, int]) -> dict[str, Lag]:
        """How far the application is behind each pubend, given how far the pubends are."""
        pending = Counter(received.pubend for received in chain(self.fetched(), self.queue))
        lags: dict[str, Lag] = {}
        for pubend, position in self.read_positions().items():
            present = max(presents.get(pubend, 0), self.next_ticks[pubend])
            behind_ms = max(0, tick_ms(Tick(present)) - tick_ms(Tick(position)))
            lags[pubend] = Lag(behind_ms, pending[pubend])
        return lags

    def update_blocking(self) -> bool:
        """Whether this queue stops reading from the socket: from when it is full until it is half empty."""
        if self.blocking:
            self.blocking = not self.is_half_empty
        else:
            self.blocking = self.size >= self.bytes_max or len(self.queue) >= self.messages_max
        return self.blocking

    @property
    def is_half_empty(self) -> bool:
        """Whether a queue that was full has room enough for reading from the socket again."""
        return self.size * 2 <= self.bytes_max and len(self.queue) * 2 <= self.messages_max

    def pop(self) -> Received:
        """Takes out the oldest message."""
        received = self.queue.popleft()
        self.size -= len(received.body) + MESSAGE_BYTES
        if self.receipts is not None:
            self.receipts.hold((received,))
        return received

    def pop_many(self, messages_max: int | None = None) -> list[Received]:
        """Takes out the oldest messages, all or up to a maximum."""
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
        """Drops unread messages for good; the positions stay before them."""
        if self.work is not None:
            self.work.give_back(each for each in self.unread() if isinstance(each, HandedOut))
        self._last_positions = self.read_positions()
        self.clear()

    def clear(self) -> None:
        """Drops all messages."""
        self.queue.clear()
        self.size = 0

    def check_invariants(self) -> None:
        """Fails if the bytes do not add up."""
        assert self.size == sum(len(received.body) + MESSAGE_BYTES for received in self.queue)
