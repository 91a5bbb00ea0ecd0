"""How a simulated client publishes: within its credit, and again after a loss until it is acknowledged.

What was sent to a guaranteed pubend and not acknowledged is sent again, with the same identifiers and sequence numbers
and before anything new, on the next connection to the same broker. For best effort it is counted as unconfirmed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource
from penstock.protocol.frames import Publish, PublishAck, RefusedAck, Welcome
from penstock.sim.clock import Clock
from penstock.sim.records import Published

__all__ = ["Publishing"]

_BATCH_BYTES: Final = 64 * 1024


class Publishing:
    """What one client has published and wants to publish, over all its connections."""

    def __init__(self, name: str, clock: Clock, *, backlog_max: int) -> None:
        self.publisher = blake2b(name.encode(), digest_size=16).digest()
        """Who publishes, the same on every connection."""
        self.published: list[Published] = []
        """What was sent, in order; each once, however often it was sent."""
        self.acknowledged = self.unconfirmed = self.dropped = 0
        self.backlog: deque[tuple[Message, str]] = deque()
        """What waits to be sent for the first time, with the pubend it is for."""
        self._clock, self._backlog_max = clock, backlog_max
        self._welcome: Welcome | None = None
        self._before: Welcome | None = None
        self._ids: MessageIdSource | None = None
        self._last_id: MessageId | None = None
        self._made: Published | None = None
        # In the order of their sequence numbers: sent on this connection, and still to be sent again on it.
        self._unacked: deque[Published] = deque()
        self._again: deque[Published] = deque()
        self._sequence = self._sent = self._acked = self._credit_bytes = 0
        self.window_bytes = 0
        """While the broker holds publishers back: what may be unacknowledged at a time; 0 for all the credit."""

    @property
    def unsettled(self) -> int:
        """Messages that were sent, and of which it is open what will become."""
        return len(self._unacked) + len(self._again)

    def add(self, message: Message, pubend: str) -> None:
        """Publish a message as soon as possible; beyond the limit of the backlog it is counted and dropped."""
        if len(self.backlog) >= self._backlog_max:
            self.dropped += 1
        else:
            self.backlog.append((message, pubend))

    def connect(self, welcome: Welcome) -> None:
        """A broker has let the client in."""
        self._welcome, self._credit_bytes = welcome, welcome.credit_bytes
        self.window_bytes = 0
        self._sent = self._acked = 0
        last = self._last_id
        # Every connection has a publisher's number of its own; time and counter go on rising whatever clocks do.
        after = None if last is None else MessageId(welcome.publisher, 0, last.timestamp_ms, last.counter)
        self._ids = MessageIdSource(welcome.publisher, welcome.broker_number, after=after)
        self._ids.adjust(welcome.now_ms - self._clock.now_ms)
        before, self._before = self._before, welcome
        self._again = self._kept(self._again, before)

    def disconnect(self) -> None:
        """The connection is lost."""
        if self._welcome is not None:
            self._again = self._kept([*self._unacked, *self._again], self._welcome)
        self._unacked.clear()
        self._welcome = self._ids = self._made = None

    def next_frame(self) -> Publish | None:
        """What to send now, as far as the credit goes; a message beyond any credit waits for all of it."""
        batch: list[Published] = []
        room = _BATCH_BYTES
        while room > 0 and (head := self._head()) is not None:
            if batch and (head.pubend != batch[0].pubend or head.sequence != batch[-1].sequence + 1):
                break
            if not self._has_credit(len(head.body)):
                break
            self._take_head(head)
            room -= len(head.body)
            batch.append(head)
        if not batch:
            return None
        return Publish(batch[0].sequence, [each.body for each in batch], batch[0].pubend)

    def on_ack(self, frame: PublishAck) -> None:
        """The broker has taken over everything up to a number."""
        assert self._acked <= frame.sequence <= self._sent, f"acknowledged {frame.sequence} of {self._sent}"
        self._acked = frame.sequence
        self._credit_bytes += frame.credit_bytes
        unacked, now_us = self._unacked, self._clock.now_us
        while unacked and unacked[0].sequence <= frame.sequence:
            each = unacked.popleft()
            if not each.is_refused:
                each.acked_us = now_us
                self.acknowledged += 1

    def on_refused(self, first: int, count: int) -> RefusedAck:
        """The broker refuses so many messages; what to say to that."""
        for each in self._unacked:
            if first <= each.sequence < first + count:
                each.is_refused = True
        return RefusedAck(first + count - 1)

    def _head(self) -> Published | None:
        """What comes next: what was sent before, then what waits, which is encoded now."""
        if self._again:
            return self._again[0]
        if self._made is None and self.backlog and self._welcome is not None:
            assert self._ids is not None
            message, pubend = self.backlog[0]
            self._last_id = self._ids.next(self._clock.now_ms)
            self._made = Published(
                0,
                encode_body(self._last_id, message),
                pubend=pubend,
                sequence=self._sequence + 1,
                is_guaranteed=self._is_guaranteed(pubend),
                candidates=(pubend,) if pubend else self._welcome.pubends,
                sends=0,
            )
        return self._made

    def _take_head(self, head: Published) -> None:
        if head is self._made:
            self.backlog.popleft()
            self._made = None
            self._sequence = head.sequence
            head.sent_us = self._clock.now_us
            self.published.append(head)
        else:
            self._again.popleft()
        head.sends += 1
        self._sent = head.sequence
        self._credit_bytes -= len(head.body)
        self._unacked.append(head)

    def _has_credit(self, size: int) -> bool:
        assert self._welcome is not None
        if self.window_bytes and self._unacked:
            unacked = sum(len(each.body) for each in self._unacked)
            if unacked + size > self.window_bytes:
                return False
        return size <= self._credit_bytes or self._credit_bytes >= self._welcome.credit_bytes

    def _is_recognised(self, pubend: str, before: Welcome) -> bool:
        """Whether the broker knows what the pubend got of this client before: only the same one, of the same class."""
        assert self._welcome is not None
        if before.broker != self._welcome.broker:
            return False
        if pubend:
            return pubend not in (*before.best_effort, *self._welcome.best_effort)
        return _guaranteed(before) == _guaranteed(self._welcome) != []

    def _is_guaranteed(self, pubend: str) -> bool:
        assert self._welcome is not None
        best_effort = self._welcome.best_effort
        if pubend:
            return pubend not in best_effort
        return any(name not in best_effort for name in self._welcome.pubends)

    def _kept(self, messages: Iterable[Published], before: Welcome | None) -> deque[Published]:
        """Those to be sent again; of the others nobody will ever know."""
        kept: deque[Published] = deque()
        for each in messages:
            if each.is_refused:
                continue
            if before is not None and self._is_recognised(each.pubend, before):
                kept.append(each)
            else:
                each.is_unconfirmed = True
                self.unconfirmed += 1
        return kept


def _guaranteed(welcome: Welcome) -> list[str]:
    return [each for each in welcome.pubends if each not in welcome.best_effort]
