"""What a client knows of one of its subscriptions, and the messages of it that the application has not read yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from penstock.client.positions import LostTicks, Positions, first_unread
from penstock.client.received import Received

__all__ = ["MESSAGE_BYTES", "Inbox", "InboxState"]

InboxState: TypeAlias = Literal["asked", "ready", "closing", "closed", "refused"]
"""Asked for; in force; being withdrawn; withdrawn; refused by the broker."""

MESSAGE_BYTES: Final = 200
"""What a message takes beyond its body while it waits."""
_LOST_MAX: Final = 100
"""Notices of lost ticks that are kept; all are counted."""


class Inbox:
    """One subscription: its state, and a queue that says when it is full."""

    __slots__ = (
        *("_last_positions", "next_ticks", "blocking", "bytes_max", "granted", "lost", "lost_count", "messages_max"),
        *("number", "pending", "positions", "queue", "reason", "selector", "size", "starts", "state", "was_ready"),
    )

    def __init__(
        self, number: int, selector: str, *, bytes_max: int, messages_max: int, start: Mapping[str, int] | None = None
    ) -> None:
        self.number = number
        self.selector = selector
        """What the application wants."""
        self.granted = selector
        """What it may see of that, once the broker has answered."""
        self.state: InboxState = "asked"
        self.pending: tuple[str, ...] = ()
        """The pubends from which the subscription was not yet in force when the broker answered."""
        self.starts: dict[str, int] = {}
        """By pubend that guarantees delivery, the tick from which on nothing is missing."""
        self.was_ready = False
        """Whether it has been in force before: then it resumes."""
        self.positions: Final = Positions(start)
        """What has arrived."""
        self.next_ticks: Final = self.positions.next_ticks
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
    def is_over(self) -> bool:
        """Whether no more messages will come in."""
        return self.state in ("closed", "refused")

    def push(self, received: Received) -> bool:
        """Takes a message in, unless it is a repetition; the queue may exceed its bound by what was already read."""
        if self.is_repeated(received):
            return False
        self.next_ticks[received.pubend] = received.tick + 1
        self.queue.append(received)
        self.size += len(received.body) + MESSAGE_BYTES
        return True

    def is_repeated(self, received: Received) -> bool:
        """Whether the message has arrived before; of pubends that guarantee nothing, none is known to have."""
        pubend = received.pubend
        return received.tick < self.next_ticks.get(pubend, 0) and self.positions.is_guaranteed(pubend)

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

    def read_positions(self) -> dict[str, int]:
        """By pubend, the first tick that the application has not read yet."""
        if self._last_positions is not None:
            return dict(self._last_positions)
        return first_unread(self.positions.known(), self.queue)

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
        return received

    def pop_many(self, messages_max: int | None = None) -> list[Received]:
        """The oldest messages, all of them or so many."""
        if messages_max is None or messages_max >= len(self.queue):
            received = list(self.queue)
            self.clear()
            return received
        return [self.pop() for _ in range(messages_max)]

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
