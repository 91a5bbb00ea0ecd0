"""Simulated clients: publish, record what they receive, come back after a loss and go on where they were.

They believe whatever the broker says, and drop nothing that comes twice: what is wrong with it the checkers find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.broker.frames import (
    PROTOCOL_VERSION,
    ControlFrame,
    Deliver,
    Frame,
    Goodbye,
    Heartbeat,
    HeldBack,
    Hello,
    Horizons,
    Lost,
    PubendNames,
    PublishAck,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.broker.outbox import Outbox
from penstock.model.message import Message
from penstock.model.values import Attributes
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.link import End
from penstock.sim.positions import Positions, unpacked
from penstock.sim.publishing import Publishing
from penstock.sim.records import Delivery, Published, SubscriptionRecord
from penstock.sim.trace import Trace

__all__ = ["LostTicks", "SimClient"]

_OUTBOX_BYTES: Final = 64 * 1024 * 1024
_SILENT_BEATS: Final = 5
"""A broker that was not heard for so many heartbeats is given up."""


class LostTicks(NamedTuple):
    """What a broker said will never be known."""

    received_us: int
    pubend: str
    first: int
    last: int
    numbers: tuple[int, ...]
    """The subscriptions that may miss something."""


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
        self._deliveries_max = deliveries_max
        self.is_up = True
        self.deliveries: list[Delivery] = []
        """What it received, in order."""
        self.subscriptions: dict[int, SubscriptionRecord] = {}
        """All its subscriptions by number, also those it gave up."""
        self.goodbyes: list[Goodbye] = []
        """What brokers said when they ended its connections."""
        self.lost: list[LostTicks] = []
        """What brokers said is lost."""
        self.held_back = ""
        """Why it has to wait with publishing, as the broker says."""
        self.holds: list[str] = []
        """All the reasons to wait that it was ever given."""
        self.welcomes = self.refused = self.unrecorded = 0
        self.wanted: dict[int, str] = {}
        """The selectors of the subscriptions it wants now, by number."""
        self.publishing = Publishing(name, clock, backlog_max=backlog_max)
        self._positions = Positions(self.subscriptions, self.wanted)
        self._end: End | None = None
        self._welcome: Welcome | None = None
        self._outbox = _new_outbox()
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
            PubendNames: lambda frame: self._positions.learn(frame.names),
            Horizons: self._on_horizons,
            HeldBack: self._on_held_back,
            Lost: self._on_lost_ticks,
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
    def published(self) -> list[Published]:
        """What it sent, in order; each once, however often it was sent."""
        return self.publishing.published

    @property
    def acknowledged(self) -> int:
        """Messages that a broker has taken over."""
        return self.publishing.acknowledged

    @property
    def unconfirmed(self) -> int:
        """Messages that were on the wire when a connection broke, and not sent again."""
        return self.publishing.unconfirmed

    @property
    def unsettled(self) -> int:
        """Messages that were sent, and will be again until they are acknowledged."""
        return self.publishing.unsettled

    @property
    def backlog(self) -> int:
        """Messages that wait for a connection or for credit, to be sent for the first time."""
        return len(self.publishing.backlog)

    @property
    def dropped(self) -> int:
        """Messages beyond the limit of the backlog."""
        return self.publishing.dropped

    def subscribe(self, selector: str, start: Mapping[str, int] | None = None) -> int:
        """Ask for messages, now and after every reconnect; answers with the number of the subscription.

        It begins at these ticks, by pubend, and with what is published from now on where none is stated.
        """
        number = len(self.subscriptions) + 1
        self.subscriptions[number] = SubscriptionRecord(number, selector, asked=dict(start or {}))
        self.wanted[number] = selector
        if self._welcome is not None:
            self._say(Subscribe(number, selector, positions=self._positions.stated(number)))
        return number

    def unsubscribe(self, number: int) -> None:
        """Give a subscription up."""
        del self.wanted[number]
        record = self.subscriptions[number]
        record.end(self._clock.now_us)
        record.ended_us = self._clock.now_us
        if self._welcome is not None:
            self._say(Unsubscribe(number))

    def publish(self, attributes: Attributes, payload: bytes = b"", pubend: str = "") -> None:
        """Publish a message, as soon as connection and credit allow; to a pubend, or to one of the broker's choice."""
        self.publishing.add(Message(attributes, payload), pubend)
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
        self._positions.connect()
        self._say(
            Hello(
                PROTOCOL_VERSION,
                "client",
                self.name,
                self._overlay,
                credential=self._credential,
                publisher=self.publishing.publisher,
            )
        )
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
        self.publishing.connect(welcome)
        for number, selector in self.wanted.items():
            resumes = bool(self.subscriptions[number].periods)
            self._say(Subscribe(number, selector, positions=self._positions.stated(number), resumes=resumes))
        self._flush()

    def _on_subscribed(self, frame: Subscribed) -> None:
        self._note(f"is subscribed {frame.number} pending {len(frame.pending)}")
        if frame.number in self.wanted:
            record = self.subscriptions[frame.number]
            record.granted, record.pending = frame.selector, frame.pending
            record.begin(self._clock.now_us)
            self._positions.on_subscribed(frame, self._clock.now_us)

    def _on_unsubscribed(self, frame: Unsubscribed) -> None:
        self.subscriptions[frame.number].gone_us = self._clock.now_us

    def _on_refused(self, frame: Refused) -> None:
        self._note(f"is refused {frame.request} {frame.number}: {frame.reason}")
        self.refused += 1
        if frame.request == "publish":
            self.publishing.on_refused(frame.number)
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
        self.publishing.on_ack(frame)
        self._flush()

    def _on_deliver(self, frame: Deliver) -> None:
        now_us = self._clock.now_us
        pubend = self._positions.name(frame.pubend)
        for number in unpacked(frame.numbers):
            if number in self.subscriptions and number not in self.wanted:
                # Given up meanwhile: the broker's word that nothing follows may overtake what it had queued before.
                continue
            self._positions.on_deliver(number, pubend, frame.tick)
            if len(self.deliveries) < self._deliveries_max:
                self.deliveries.append(Delivery(now_us, number, pubend, frame.tick, frame.body))
            else:
                self.unrecorded += 1
        self._trace.note(now_us, self.name, f"gets {frame.tick} for {frame.numbers.hex()}")

    def _on_horizons(self, frame: Horizons) -> None:
        acknowledgement = self._positions.on_horizons(frame)
        if acknowledgement is not None:
            self._say(acknowledgement)

    def _on_held_back(self, frame: HeldBack) -> None:
        self._note(f"is held back: {frame.reason}" if frame.reason else "is held back no more")
        self.held_back = frame.reason
        if frame.reason:
            self.holds.append(frame.reason)

    def _on_lost_ticks(self, frame: Lost) -> None:
        pubend = self._positions.name(frame.pubend)
        lost = LostTicks(self._clock.now_us, pubend, frame.first, frame.last, frame.numbers)
        self._note(f"is told that {lost.pubend} {lost.first} to {lost.last} are lost")
        self.lost.append(lost)

    # --- inside

    def _flush(self) -> None:
        while self._welcome is not None and (frame := self.publishing.next_frame()) is not None:
            self._said_us = now_us = self._clock.now_us
            self._trace.note(now_us, self.name, f"publishes {frame.first}, {len(frame.bodies)} messages")
            self._outbox.push_data(frame)
            assert self._end is not None
            self._end.wake()

    def _say(self, frame: ControlFrame) -> None:
        assert self._end is not None
        self._said_us = self._clock.now_us
        self._outbox.push_control(frame)
        self._end.wake()

    def _disconnected(self) -> None:
        self.publishing.disconnect()
        self._end = self._welcome = None
        self.held_back = ""
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


def _ignore(_: object) -> None:
    """For frames that a client may hear and need not act upon."""
