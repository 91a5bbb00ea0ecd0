"""What a client knows of one of its subscriptions, and the messages of it that the application has not read yet."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

from penstock.client.received import Received

__all__ = ["Inbox", "InboxState"]

InboxState: TypeAlias = Literal["asked", "ready", "closing", "closed", "refused"]
"""Asked for; in force; being withdrawn; withdrawn; refused by the broker."""

_MESSAGE_BYTES = 200
"""What a message takes beyond its body while it waits."""


class Inbox:
    """One subscription: its state, and a queue that says when it is full."""

    __slots__ = (
        *("blocking", "bytes_max", "granted", "messages_max", "number", "pending"),
        *("queue", "reason", "selector", "size", "state"),
    )

    def __init__(self, number: int, selector: str, *, bytes_max: int, messages_max: int) -> None:
        self.number = number
        self.selector = selector
        """What the application wants."""
        self.granted = selector
        """What it may see of that, once the broker has answered."""
        self.state: InboxState = "asked"
        self.pending: tuple[str, ...] = ()
        """The pubends from which the subscription was not yet in force when the broker answered."""
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

    def push(self, received: Received) -> None:
        """Takes a message in; the queue may exceed its bound by what was already read from the socket."""
        self.queue.append(received)
        self.size += len(received.body) + _MESSAGE_BYTES

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
        self.size -= len(received.body) + _MESSAGE_BYTES
        return received

    def pop_many(self, messages_max: int | None = None) -> list[Received]:
        """The oldest messages, all of them or so many."""
        if messages_max is None or messages_max >= len(self.queue):
            received = list(self.queue)
            self.clear()
            return received
        return [self.pop() for _ in range(messages_max)]

    def clear(self) -> None:
        """Forgets the messages."""
        self.queue.clear()
        self.size = 0

    def check_invariants(self) -> None:
        """Fails if the bytes do not add up."""
        assert self.size == sum(len(received.body) + _MESSAGE_BYTES for received in self.queue)
