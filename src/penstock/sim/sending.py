"""Publishes for a simulated application as fast as its session takes messages, and records the outcome of each."""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.model.message import Message
from penstock.protocol.frames import Publish, Welcome
from penstock.session.session import Session
from penstock.sim.clock import Clock
from penstock.sim.records import Published

__all__ = ["Sending"]

_BACKLOG_MAX: Final = 100_000


class Sending:
    """The messages that one client has published or wants to publish."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backlog_max = _BACKLOG_MAX
        self.backlog: deque[tuple[Message, str]] = deque()
        """Messages that the session has no room for yet, each with its pubend."""
        self._made: bytes | None = None
        """The first message of the backlog, with the identifier that it keeps while it waits, over connections too."""
        self.published: list[Published] = []
        """Messages handed to the session, in order; the index of each is its sequence number minus one."""
        self._sent = self._settled = 0
        self.acknowledged = self.unconfirmed = self.dropped = 0

    def add(self, message: Message, pubend: str) -> None:
        """Publish a message as soon as possible; beyond the limit of the backlog it is counted and dropped."""
        if len(self.backlog) >= self._backlog_max:
            self.dropped += 1
        else:
            self.backlog.append((message, pubend))

    def flush(self, session: Session) -> None:
        """Hand messages over while the session has room."""
        queue, now_ms = session.publishing, self._clock.now_ms
        while self.backlog and session.is_up and queue.has_room(1):
            message, pubend = self.backlog[0]
            if self._made is None:
                self._made = session.identify(message, wall_ms=now_ms)[1]
            if not queue.has_room(len(self._made)):
                return
            assert session.welcome is not None
            body, self._made = self._made, None
            self.backlog.popleft()
            session.publish(body, pubend, now_ms=now_ms)
            self.published.append(_record(self._clock.now_us, body, pubend, session.welcome, queue.published))

    def on_sent(self, frame: Publish) -> None:
        """Note messages that are sent, for the first time or again."""
        last = frame.first + len(frame.bodies) - 1
        for each in self.published[max(self._sent, frame.first - 1) : last]:
            each.sent_us = self._clock.now_us
        self._sent = max(self._sent, last)

    def on_ack(self, sequence: int) -> None:
        """Note that the broker has taken over everything up to this number that was not refused or given up."""
        assert sequence <= self._sent, f"acknowledged {sequence} of {self._sent}"
        for each in self.published[self._settled : sequence]:
            if not each.is_refused and not each.is_unconfirmed:
                each.acked_us = self._clock.now_us
                self.acknowledged += 1
        self._settled = max(self._settled, sequence)

    def collect(self, session: Session) -> None:
        """Record which messages were refused or may be lost."""
        for failure in session.publishing.take_failures():
            each = self.published[failure.number - 1]
            assert each.body == failure.body
            if failure.reason:
                each.is_refused = True
            else:
                each.is_unconfirmed = True
                self.unconfirmed += 1


def _record(now_us: int, body: bytes, pubend: str, welcome: Welcome, sequence: int) -> Published:
    candidates = (pubend,) if pubend else welcome.pubends
    return Published(
        now_us,
        body,
        pubend=pubend,
        sequence=sequence,
        is_guaranteed=any(each not in welcome.best_effort for each in candidates),
        candidates=candidates,
    )
