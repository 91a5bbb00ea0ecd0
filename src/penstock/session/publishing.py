"""The queue of messages to publish: batches them, and never sends more unacknowledged bytes than there is credit for.

Every message has a sequence number that counts over the whole life of the client. With the publisher's identity it
tells a broker which messages it already has, so messages on the wire when a connection was lost can be sent again: to
the same broker, unless the pubend guarantees nothing. Otherwise they are settled as lost: they may have arrived, and
nobody could recognise the repetition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.model.body import encode_message
from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Publish, RefusedAck, Welcome

__all__ = ["Failure", "Identifying", "PublishQueue", "check_pubend", "recogniser"]


_PUBEND_CHARS_MAX: Final = 100


class _Run:
    """Consecutive messages to one pubend that fit one frame."""

    __slots__ = ("bodies", "first", "pubend", "size", "was_sent")

    def __init__(self, first: int, pubend: str, bodies: list[bytes], size: int) -> None:
        self.first = first
        self.pubend = pubend
        self.bodies = bodies
        self.size = size
        self.was_sent = False
        """Whether it has been on the wire: then the broker may have it, and nothing may be added."""

    @property
    def last(self) -> int:
        return self.first + len(self.bodies) - 1

    def cut(self, count: int, size: int) -> _Run:
        """Splits off the first messages as a run of their own."""
        head = _Run(self.first, self.pubend, self.bodies[:count], size)
        # Not in place: a frame may hold the same list.
        self.bodies = self.bodies[count:]
        self.first += count
        self.size -= size
        return head

    def parted(self, first: int, last: int) -> tuple[_Run, _Run, _Run]:
        """Splits the run into the messages before, within and after these numbers; each part may be empty."""
        start = max(first - self.first, 0)
        end = max(min(last, self.last) - self.first + 1, start)
        cuts = (0, start), (start, end), (end, len(self.bodies))
        before, within, behind = (self._slice(*cut) for cut in cuts)
        return before, within, behind

    def _slice(self, start: int, end: int) -> _Run:
        bodies = self.bodies[start:end]
        piece = _Run(self.first + start, self.pubend, bodies, sum(map(len, bodies)))
        piece.was_sent = self.was_sent
        return piece


@dataclass(slots=True, frozen=True)
class Failure:
    """A message that was refused, or that may be lost."""

    number: int
    body: bytes
    reason: str
    """Why the broker refused it; empty if it may be lost."""


def _never(_: str) -> bool:
    return False


class PublishQueue:
    """The messages that wait to be sent, and the window of those that wait to be acknowledged.

    >>> queue = PublishQueue(linger_ms=1, batch_bytes=1000)
    >>> queue.on_welcome(credit_bytes=100, now_ms=0)
    >>> queue.put(b"x" * 60, now_ms=5)
    False
    >>> queue.has_room(60), queue.take(now_ms=5)
    (False, [])
    >>> [(frame.first, len(frame.bodies)) for frame in queue.take(now_ms=6)]
    [(1, 1)]
    >>> queue.on_ack(1, 60)
    >>> queue.has_room(60)
    True
    """

    def __init__(self, *, linger_ms: int, batch_bytes: int, published: int = 0, stop_at_refusal: bool = False) -> None:
        self._linger_ms, self._batch_bytes = linger_ms, batch_bytes
        self._stop_at_refusal = stop_at_refusal
        self._runs: deque[_Run] = deque()
        # Messages on the wire or, between two connections, those that were. The credit window bounds them.
        self._wire: deque[_Run] = deque()
        self._due_ms: int | None = None
        self._asks = False
        self._failures: list[Failure] = []
        # The last refused message whose refusal is still to be confirmed to the broker; 0 for none.
        self._confirms = 0
        self._credit = self._credit_full = 0
        # The last sequence number that any broker has seen from us.
        self._sent = published
        self._wire_bytes = 0
        self._window_bytes = 0
        self._room = 0
        """How many bytes may be queued now; kept up to date, since every message asks. Below 0 if the window shrank."""
        self.queued_bytes = 0
        self.published = published
        """Sequence number of the newest message; also how many there were, unless another process began the count."""
        self.acknowledged = 0
        """Messages that a broker has acknowledged."""
        self.lost = 0
        """Messages that may be lost: on the wire of a lost connection and not sent again, or abandoned at the end."""
        self.refused = 0
        """Messages that a broker refused."""
        self.is_stopped = False
        """Whether a refusal has stopped the queue: nothing more is sent."""
        self.refusal = ""
        """The reason of the last refusal."""

    @property
    def settled(self) -> int:
        """Sequence number up to which every message was acknowledged, refused or lost."""
        first = self._wire[0] if self._wire else self._runs[0] if self._runs else None
        return self.published if first is None else first.first - 1

    @property
    def window_bytes(self) -> int:
        """How many bytes may be unacknowledged while the broker holds publishers back; 0 for all the credit."""
        return self._window_bytes

    @window_bytes.setter
    def window_bytes(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._measure()

    def has_room(self, size: int, *, beside: int = 0) -> bool:
        """Whether a message of this size may be queued; one that is larger than the window goes alone.

        ``beside`` are bytes that were given room before, and are not queued yet.
        """
        return size + beside <= self._room or (not self.queued_bytes and not beside and self._window_is_empty())

    def put(self, body: bytes, pubend: str = "", *, now_ms: int, had_room: bool = False) -> bool:
        """Queues a message; returns whether there is a batch to send.

        One that had room may exceed a window that has shrunk since; it waits, as those queued before it do.
        """
        size = len(body)
        assert size <= self._room or had_room or self.has_room(size), f"no room for {size} bytes"
        run = self._runs[-1] if self._runs else None
        if run is None or run.was_sent or run.pubend != pubend or run.size + size > self._batch_bytes:
            check_pubend(pubend)
            run = _Run(self.published + 1, pubend, [], 0)
            self._runs.append(run)
        self.published += 1
        run.bodies.append(body)
        run.size += size
        self.queued_bytes += size
        self._room -= size
        if self._due_ms is None:
            self._due_ms = now_ms + self._linger_ms
        return (now_ms >= self._due_ms or self.queued_bytes >= self._batch_bytes) and not self.is_stopped

    def hurry(self, *, now_ms: int) -> None:
        """Makes all waiting messages due now, and asks the broker to acknowledge them at once."""
        self._asks = bool(self._wire or self._runs)
        if self._runs:
            self._due_ms = now_ms

    def next_deadline(self) -> int | None:
        """When to take the next batch; None if nothing waits, or nothing may be sent before an acknowledgement."""
        return (
            self._due_ms
            if self._runs and not self.is_stopped and self._may_send(len(self._runs[0].bodies[0]))
            else None
        )

    def is_due(self, now_ms: int) -> bool:
        """Whether a batch is to be sent."""
        if self.is_stopped:
            return False
        return self._due_ms is not None and (now_ms >= self._due_ms or self.queued_bytes >= self._batch_bytes)

    def take(self, *, now_ms: int) -> list[Publish]:
        """The frames to send now."""
        frames: list[Publish] = []
        while self.is_due(now_ms) and (run := self._take_run()) is not None:
            run.was_sent = True
            frames.append(Publish(run.first, run.bodies, run.pubend))
            self._wire.append(run)
            self._wire_bytes += run.size
            self._sent = max(self._sent, run.last)
            self._credit -= run.size
            self.queued_bytes -= run.size
            if not self._runs:
                self._due_ms = None
        self._measure()
        if self._asks and not self._runs and self._credit_full:
            # A frame without messages asks the broker to acknowledge what it has.
            frames.append(Publish(self._sent + 1, []))
            self._asks = False
        return frames

    def on_welcome(self, *, credit_bytes: int, now_ms: int, recognises: Callable[[str], bool] = _never) -> None:
        """A new connection, with this window; pubends that recognise repetitions are first sent everything again."""
        assert not self._credit_full, "the last connection has not been given up"
        self._credit = self._credit_full = credit_bytes
        outstanding = [*self._wire, *self._runs]
        kept = [run for run in outstanding if not run.was_sent or recognises(run.pubend)]
        for run in outstanding:
            if run.was_sent and not recognises(run.pubend):
                self.lost += len(run.bodies)
                self._fail(run, "")
        self._wire.clear()
        self._wire_bytes = self._window_bytes = 0
        self._runs = deque(kept)
        self.queued_bytes = sum(run.size for run in kept)
        self._measure()
        if not kept:
            self._due_ms, self._asks = None, False
        elif kept[0].was_sent:
            self._due_ms = now_ms

    def on_ack(self, sequence: int, credit_bytes: int) -> None:
        """The broker acknowledges everything up to a sequence number, and gives credit back."""
        if sequence > self._sent or credit_bytes < 0:
            raise ProtocolError(f"message {sequence} is acknowledged, but only {self._sent} were sent")
        self._wire_bytes -= self._settle(self._wire, sequence)
        if not self._wire and self._runs and self._runs[0].was_sent:
            # The broker remembers more from our last connection than we have sent again on this one.
            self.queued_bytes -= self._settle(self._runs, sequence)
            if not self._runs:
                self._due_ms = None
        self._credit += credit_bytes
        self._measure()

    def on_refused(self, first: int, reason: str, count: int = 1) -> None:
        """The broker refuses these messages; an acknowledgement will give the credit back."""
        last = first + count - 1
        if not 0 < first <= last <= self._sent:
            raise ProtocolError(f"message {last} is refused, but only {self._sent} were sent")
        # Settled now: if they were sent again on another connection, they would be refused and counted again.
        kept: deque[_Run] = deque()
        for run in self._wire:
            if run.last < first or run.first > last:
                kept.append(run)
                continue
            before, refused, behind = run.parted(first, last)
            kept += [each for each in (before, behind) if each.bodies]
            self._wire_bytes -= refused.size
            self.refused += len(refused.bodies)
            self._fail(refused, reason)
        self._wire = kept
        self._measure()
        self.refusal = reason
        if self._stop_at_refusal:
            # The refusal is not confirmed either, so the broker takes nothing that is on the wire after it.
            self.is_stopped = True
        else:
            self._confirms = max(self._confirms, last)

    def take_confirmations(self) -> list[RefusedAck]:
        """The confirmation of the refusals that have come in, which the broker waits for."""
        confirms, self._confirms = self._confirms, 0
        return [RefusedAck(confirms)] if confirms else []

    def take_failures(self) -> list[Failure]:
        """The messages that were refused or lost since the last call, in the order in which that became known."""
        failures, self._failures = self._failures, []
        return failures

    def abandon(self) -> None:
        """Settles everything outstanding as lost: nobody will acknowledge it any more."""
        for run in (*self._wire, *self._runs):
            self.lost += len(run.bodies)
            self._fail(run, "")
        self._wire.clear()
        self._runs.clear()
        self._wire_bytes = self.queued_bytes = 0
        self._measure()
        self._due_ms, self._asks = None, False

    def _fail(self, run: _Run, reason: str) -> None:
        numbered = enumerate(run.bodies, start=run.first)
        self._failures += [Failure(number, body, reason) for number, body in numbered]

    def on_disconnected(self) -> None:
        """The connection is gone; the next one decides what becomes of the messages that were on the wire."""
        self._credit = self._credit_full = 0
        self._confirms = 0
        self._measure()

    def _measure(self) -> None:
        """Notes how much may be queued, after a change of the credit, the window, or what is outstanding."""
        self._room = min(self._credit, self._window_left()) - self.queued_bytes

    def _take_run(self) -> _Run | None:
        """The first messages to one pubend for which there is credit: usually the whole run."""
        run = self._runs[0]
        room = min(self._credit, self._window_left())
        if run.size <= room:
            return self._runs.popleft()
        size, count = 0, 0
        for body in run.bodies:
            if size + len(body) > room:
                break
            size += len(body)
            count += 1
        if count == 0 and self._window_is_empty():
            size, count = len(run.bodies[0]), 1
        if count == 0:
            return None
        return self._runs.popleft() if count == len(run.bodies) else run.cut(count, size)

    def _settle(self, runs: deque[_Run], sequence: int) -> int:
        """Removes acknowledged messages, maybe only a part of a frame; returns the number of bytes."""
        settled_bytes = 0
        while runs and runs[0].first <= sequence:
            count = min(len(runs[0].bodies), sequence - runs[0].first + 1)
            if count == len(runs[0].bodies):
                settled_bytes += runs.popleft().size
            else:
                size = sum(map(len, runs[0].bodies[:count]))
                runs[0].cut(count, size)
                settled_bytes += size
            self.acknowledged += count
        return settled_bytes

    def _may_send(self, size: int) -> bool:
        return size <= min(self._credit, self._window_left()) or self._window_is_empty()

    def _window_left(self) -> int:
        return self._window_bytes - self._wire_bytes if self._window_bytes else self._credit

    def _window_is_empty(self) -> bool:
        if self._wire or not self._credit_full:
            return False
        # A window narrower than a message lets one go at a time, if there is credit for the window at all.
        return self._credit >= self._credit_full or 0 < self._window_bytes <= self._credit

    def check_invariants(self) -> None:
        """Fails if the numbers do not add up."""
        outstanding = [*self._wire, *self._runs]
        assert self.queued_bytes == sum(run.size for run in self._runs)
        assert self._room == min(self._credit, self._window_left()) - self.queued_bytes
        assert self._wire_bytes == sum(run.size for run in self._wire)
        assert all(run.size == sum(map(len, run.bodies)) and run.bodies for run in outstanding)
        assert all(run.was_sent == (run.last <= self._sent) for run in outstanding)
        assert all(one.last < other.first for one, other in pairwise(outstanding))
        assert self.acknowledged + self.lost + _count(outstanding) <= self.published
        assert (self._due_ms is None) == (not self._runs)
        assert self.settled <= self.published


def check_pubend(pubend: str) -> None:
    """Refuses a name that no pubend can have, since it is too long."""
    if len(pubend) > _PUBEND_CHARS_MAX:
        raise LimitError("the name of the pubend, in characters,", len(pubend), _PUBEND_CHARS_MAX)


def _count(runs: Iterable[_Run]) -> int:
    return sum(len(run.bodies) for run in runs)


def recogniser(before: Welcome | None, now: Welcome) -> Callable[[str], bool]:
    """Tells which pubends recognise messages from before this welcome if they are sent again.

    Only those that guarantee delivery now and did then: a best-effort pubend remembers nobody's numbers, and a
    guaranteed pubend of the same name cannot know what the best-effort one passed on.
    """
    if before is None or (before.broker, before.overlay) != (now.broker, now.overlay):
        return _never
    # Where the broker chooses the pubend, it must choose as before: one does not recognise what another has.
    guaranteed = [[each for each in welcome.pubends if each not in welcome.best_effort] for welcome in (before, now)]
    chooses_alike = guaranteed[0] == guaranteed[1] != []

    def recognises(pubend: str) -> bool:
        if pubend:
            return pubend not in before.best_effort and pubend not in now.best_effort
        return chooses_alike

    return recognises


class Identifying:
    """Makes the identifiers of a client's messages; each broker gives the publisher number and the clock."""

    def __init__(self, guard: AbstractContextManager[object]) -> None:
        """Whoever calls ``stamp`` in another thread must hold the guard, a lock."""
        self._guard = guard
        self._ids: MessageIdSource | None = None
        self._last: MessageId | None = None

    def on_welcome(self, welcome: Welcome, *, skew_ms: int) -> None:
        """A broker has given the client a number; its clock is ahead by the skew."""
        with self._guard:
            after = self._last if self._last is not None and self._last.publisher == welcome.publisher else None
            self._ids = MessageIdSource(welcome.publisher, welcome.broker_number, after=after)
            self._ids.adjust(skew_ms)

    def identify(self, message: Message, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """Makes the identifier of a message to be published now; returns it and the encoded message."""
        return self.stamp(encode_message(message), wall_ms=wall_ms)

    def stamp(self, content: bytes, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """Puts a new identifier before the encoded rest of a message; returns it and the whole."""
        assert self._ids is not None, "no broker has given this client a number yet"
        message_id = self._last = self._ids.next(wall_ms)
        return message_id, message_id.to_bytes() + content
