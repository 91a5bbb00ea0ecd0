"""The queue of messages to one pubend: batches them, and never has more unacknowledged bytes than there is credit for.

The messages of a publisher to a pubend are numbered in order. With the publisher's identity the number tells the
pubend which messages it already has, so what was on the wire when a connection was lost is sent again, to whatever
broker comes next. Only what was on its way to a pubend that guarantees nothing is settled as lost: it may have arrived,
and nobody could recognise the repetition. A message keeps its number, whatever becomes of others: where some were
refused, the client says which number follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Publish, Rewound, Skipped

__all__ = ["Failure", "PublishQueue"]


class _Run:
    """Consecutive messages that fit one frame."""

    __slots__ = ("bodies", "first", "is_known", "is_whole", "size", "was_sent")

    def __init__(self, first: int, bodies: list[bytes], size: int) -> None:
        self.first = first
        """The number of the first message."""
        self.bodies = bodies
        self.size = size
        self.is_whole = False
        """Whether it has been on the wire: then a frame has the same list, and nothing may be added."""
        self.was_sent = False
        """Whether the broker may have it: it has been on the wire, and was not wanted again because nobody took it."""
        self.is_known = False
        """Whether the pubend recognised repetitions when it was sent."""

    @property
    def last(self) -> int:
        return self.first + len(self.bodies) - 1

    def cut(self, count: int, size: int) -> _Run:
        """Splits off the first messages as a run of their own."""
        head = _Run(self.first, self.bodies[:count], size)
        head.was_sent, head.is_known, head.is_whole = self.was_sent, self.is_known, True
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
        piece = _Run(self.first + start, bodies, sum(map(len, bodies)))
        piece.was_sent, piece.is_known, piece.is_whole = self.was_sent, self.is_known, True
        return piece


@dataclass(slots=True, frozen=True)
class Failure:
    """A message that was refused, or that may be lost."""

    pubend: str
    place: int
    """Its place among all messages to this pubend, from 1 on."""
    body: bytes
    reason: str
    """Why the broker refused it; empty if it may be lost."""


class PublishQueue:
    """The messages that wait to be sent, and the window of those that wait to be acknowledged.

    >>> queue = PublishQueue("quotes", linger_ms=1, batch_bytes=1000)
    >>> queue.open(credit_bytes=100, is_guaranteed=True, now_ms=0)
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

    def __init__(
        self, pubend: str, *, linger_ms: int, batch_bytes: int, numbered: int = 0, stop_at_refusal: bool = False
    ) -> None:
        """The first message gets the number after ``numbered``."""
        self.pubend = pubend
        self._linger_ms, self._batch_bytes = linger_ms, batch_bytes
        self._stop_at_refusal = stop_at_refusal
        self._runs: deque[_Run] = deque()
        # Messages on the wire or, between two connections, those that were. The credit window bounds them.
        self._wire: deque[_Run] = deque()
        self._due_ms: int | None = None
        self._asks = False
        self._failures: list[Failure] = []
        self._rewound: int | None = None
        """The round of a rewind that is still to be answered."""
        self._before = numbered
        """The number before that of the first message: places count from there."""
        self._numbered = numbered
        """The number of the newest message."""
        self._sent = self._acknowledged_number = numbered
        """The last number that any broker has seen from us, and the last one acknowledged."""
        self._following: int | None = None
        """The number that the broker expects next on this connection; None if it takes any."""
        self._repeated = numbered
        """The last number whose message may have been taken before this connection, or before something was lost."""
        self._credit = self._credit_full = 0
        self._wire_bytes = 0
        self._void_bytes = 0
        """Bytes on the wire whose messages were given up: if the broker did not take them, they cost no credit."""
        self._room = 0
        """How many bytes may be queued now; kept up to date, since every message asks. Below 0 if the window shrank."""
        self.window_bytes = 0
        """How many bytes may be unacknowledged while publishers are held back; 0 for all the credit."""
        self.held_back = ""
        """Why publishers to this pubend have to wait; empty if they do not."""
        self.problem = ""
        """Why nobody will ever take messages to this pubend, as far as is known; empty if somebody will."""
        self.overlay = ""
        """The overlay that messages were last sent to; empty if none was."""
        self.is_guaranteed = True
        """Whether the pubend recognises messages that are sent again."""
        self.is_resting = False
        """Whether nothing is sent for the moment, so that all that was sent can be acknowledged."""
        self.queued_bytes = 0
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
    def published(self) -> int:
        """How many messages were ever queued."""
        return self._numbered - self._before

    @property
    def settled(self) -> int:
        """The place up to which every message was acknowledged, refused or lost."""
        first = self._wire[0] if self._wire else self._runs[0] if self._runs else None
        return self.published if first is None else first.first - 1 - self._before

    @property
    def is_open(self) -> bool:
        """Whether there is a connection on which messages to this pubend may be sent."""
        return bool(self._credit_full)

    def hold_back(self, reason: str, window_bytes: int) -> None:
        """Publishers have to wait for a reason, or no longer have to if it is empty."""
        self.held_back, self.window_bytes = reason, window_bytes
        self._measure()

    def has_room(self, size: int, *, beside: int = 0) -> bool:
        """Whether a message of this size may be queued; one that is larger than the window goes alone.

        ``beside`` are bytes that were given room before, and are not queued yet.
        """
        return size + beside <= self._room or (not self.queued_bytes and not beside and self._window_is_empty())

    def put(self, body: bytes, *, now_ms: int, had_room: bool = False) -> bool:
        """Queues a message; returns whether there is a batch to send.

        One that had room may exceed a window that has shrunk since; it waits, as those queued before it do.
        """
        size = len(body)
        assert size <= self._room or had_room or self.has_room(size), f"no room for {size} bytes"
        self._numbered += 1
        run = self._runs[-1] if self._runs else None
        if run is None or run.is_whole or run.size + size > self._batch_bytes:
            run = _Run(self._numbered, [], 0)
            self._runs.append(run)
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
            self._due_ms if self._runs and not self._is_still and self._may_send(len(self._runs[0].bodies[0])) else None
        )

    @property
    def _is_still(self) -> bool:
        return self.is_stopped or self.is_resting

    @property
    def has_sent(self) -> bool:
        """Whether messages wait to be acknowledged."""
        return bool(self._wire)

    def is_due(self, now_ms: int) -> bool:
        """Whether a batch is to be sent."""
        if self._is_still:
            return False
        return self._due_ms is not None and (now_ms >= self._due_ms or self.queued_bytes >= self._batch_bytes)

    def take(self, *, now_ms: int) -> list[Publish | Skipped]:
        """The frames to send now."""
        frames: list[Publish | Skipped] = []
        while self.is_due(now_ms) and (run := self._take_run()) is not None:
            run.was_sent, run.is_known, run.is_whole = True, self.is_guaranteed, True
            frames += self._skip_to(run.first)
            frames.append(Publish(run.first, run.bodies, self.pubend))
            self._following = run.last + 1
            self._wire.append(run)
            self._wire_bytes += run.size
            self._sent = max(self._sent, run.last)
            self._credit -= run.size
            self.queued_bytes -= run.size
            if not self._runs:
                self._due_ms = None
        self._measure()
        if self._asks and (not self._runs or self.is_resting) and self._credit_full:
            # A frame without messages asks the broker to acknowledge what it has.
            following = self._runs[0].first if self._runs else self._numbered + 1
            frames += self._skip_to(following)
            frames.append(Publish(following, [], self.pubend))
            self._following = following
            self._asks = False
        return frames

    def _skip_to(self, number: int) -> list[Skipped]:
        """Says which number follows, if those before it were refused."""
        is_next = self._following is None or self._following == number
        return [] if is_next else [Skipped(number, self.pubend)]

    def open(self, *, credit_bytes: int, is_guaranteed: bool, now_ms: int, recognises: bool = True) -> None:
        """There is a broker that takes messages to this pubend, with this window.

        If the pubend recognises repetitions of what was sent before, it is first sent everything again.
        """
        assert not self._credit_full, "the last connection has not been given up"
        self._credit = self._credit_full = credit_bytes
        self._void_bytes = 0
        self._following = None
        self._repeated = self._sent
        self.is_guaranteed = is_guaranteed
        kept = self._repeatable([*self._wire, *self._runs], recognises=recognises)
        self._wire.clear()
        self._wire_bytes = 0
        self._queue(kept)
        if not kept:
            self._due_ms, self._asks = None, False
        elif kept[0].was_sent:
            self._due_ms = now_ms

    def _repeatable(self, runs: Iterable[_Run], *, recognises: bool = True) -> list[_Run]:
        """The runs that may be sent, for the first time or again; settles the others as lost."""
        kept: list[_Run] = []
        for run in runs:
            if not run.was_sent or (recognises and run.is_known and self.is_guaranteed):
                kept.append(run)
            else:
                self._lose(run)
        return kept

    def on_ack(self, sequence: int, credit_bytes: int) -> None:
        """The broker acknowledges everything up to a number, and gives credit back."""
        if sequence > self._sent or credit_bytes < 0:
            raise ProtocolError(
                f"message {sequence} to {self.pubend} is acknowledged, but the last one sent is {self._sent}"
            )
        self._acknowledged_number = max(self._acknowledged_number, sequence)
        self._wire_bytes -= self._settle(self._wire, sequence)
        if not self._wire and self._runs and self._runs[0].was_sent:
            # The pubend remembers more from our last connection than we have sent again on this one.
            self.queued_bytes -= self._settle(self._runs, sequence)
            if not self._runs:
                self._due_ms = None
        if self.is_open:
            self._credit += credit_bytes
        self._measure()

    def on_refused(self, first: int, reason: str, count: int = 1) -> None:
        """The broker refuses these messages; a rewind follows, since it has taken nothing that came after them."""
        last = first + count - 1
        if not 0 < first <= last <= self._sent:
            raise ProtocolError(f"message {last} to {self.pubend} is refused, but the last one sent is {self._sent}")
        # Settled now: if they were sent again on another connection, they would be refused and counted again.
        kept: deque[_Run] = deque()
        for run in self._wire:
            if run.last < first or run.first > last:
                kept.append(run)
                continue
            before, refused, behind = run.parted(first, last)
            kept += [each for each in (before, behind) if each.bodies]
            self._wire_bytes -= refused.size
            if self.is_open:
                self._credit += refused.size
            self.refused += len(refused.bodies)
            self._fail(refused, reason)
        self._wire = kept
        self._measure()
        self.refusal = reason
        if self._stop_at_refusal:
            # The rewind is not answered either, so the broker takes nothing that is on the wire after it.
            self.is_stopped = True

    def on_rewind(self, number: int, answer_to: int, credit_bytes: int, *, now_ms: int) -> None:
        """The broker wants everything from a number on again.

        If the credit is -1, none of it was taken. Otherwise nobody knows what has arrived.
        """
        if not self._acknowledged_number < number <= max(self._sent + 1, self._following or 0):
            raise ProtocolError(f"message {number} to {self.pubend} is wanted again, but was not sent")
        if not self.is_open:
            return
        back: list[_Run] = []
        kept: deque[_Run] = deque()
        for run in self._wire:
            if run.first < number <= run.last:
                count = number - run.first
                kept.append(run.cut(count, sum(map(len, run.bodies[:count]))))
            (kept if run.last < number else back).append(run)
        self._wire = kept
        returned_bytes = sum(run.size for run in back)
        self._wire_bytes -= returned_bytes
        self._credit = min(self._credit + returned_bytes + self._void_bytes, self._credit_full - self._wire_bytes)
        self._void_bytes = 0
        if credit_bytes < 0:
            for run in back:
                # Unless it was sent before this connection, nobody has it.
                run.was_sent = run.last <= self._repeated
        else:
            self._credit = credit_bytes
            self._repeated = self._sent
        self._following = number
        self._queue(self._repeatable([*back, *self._runs]))
        self._rewound = answer_to
        self._due_ms = now_ms if self._runs else None

    def take_answers(self) -> list[Rewound]:
        """The answer to a rewind, which the broker waits for before it takes anything again."""
        answer_to, self._rewound = self._rewound, None
        return [] if answer_to is None or self.is_stopped else [Rewound(answer_to, self.pubend)]

    def take_failures(self) -> list[Failure]:
        """The messages that were refused or lost since the last call, in the order in which that became known."""
        failures, self._failures = self._failures, []
        return failures

    def fail(self, reason: str) -> None:
        """Settles everything outstanding: nobody will take it. What was sent may have arrived, the rest is refused."""
        self._void_bytes += self._wire_bytes
        for run in (*self._wire, *self._runs):
            if run.was_sent:
                self._lose(run)
            else:
                self.refused += len(run.bodies)
                self._fail(run, reason)
                self.refusal = reason
        self._clear()

    def abandon(self) -> None:
        """Settles everything outstanding as lost: nobody will acknowledge it any more."""
        for run in (*self._wire, *self._runs):
            self._lose(run)
        self._clear()

    def close(self) -> None:
        """The connection is gone; the next one decides what becomes of the messages that were on the wire."""
        self._credit = self._credit_full = 0
        self._rewound = None
        self.is_resting = False
        self.held_back, self.window_bytes = "", 0
        self._measure()

    def _clear(self) -> None:
        self._wire.clear()
        self._wire_bytes = 0
        self._queue([])
        self._due_ms, self._asks = None, False

    def _queue(self, runs: Iterable[_Run]) -> None:
        self._runs = deque(runs)
        self.queued_bytes = sum(run.size for run in self._runs)
        self._measure()

    def _lose(self, run: _Run) -> None:
        self.lost += len(run.bodies)
        self._fail(run, "")

    def _fail(self, run: _Run, reason: str) -> None:
        placed = enumerate(run.bodies, start=run.first - self._before)
        self._failures += [Failure(self.pubend, place, body, reason) for place, body in placed]

    def _measure(self) -> None:
        """Notes how much may be queued, after a change of the credit, the window, or what is outstanding."""
        self._room = min(self._credit, self._window_left()) - self.queued_bytes

    def _take_run(self) -> _Run | None:
        """The first messages for which there is credit: usually the whole run."""
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
        return self.window_bytes - self._wire_bytes if self.window_bytes else self._credit

    def _window_is_empty(self) -> bool:
        if self._wire or not self._credit_full:
            return False
        # A window narrower than a message lets one go at a time, if there is credit for the window at all.
        return self._credit >= self._credit_full or 0 < self.window_bytes <= self._credit

    def check_invariants(self) -> None:
        """Fails if the numbers do not add up."""
        outstanding = [*self._wire, *self._runs]
        assert self.queued_bytes == sum(run.size for run in self._runs)
        assert self._room == min(self._credit, self._window_left()) - self.queued_bytes
        assert self._wire_bytes == sum(run.size for run in self._wire)
        assert all(run.size == sum(map(len, run.bodies)) and run.bodies for run in outstanding)
        assert all(one.last < other.first for one, other in pairwise(outstanding))
        assert self.acknowledged + self.lost + self.refused + _count(outstanding) == self.published
        assert (self._due_ms is None) == (not self._runs)
        assert self.settled <= self.published


def _count(runs: Iterable[_Run]) -> int:
    return sum(len(run.bodies) for run in runs)
