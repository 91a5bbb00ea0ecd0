"""Messages on their way out: gathered into batches, and no more unacknowledged bytes than the broker gives credit for.

Every message has a position in the client's life and, once it is sent, a sequence number on its connection. What was on
the wire when a connection was lost is settled as lost (best effort: it may have arrived, so it is not sent again); what
still waited is sent on the next connection.
"""

from __future__ import annotations

from collections import deque

from penstock.broker.errors import ProtocolError
from penstock.broker.frames import Publish

__all__ = ["PublishQueue"]


class _Run:
    """Consecutive messages to one pubend that fit one frame."""

    __slots__ = ("bodies", "pubend", "size")

    def __init__(self, pubend: str) -> None:
        self.pubend = pubend
        self.bodies: list[bytes] = []
        self.size = 0


class PublishQueue:
    """The messages that wait to be sent, and the window of those that wait to be acknowledged.

    >>> queue = PublishQueue(linger_ms=1, batch_bytes=1000)
    >>> queue.on_welcome(credit_bytes=100)
    >>> queue.put(b"x" * 60, now_ms=5)
    >>> queue.has_room(60), queue.take(now_ms=5)
    (False, [])
    >>> [(frame.first, len(frame.bodies)) for frame in queue.take(now_ms=6)]
    [(1, 1)]
    >>> queue.on_ack(1, 60)
    >>> queue.has_room(60)
    True
    """

    def __init__(self, *, linger_ms: int, batch_bytes: int) -> None:
        self._linger_ms, self._batch_bytes = linger_ms, batch_bytes
        self._runs: deque[_Run] = deque()
        self._due_ms: int | None = None
        self._asks = False
        self._credit = self._credit_full = 0
        self._base = self._sent = self._acked = 0
        # First and last message of every frame on the wire: brokers refuse frame by frame.
        self._frames: deque[tuple[int, int]] = deque()
        self.queued_bytes = 0
        self.published = 0
        """Position of the newest message; also how many there were."""
        self.lost = 0
        """Messages that were on the wire when a connection was lost."""
        self.refused = 0
        """Messages that a broker refused."""
        self.refusal = ""
        """The reason of the last refusal."""

    @property
    def settled(self) -> int:
        """Position up to which every message was acknowledged, refused or lost."""
        return self._base + self._acked

    def has_room(self, size: int) -> bool:
        """Whether a message of this size may be put in; one that is larger than the window goes alone."""
        return size <= self._credit - self.queued_bytes or (not self.queued_bytes and self._window_is_empty())

    def put(self, body: bytes, pubend: str = "", *, now_ms: int) -> None:
        """Queues a message."""
        size = len(body)
        assert self.has_room(size), f"no room for {size} bytes"
        run = self._runs[-1] if self._runs else None
        if run is None or run.pubend != pubend or run.size + size > self._batch_bytes:
            run = _Run(pubend)
            self._runs.append(run)
        run.bodies.append(body)
        run.size += size
        self.queued_bytes += size
        self.published += 1
        if self._due_ms is None:
            self._due_ms = now_ms + self._linger_ms

    def hurry(self, *, now_ms: int) -> None:
        """What waits is due now, and the broker is asked to acknowledge it at once."""
        self._asks = self._sent > self._acked or bool(self._runs)
        if self._runs:
            self._due_ms = now_ms

    def next_deadline(self) -> int | None:
        """When to take the next batch; none if nothing waits, or nothing may be sent before an acknowledgement."""
        return self._due_ms if self._runs and self._may_send(len(self._runs[0].bodies[0])) else None

    def is_due(self, now_ms: int) -> bool:
        """Whether a batch is to be sent."""
        return self._due_ms is not None and (now_ms >= self._due_ms or self.queued_bytes >= self._batch_bytes)

    def take(self, *, now_ms: int) -> list[Publish]:
        """The frames to send now."""
        frames: list[Publish] = []
        while self.is_due(now_ms) and (bodies := self._take_bodies(self._runs[0])):
            run = self._runs[0]
            size = run.size if len(bodies) == len(run.bodies) else sum(map(len, bodies))
            frames.append(Publish(self._sent + 1, bodies, run.pubend))
            self._frames.append((self._sent + 1, self._sent + len(bodies)))
            self._sent += len(bodies)
            self._credit -= size
            self.queued_bytes -= size
            if bodies is run.bodies:
                self._runs.popleft()
            else:
                del run.bodies[: len(bodies)]
                run.size -= size
            if not self._runs:
                self._due_ms = None
        if self._asks and not self._runs and self._credit_full:
            # A frame without messages: acknowledge what you have.
            frames.append(Publish(self._sent + 1, []))
            self._asks = False
        return frames

    def on_welcome(self, *, credit_bytes: int) -> None:
        """A new connection: sequence numbers begin again, with this window."""
        assert self._sent == self._acked == 0, "the last connection has not been given up"
        self._credit = self._credit_full = credit_bytes

    def on_ack(self, sequence: int, credit_bytes: int) -> None:
        """The broker has taken over everything up to a sequence number, and gives credit back."""
        if sequence > self._sent or credit_bytes < 0:
            raise ProtocolError(f"message {sequence} is acknowledged, but only {self._sent} were sent")
        self._acked = max(self._acked, sequence)
        while self._frames and self._frames[0][1] <= sequence:
            self._frames.popleft()
        self._credit += credit_bytes
        assert self._acked <= self._sent

    def on_refused(self, sequence: int, reason: str) -> None:
        """The broker does not take the frame with this message; that it is done with it, an acknowledgement says."""
        if not 0 < sequence <= self._sent:
            raise ProtocolError(f"message {sequence} is refused, but only {self._sent} were sent")
        self.refused += next((last - first + 1 for first, last in self._frames if first <= sequence <= last), 1)
        self.refusal = reason

    def on_disconnected(self) -> None:
        """The connection is gone, and what was on the wire with it."""
        self.lost += self._sent - self._acked
        self._base += self._sent
        self._frames.clear()
        self._sent = self._acked = self._credit = self._credit_full = 0

    def _take_bodies(self, run: _Run) -> list[bytes]:
        """The first messages of the run for which there is credit: usually all."""
        if run.size <= self._credit:
            return run.bodies
        size, count = 0, 0
        for body in run.bodies:
            size += len(body)
            if size > self._credit:
                break
            count += 1
        if count == 0 and self._window_is_empty():
            count = 1
        return run.bodies if count == len(run.bodies) else run.bodies[:count]

    def _may_send(self, size: int) -> bool:
        return size <= self._credit or self._window_is_empty()

    def _window_is_empty(self) -> bool:
        return 0 < self._credit_full <= self._credit and self._sent == self._acked

    def check_invariants(self) -> None:
        """Fails if the numbers do not add up."""
        assert self.queued_bytes == sum(run.size for run in self._runs)
        assert all(run.size == sum(map(len, run.bodies)) and run.bodies for run in self._runs)
        assert self.published == self._base + self._sent + sum(len(run.bodies) for run in self._runs)
        assert (self._due_ms is None) == (not self._runs)
        assert self._acked <= self._sent
