"""Publishes for a simulated application as fast as its session takes messages, and records the outcome of each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from penstock.model.message import Message
from penstock.protocol.frames import Publish
from penstock.session.session import Session
from penstock.sim.clock import Clock
from penstock.sim.records import Published

__all__ = ["Sending"]

_BACKLOG_MAX: Final = 100_000


@dataclass(slots=True)
class _Stream:
    """The messages to one pubend."""

    published: list[Published] = field(default_factory=list)
    """In the order in which they were published."""
    numbered: dict[int, Published] = field(default_factory=dict)
    """By the numbers under which they were last sent."""
    acknowledged: int = 0
    """The number up to which everything was acknowledged."""


class Sending:
    """The messages that one client has published or wants to publish."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backlog_max = _BACKLOG_MAX
        self.backlog: deque[tuple[Message, str]] = deque()
        """Messages that the session has no room for yet, each with the pubend that was asked for."""
        self._made: bytes | None = None
        """The first message of the backlog, with the identifier that it keeps while it waits, over connections too."""
        self.published: list[Published] = []
        """Messages handed to the session, in order."""
        self._by_body: dict[bytes, Published] = {}
        self._streams: dict[str, _Stream] = {}
        self.acknowledged = self.unconfirmed = self.dropped = 0

    def add(self, message: Message, pubend: str) -> None:
        """Publish a message as soon as possible; beyond the limit of the backlog it is counted and dropped."""
        if len(self.backlog) >= self._backlog_max:
            self.dropped += 1
        else:
            self.backlog.append((message, pubend))

    def flush(self, session: Session) -> None:
        """Hand messages over while the session has room."""
        publishing, now_ms = session.publishing, self._clock.now_ms
        while self.backlog and session.is_up:
            message, wanted = self.backlog[0]
            queue = publishing.queue_for(wanted)
            if queue is None or not queue.has_room(1):
                return
            if self._made is None:
                self._made = session.identify(message, wall_ms=now_ms)[1]
            if not queue.has_room(len(self._made)):
                return
            body, self._made = self._made, None
            self.backlog.popleft()
            queue.put(body, now_ms=now_ms)
            is_guaranteed = publishing.places[queue.pubend].is_guaranteed
            made = Published(self._clock.now_us, body, queue.pubend, is_guaranteed, is_named=bool(wanted))
            self.published.append(made)
            self._by_body[body] = made
            self._streams.setdefault(queue.pubend, _Stream()).published.append(made)

    def on_sent(self, frame: Publish) -> None:
        """Note messages that are sent, for the first time or again."""
        numbered = self._streams[frame.pubend].numbered if frame.bodies else {}
        for number, body in enumerate(frame.bodies, start=frame.first):
            each = numbered[number] = self._by_body[body]
            if not each.was_sent:
                each.was_sent, each.sent_us = True, self._clock.now_us

    def on_ack(self, pubend: str, number: int) -> None:
        """Note that a pubend has taken over everything up to this number that was not given up."""
        stream = self._streams.get(pubend, _Stream())
        assert number in stream.numbered or number <= stream.acknowledged, f"a broker acknowledges message {number}"
        # Numbers of messages that were never sent on this connection, or refused before, need not be there.
        passed = range(stream.acknowledged + 1, number + 1)
        for each in [stream.numbered[one] for one in passed if one in stream.numbered]:
            if not each.is_refused and not each.is_unconfirmed:
                each.acked_us = self._clock.now_us
                self.acknowledged += 1
        stream.acknowledged = max(stream.acknowledged, number)

    def collect(self, session: Session) -> None:
        """Record which messages were refused or may be lost."""
        for failure in session.publishing.take_failures():
            each = self._streams[failure.pubend].published[failure.place - 1]
            assert each.body == failure.body
            assert not each.is_refused, f"message {failure.place} to {failure.pubend} is refused again"
            assert each.acked_us is None, f"message {failure.place} to {failure.pubend} was acknowledged before"
            if failure.reason:
                each.is_refused = True
            else:
                each.is_unconfirmed = True
                self.unconfirmed += 1
