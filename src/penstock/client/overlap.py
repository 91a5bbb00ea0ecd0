"""Messages that come over two connections while a client moves: each once, and in order.

Where a pubend has positions, both connections bring its whole stream from some tick on, so whatever is not below the
position is the next message, whoever brings it. That is so only if the new connection does not begin ahead of the
position. Pubends that guarantee nothing have no positions: what the new connection brings of them waits until the old
one has brought the last it had, and then only what did not come there is new, by the identifiers of messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from penstock.client.inbox import MESSAGE_BYTES, Inbox
from penstock.client.inboxes import Inboxes
from penstock.client.received import Received
from penstock.model.message_id import MESSAGE_ID_BYTES

__all__ = ["Overlap"]

_SEEN_MAX: Final = 65_536
"""Messages of which it is remembered that they came over the old connection."""
_HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""How much may wait for the end of the old connection."""


class Overlap:
    """The time in which a client has two connections."""

    def __init__(self, inboxes: Inboxes, former: Overlap | None = None) -> None:
        """Begin; a former one that is not over tells what came before over a connection that is gone."""
        self._inboxes = inboxes
        self._before = former.seen if former is not None else {}
        self._streams: dict[tuple[int, str], None] = {}
        """Subscriptions and pubends whose streams the new connection brings from where they are."""
        self.seen: dict[tuple[int, bytes], None] = {}
        """What came over the old connection, of pubends without positions: the latest of it."""
        self._held: deque[tuple[int, Received]] = deque()
        self._held_bytes = 0
        self._is_released = False

    @property
    def is_full(self) -> bool:
        """Whether too much waits for the end of the old connection: then it has to end now."""
        return self._held_bytes >= _HELD_BYTES_MAX

    def opens(self, inbox: Inbox) -> None:
        """A subscription is asked for on the new connection, with all the positions that it has."""
        for pubend in inbox.positions.known():
            self._streams[inbox.number, pubend] = None

    def begins(self, inbox: Inbox, pubend: str, tick: int, *, is_final: bool = False) -> bool:
        """The stream of a pubend begins on the new connection; False if something would be missing before it.

        When the move is final, nobody else could bring that: it begins all the same.
        """
        if (inbox.number, pubend) not in self._streams:
            # Of a pubend that no broker has named so far, nothing was promised before this tick.
            if inbox.next_ticks.get(pubend, tick) < tick and not is_final:
                return False
            self._streams[inbox.number, pubend] = None
            inbox.positions.on_start(pubend, tick)
            self.flush(pubend)
        return True

    def covers(self, inbox: Inbox) -> bool:
        """Whether the new connection brings every stream that the subscription has a position in."""
        return all((inbox.number, pubend) in self._streams for pubend in inbox.positions.known())

    def drop(self, inbox: Inbox) -> None:
        """A subscription is over."""
        self._streams = {key: None for key in self._streams if key[0] != inbox.number}

    def deliver_old(self, numbers: bytes, received: Received, woken: dict[int, Inbox]) -> None:
        """A message over the old connection."""
        if self._before:
            numbers = self._without_repetitions(numbers, received)
        self._inboxes.deliver(numbers, received, woken)
        for inbox in self._named(numbers):
            if not received.is_guaranteed:
                self.seen[inbox.number, received.body[:MESSAGE_ID_BYTES]] = None
                if len(self.seen) > _SEEN_MAX:
                    del self.seen[next(iter(self.seen))]

    def deliver_new(self, numbers: bytes, received: Received, woken: dict[int, Inbox]) -> None:
        """A message over the new connection."""
        for inbox in self._named(numbers):
            if received.is_guaranteed and (inbox.number, received.pubend) in self._streams:
                self._inboxes.deliver(inbox.number.to_bytes(4), received, woken)
            elif self._is_released:
                # It may have taken longer to come this way.
                if not self._has_come(inbox.number, received):
                    self._inboxes.deliver(inbox.number.to_bytes(4), received, woken)
            else:
                self._held.append((inbox.number, received))
                self._held_bytes += len(received.body) + MESSAGE_BYTES

    def flush(self, pubend: str) -> dict[int, Inbox]:
        """A pubend has positions after all: what waited of it is its next messages."""
        waiting: list[tuple[int, Received]] = []
        others: deque[tuple[int, Received]] = deque()
        for number, received in self._held:
            is_next = received.is_guaranteed and received.pubend == pubend
            (waiting if is_next else others).append((number, received))
        if not waiting:
            return {}
        self._held = others
        return self._deliver(waiting)

    def release(self) -> dict[int, Inbox]:
        """The old connection has brought its last: what did not come there is next; who got something."""
        held, self._held = self._held, deque()
        self._is_released = True
        return self._deliver([each for each in held if not self._has_come(*each)])

    def _without_repetitions(self, numbers: bytes, received: Received) -> bytes:
        """Those for whom it did not come before over the connection that was left last."""
        name = received.body[:MESSAGE_ID_BYTES]
        return b"".join(
            each.number.to_bytes(4) for each in self._named(numbers) if (each.number, name) not in self._before
        )

    def _has_come(self, number: int, received: Received) -> bool:
        return (number, received.body[:MESSAGE_ID_BYTES]) in self.seen

    def _deliver(self, messages: list[tuple[int, Received]]) -> dict[int, Inbox]:
        self._held_bytes = sum(len(received.body) + MESSAGE_BYTES for _, received in self._held)
        woken: dict[int, Inbox] = {}
        for number, received in messages:
            self._inboxes.deliver(number.to_bytes(4), received, woken)
        return woken

    def _named(self, numbers: bytes) -> Iterator[Inbox]:
        for start in range(0, len(numbers), 4):
            inbox = self._inboxes.get(int.from_bytes(numbers[start : start + 4]))
            if inbox is not None:
                yield inbox
