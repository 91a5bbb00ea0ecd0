"""Simulated clients: publish within their credit, record what they receive, come back after a loss and subscribe again.

Service is best effort: what was sent and not acknowledged when a connection broke is counted, and not sent again.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from penstock.broker.frames import (
    PROTOCOL_VERSION,
    ControlFrame,
    Deliver,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    PubendNames,
    Publish,
    PublishAck,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.broker.outbox import Outbox
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource
from penstock.model.values import Attributes
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.link import End
from penstock.sim.records import Delivery, Published, SubscriptionRecord
from penstock.sim.trace import Trace

__all__ = ["SimClient"]

_BATCH_BYTES: Final = 64 * 1024
_OUTBOX_BYTES: Final = 64 * 1024 * 1024
_SILENT_BEATS: Final = 5
"""A broker that was not heard for so many heartbeats is given up."""


class SimClient:
    """An application at the edge of the overlay: publisher, subscriber, or both."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        trace: Trace,
        host: Host,
        overlay: str = "",
        credential: str = "",
        backlog_max: int = 100_000,
        deliveries_max: int = 5_000_000,
    ) -> None:
        """Make a client; messages beyond the backlog's and deliveries beyond the record's limit are only counted."""
        self.name, self.host = name, host
        self._clock, self._trace = clock, trace
        self._overlay, self._credential = overlay, credential
        self._backlog_max, self._deliveries_max = backlog_max, deliveries_max
        self.is_up = True
        self.published: list[Published] = []
        """What it sent, in order."""
        self.deliveries: list[Delivery] = []
        """What it received, in order."""
        self.subscriptions: dict[int, SubscriptionRecord] = {}
        """All its subscriptions by number, also those it gave up."""
        self.goodbyes: list[Goodbye] = []
        """What brokers said when they ended its connections."""
        self.welcomes = self.acknowledged = self.unconfirmed = self.refused = self.dropped = self.unrecorded = 0
        self.wanted: dict[int, str] = {}
        """The selectors of the subscriptions it wants now, by number."""
        self._backlog: deque[Message] = deque()
        # The batches that are not acknowledged: last sequence number, place in the record, messages.
        self._batches: deque[tuple[int, int, int]] = deque()
        self._end: End | None = None
        self._welcome: Welcome | None = None
        self._ids: MessageIdSource | None = None
        self._made: bytes | None = None
        self._outbox = _new_outbox()
        self._credit_bytes = self._sent = self._received_acks = 0
        self._said_us = self._heard_us = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            Deliver: self._on_deliver,
            PublishAck: self._on_ack,
            Welcome: self._on_welcome,
            Subscribed: self._on_subscribed,
            Unsubscribed: self._on_unsubscribed,
            Refused: self._on_refused,
            Goodbye: self._on_goodbye,
            Heartbeat: _ignore,
            PubendNames: _ignore,
        }

    # --- what applications do

    @property
    def is_connected(self) -> bool:
        """Whether a broker has welcomed it, and the connection stands as far as it knows."""
        return self._welcome is not None

    @property
    def is_ready(self) -> bool:
        """Whether it is connected and all its subscriptions are in force."""
        return self.is_connected and all(self.subscriptions[number].is_confirmed for number in self.wanted)

    @property
    def backlog(self) -> int:
        """Messages that wait for a connection or for credit."""
        return len(self._backlog)

    def subscribe(self, selector: str) -> int:
        """Ask for messages, now and after every reconnect; answers with the number of the subscription."""
        number = len(self.subscriptions) + 1
        self.subscriptions[number] = SubscriptionRecord(number, selector)
        self.wanted[number] = selector
        if self._welcome is not None:
            self._say(Subscribe(number, selector))
        return number

    def unsubscribe(self, number: int) -> None:
        """Give a subscription up."""
        del self.wanted[number]
        self.subscriptions[number].end(self._clock.now_us)
        if self._welcome is not None:
            self._say(Unsubscribe(number))

    def publish(self, attributes: Attributes, payload: bytes = b"") -> None:
        """Publish a message, as soon as connection and credit allow."""
        if len(self._backlog) >= self._backlog_max:
            self.dropped += 1
            return
        self._backlog.append(Message(attributes, payload))
        self._flush()

    def leave(self) -> None:
        """Say goodbye and go for good."""
        self.is_up = False
        end = self._end
        if end is not None:
            self._say(Goodbye("leaving", "the client is done"))
            self._disconnected()
            end.close()

    # --- what the link says

    def on_connected(self, end: End, *, dialled: str) -> None:
        """Introduce itself to the broker it dialled."""
        self._note(f"reaches {dialled}")
        self._end, self._outbox = end, _new_outbox()
        self._heard_us = self._clock.now_us
        end.attach(self._outbox)
        self._say(Hello(PROTOCOL_VERSION, "client", self.name, self._overlay, credential=self._credential))
        self._beat_after(end, 1_000)

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Take what the broker says, in order."""
        self._heard_us = self._clock.now_us
        handlers = self._handlers
        for frame in frames:
            if self._end is not end:
                return
            handler = handlers.get(type(frame))
            assert handler is not None, f"a {type(frame).__name__} is not for clients"
            handler(frame)

    def on_lost(self, end: End) -> None:
        """Forget the connection; the link dials again."""
        if end is self._end:
            self._note("loses its broker")
            self._disconnected()

    # --- what the broker says

    def _on_welcome(self, welcome: Welcome) -> None:
        self._note(f"is welcomed by {welcome.broker} as {welcome.publisher}")
        self.welcomes += 1
        self._welcome = welcome
        self._credit_bytes = welcome.credit_bytes
        self._sent = self._received_acks = 0
        self._ids = MessageIdSource(welcome.publisher, welcome.broker_number)
        self._ids.adjust(welcome.now_ms - self._clock.now_ms)
        for number, selector in self.wanted.items():
            self._say(Subscribe(number, selector))
        self._flush()

    def _on_subscribed(self, frame: Subscribed) -> None:
        self._note(f"is subscribed {frame.number} pending {len(frame.pending)}")
        if frame.number in self.wanted:
            record = self.subscriptions[frame.number]
            record.granted, record.pending = frame.selector, frame.pending
            record.begin(self._clock.now_us)

    def _on_unsubscribed(self, frame: Unsubscribed) -> None:
        self.subscriptions[frame.number].gone_us = self._clock.now_us

    def _on_refused(self, frame: Refused) -> None:
        self._note(f"is refused {frame.request} {frame.number}: {frame.reason}")
        self.refused += 1
        if frame.request == "publish":
            self._refuse_batch(frame.number)
        elif frame.request == "subscribe":
            self.subscriptions[frame.number].refused = frame.reason
            self.wanted.pop(frame.number, None)

    def _on_goodbye(self, frame: Goodbye) -> None:
        self._note(f"is told goodbye: {frame.code}")
        self.goodbyes.append(frame)
        end = self._end
        assert end is not None
        self._disconnected()
        end.close()

    def _on_ack(self, frame: PublishAck) -> None:
        assert self._received_acks <= frame.sequence <= self._sent, f"acknowledged {frame.sequence} of {self._sent}"
        self.acknowledged += frame.sequence - self._received_acks
        self._received_acks = frame.sequence
        while self._batches and self._batches[0][0] <= frame.sequence:
            self._batches.popleft()
        self._credit_bytes += frame.credit_bytes
        if self._backlog:
            self._flush()

    def _on_deliver(self, frame: Deliver) -> None:
        now_us = self._clock.now_us
        for number in _numbers(frame.numbers):
            if len(self.deliveries) < self._deliveries_max:
                self.deliveries.append(Delivery(now_us, number, frame.pubend, frame.tick, frame.body))
            else:
                self.unrecorded += 1
        self._trace.note(now_us, self.name, f"gets {frame.tick} for {frame.numbers.hex()}")

    # --- inside

    def _flush(self) -> None:
        while self._backlog and self._welcome is not None:
            bodies = self._next_bodies()
            if not bodies:
                return
            first = self._sent + 1
            self._sent += len(bodies)
            self._batches.append((self._sent, len(self.published), len(bodies)))
            self._said_us = now_us = self._clock.now_us
            self.published += [Published(now_us, body) for body in bodies]
            self._trace.note(now_us, self.name, f"publishes {first} to {self._sent}")
            self._outbox.push_data(Publish(first, bodies))
            assert self._end is not None
            self._end.wake()

    def _next_bodies(self) -> list[bytes]:
        """Bodies for the next frame, as far as the credit goes; a message beyond any credit waits for all of it."""
        assert self._welcome is not None
        bodies: list[bytes] = []
        room = _BATCH_BYTES
        while self._backlog and room > 0:
            body = self._made = self._made or self._body(self._backlog[0])
            is_whole = self._credit_bytes >= self._welcome.credit_bytes
            if len(body) > self._credit_bytes and not is_whole:
                break
            self._backlog.popleft()
            self._made = None
            self._credit_bytes -= len(body)
            room -= len(body)
            bodies.append(body)
        return bodies

    def _refuse_batch(self, last: int) -> None:
        for sequence, place, count in self._batches:
            if sequence == last:
                refused = [each._replace(is_refused=True) for each in self.published[place : place + count]]
                self.published[place : place + count] = refused

    def _body(self, message: Message) -> bytes:
        assert self._ids is not None
        return encode_body(self._ids.next(self._clock.now_ms), message)

    def _say(self, frame: ControlFrame) -> None:
        assert self._end is not None
        self._said_us = self._clock.now_us
        if not self._outbox.push_control(frame):
            self.dropped += 1
        self._end.wake()

    def _disconnected(self) -> None:
        self.unconfirmed += self._sent - self._received_acks
        self._end = self._welcome = self._ids = self._made = None
        self._sent = self._received_acks = 0
        self._batches.clear()
        for record in self.subscriptions.values():
            record.end(self._clock.now_us)

    def _beat_after(self, end: End, beat_ms: int) -> None:
        self._clock.after(beat_ms * 1_000, lambda: self._beat(end, beat_ms))

    def _beat(self, end: End, beat_ms: int) -> None:
        if end is not self._end:
            return
        now_us = self._clock.now_us
        if now_us - self._heard_us >= _SILENT_BEATS * beat_ms * 1_000:
            self._note("hears nothing any more")
            self._disconnected()
            end.abort(loud=False)
            return
        if self._welcome is not None:
            beat_ms = self._welcome.heartbeat_ms
            if now_us - self._said_us >= beat_ms * 1_000:
                self._say(Heartbeat(self._clock.now_ms))
        self._beat_after(end, beat_ms)

    def _note(self, what: str) -> None:
        self._trace.note(self._clock.now_us, self.name, what)


def _new_outbox() -> Outbox:
    return Outbox(control_bytes_max=_OUTBOX_BYTES, data_bytes_max=_OUTBOX_BYTES)


@lru_cache(maxsize=4_096)
def _numbers(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(packed) // 4}I", packed)


def _ignore(_: object) -> None:
    """For frames that a client may hear and need not act upon."""
