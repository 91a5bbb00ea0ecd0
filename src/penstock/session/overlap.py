"""Merges the messages of two connections while a client moves: delivers each once, and in order.

Where a pubend has positions, both connections bring its whole stream from some tick on, so a message that is not below
the position is the next one, whichever connection brings it. This holds only if the new connection does not begin
beyond the position. A stream that only the new connection has begun waits: if the old one begins it too, the old one
decides, since it may begin further on; if not, the stream begins when the new connection takes over, and it is too late
for the old one.

Pubends that guarantee nothing have no positions: their messages on the new connection wait until the old one has
brought its last. Then only messages after that one are new. The others have arrived before, perhaps long before the
move began if the way to the new broker is slower; or the old connection did not have them, and they would be out of
order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from penstock.session.inbox import MESSAGE_BYTES, Inbox
from penstock.session.inboxes import Inboxes
from penstock.session.received import Received

__all__ = ["Overlap"]

_HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""How much may wait for the end of the old connection."""


class Overlap:
    """Merges what a client receives while it has two connections."""

    def __init__(self, inboxes: Inboxes) -> None:
        self._inboxes = inboxes
        self._streams: dict[tuple[int, str], None] = {}
        """Subscriptions and pubends whose streams the new connection continues from their positions."""
        self._ahead: dict[tuple[int, str], int] = {}
        """Streams that only the new connection has begun, with the tick where they begin there."""
        self._alone: dict[tuple[int, str], None] = {}
        """Streams that only the new connection had begun when it took over."""
        self._held: deque[tuple[int, Received]] = deque()
        self._held_bytes = 0
        self._is_released = False

    @property
    def is_full(self) -> bool:
        """Whether too much waits for the end of the old connection: then it has to end now."""
        return self._held_bytes >= _HELD_BYTES_MAX

    def opens(self, inbox: Inbox) -> None:
        """A subscription is requested on the new connection, with all its positions."""
        for pubend in inbox.positions.known():
            self._streams[inbox.number, pubend] = None

    def begins(self, inbox: Inbox, pubend: str, tick: int, *, is_final: bool = False) -> bool:
        """The stream of a pubend begins on the new connection; False if something would be missing before it.

        Once the move is final, nobody else could bring the missing part: it begins all the same.
        """
        key = (inbox.number, pubend)
        if key in self._streams:
            return True
        position = inbox.next_ticks.get(pubend)
        if position is None and not is_final:
            # The broker says repeatedly how far the stream is; it begins where the broker said first.
            self._ahead.setdefault(key, tick)
            return True
        if position is not None and position < tick and not is_final:
            return False
        if position is None:
            self._alone[key] = None
        self._streams[key] = None
        inbox.starts.setdefault(pubend, tick)
        inbox.positions.on_start(pubend, tick)
        return True

    def waits(self, inbox: Inbox, pubend: str) -> bool:
        """Whether only the new connection has begun a stream, so that its word does not count yet."""
        return (inbox.number, pubend) in self._ahead

    def begins_old(self, inbox: Inbox, pubend: str) -> bool:
        """The old connection has begun a stream, too; False if the new one begins it further on."""
        tick = self._ahead.pop((inbox.number, pubend), None)
        return tick is None or self.begins(inbox, pubend, tick)

    def settle(self) -> dict[int, Inbox]:
        """The new connection takes over, and begins streams that only it has; returns the woken subscriptions."""
        ahead, self._ahead = self._ahead, {}
        woken: dict[int, Inbox] = {}
        for (number, pubend), tick in ahead.items():
            inbox = self._inboxes.get(number)
            if inbox is not None:
                self.begins(inbox, pubend, tick, is_final=True)
                woken |= self.flush(pubend)
        return woken

    def covers(self, inbox: Inbox) -> bool:
        """Whether the new connection continues every stream that the subscription has a position in."""
        for (number, pubend), tick in self._ahead.items():
            # Messages may come over the old connection before it says where the stream begins.
            if number == inbox.number and inbox.next_ticks.get(pubend, tick) < tick:
                return False
        return all((inbox.number, pubend) in self._streams for pubend in inbox.positions.known())

    def drop(self, inbox: Inbox) -> None:
        """Forgets a subscription that is over."""
        self._streams = {key: None for key in self._streams if key[0] != inbox.number}
        self._ahead = {key: tick for key, tick in self._ahead.items() if key[0] != inbox.number}

    def deliver_old(self, numbers: bytes, received: Received, woken: dict[int, Inbox]) -> None:
        """Delivers a message that came over the old connection."""
        if not received.is_guaranteed:
            # This may be the new connection of the previous move, and slower than the old one was then.
            numbers = b"".join(each.number.to_bytes(4) for each in self._named(numbers) if _is_news(each, received))
        elif self._alone:
            mine = (each.number for each in self._named(numbers) if (each.number, received.pubend) not in self._alone)
            numbers = b"".join(number.to_bytes(4) for number in mine)
        self._inboxes.deliver(numbers, received, woken)

    def deliver_new(self, numbers: bytes, received: Received, woken: dict[int, Inbox]) -> None:
        """Delivers a message that came over the new connection, or holds it."""
        for inbox in self._named(numbers):
            if received.is_guaranteed and (inbox.number, received.pubend) in self._streams:
                self._inboxes.deliver(inbox.number.to_bytes(4), received, woken)
            elif self._is_released:
                if _is_news(inbox, received):
                    self._inboxes.deliver(inbox.number.to_bytes(4), received, woken)
            else:
                self._held.append((inbox.number, received))
                self._held_bytes += len(received.body) + MESSAGE_BYTES

    def flush(self, pubend: str) -> dict[int, Inbox]:
        """Delivers what was held for streams of a pubend that now have positions; returns the woken subscriptions."""
        waiting: list[tuple[int, Received]] = []
        others: deque[tuple[int, Received]] = deque()
        for number, received in self._held:
            is_next = received.is_guaranteed and received.pubend == pubend and (number, pubend) in self._streams
            (waiting if is_next else others).append((number, received))
        if not waiting:
            return {}
        self._held = others
        return self._deliver(waiting)

    def release(self) -> dict[int, Inbox]:
        """Delivers what the old connection, now at its end, did not bring; returns the woken subscriptions."""
        held, self._held = self._held, deque()
        self._is_released = True
        return self._deliver(held)

    def _deliver(self, messages: Iterable[tuple[int, Received]]) -> dict[int, Inbox]:
        self._held_bytes = sum(len(received.body) + MESSAGE_BYTES for _, received in self._held)
        woken: dict[int, Inbox] = {}
        for number, received in messages:
            inbox = self._inboxes.get(number)
            # A message below the position has arrived, or lies before the start that the old broker named.
            if inbox is not None and not inbox.is_repeated(received) and _is_news(inbox, received):
                self._inboxes.deliver(number.to_bytes(4), received, woken)
        return woken

    def _named(self, numbers: bytes) -> Iterator[Inbox]:
        for start in range(0, len(numbers), 4):
            inbox = self._inboxes.get(int.from_bytes(numbers[start : start + 4]))
            if inbox is not None:
                yield inbox


def _is_news(inbox: Inbox, received: Received) -> bool:
    """Whether a message comes after all that arrived of its pubend, if that has no positions."""
    return received.is_guaranteed or inbox.is_beyond(received.pubend, received.tick)
