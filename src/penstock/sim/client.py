"""Simulated clients: publish, record what they receive, come back after a loss and go on where they were.

They believe whatever the broker says, and drop nothing that comes twice: what is wrong with it the checkers find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.broker.frames import (
    LATEST,
    PROTOCOL_VERSION,
    ControlFrame,
    Deliver,
    Forget,
    Forgotten,
    Frame,
    Goodbye,
    Heartbeat,
    HeldBack,
    Hello,
    Horizons,
    Lost,
    Missing,
    PubendNames,
    PublishAck,
    Refused,
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
from penstock.sim.positions import unpacked
from penstock.sim.publishing import Publishing
from penstock.sim.records import Delivery, LostTicks, Published, SubscriptionRecord
from penstock.sim.subscribing import Subscribing
from penstock.sim.trace import Trace

__all__ = ["SimClient"]

_BACKLOG_MAX: Final = 100_000
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
        deliveries_max: int = 5_000_000,
        given_up: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Make a client; messages beyond the backlog's and deliveries beyond the record's limit are only counted.

        What logs have given up for trimming, by pubend, is looked up when something begins or is refused.
        """
        self.name, self.host = name, host
        self._clock, self._trace = clock, trace
        self._overlay, self._credential = overlay, credential
        self._deliveries_max = deliveries_max
        self.is_up = True
        self.deliveries: list[Delivery] = []
        """What it received, in order."""
        self._subscribing = Subscribing(clock, given_up)
        self.subscriptions = self._subscribing.records
        """All its subscriptions by number, also those it gave up."""
        self.wanted = self._subscribing.wanted
        """The selectors of the subscriptions it wants now, by number."""
        self.goodbyes: list[Goodbye] = []
        """What brokers said when they ended its connections."""
        self.lost: list[LostTicks] = []
        """What brokers said is lost."""
        self.held_back = ""
        """Why it has to wait with publishing, as the broker says."""
        self.holds: list[str] = []
        """All the reasons to wait that it was ever given."""
        self.forgetting: dict[int, str] = {}
        """Durable names that it has asked to forget, by the number of the request, until it is answered."""
        self.forgotten: dict[str, int] = {}
        """Durable names that all pubends have forgotten, as it was told, and when."""
        self.welcomes = self.refused = self.unrecorded = self.deaths = self.forgets = 0
        self.publishing = Publishing(name, clock, backlog_max=_BACKLOG_MAX)
        self._positions = self._subscribing.positions
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
            Forgotten: self._on_forgotten,
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

    def subscribe(
        self,
        selector: str,
        start: Mapping[str, int] | None = None,
        *,
        otherwise: int = LATEST,
        missing: Missing = "fail",
        durable: str = "",
        habit: tuple[int, int] = (0, 1),
    ) -> int:
        """Ask for messages, now and after every reconnect; answers with the number of the subscription.

        It begins at these ticks, by pubend, and otherwise with what is published from now on, or where that is stated.
        A durable one acknowledges by habit: all but so many messages, at every so many opportunities.
        """
        number = len(self.subscriptions) + 1
        record = SubscriptionRecord(number, selector, dict(start or {}), otherwise=otherwise, missing=missing)
        record.durable, (record.lag, record.every) = durable, habit
        self._subscribing.add(record)
        if self._welcome is not None:
            self._say(self._subscribing.ask_for(record, self._welcome.broker))
        return number

    def unsubscribe(self, number: int) -> None:
        """Give a subscription up."""
        self._subscribing.give_up(number)
        if self._welcome is not None:
            self._say(Unsubscribe(number))

    def forget(self, durable: str) -> None:
        """Ask that a durable name be forgotten; without a connection, nothing comes of it."""
        if self._welcome is not None:
            self.forgets += 1
            self.forgetting[self.forgets] = durable
            self._say(Forget(self.forgets, durable))

    def publish(self, attributes: Attributes, payload: bytes = b"", pubend: str = "") -> None:
        """Publish a message, as soon as connection and credit allow; to a pubend, or to one of the broker's choice."""
        self.publishing.add(Message(attributes, payload), pubend)
        self._flush()

    def drop(self, *, loud: bool) -> None:
        """Lose the connection, if there is one; loud: the broker is told by the network."""
        end = self._end
        if end is not None:
            self._note("drops its connection")
            self._disconnected()
            end.abort(loud=loud)

    def die(self, *, loud: bool) -> None:
        """End the process: subscriptions, positions and what was not acknowledged are forgotten with it."""
        self._note("dies")
        self.is_up = False
        self.deaths += 1
        for number in list(self.wanted):
            self._subscribing.give_up(number)
        self.drop(loud=loud)

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
        if self._welcome is not None:
            for acknowledgement in self._positions.durable_acknowledgements(self._clock.now_us):
                self._say(acknowledgement)

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
        for number in self.wanted:
            self._say(self._subscribing.ask_for(self.subscriptions[number], welcome.broker))
        self._flush()

    def _on_subscribed(self, frame: Subscribed) -> None:
        self._note(f"is subscribed {frame.number} pending {len(frame.pending)}")
        self._subscribing.on_subscribed(frame)

    def _on_unsubscribed(self, frame: Unsubscribed) -> None:
        self.subscriptions[frame.number].gone_us = self._clock.now_us

    def _on_refused(self, frame: Refused) -> None:
        self._note(f"is refused {frame.request} {frame.number}: {frame.reason}")
        self.refused += 1
        if frame.request == "publish":
            self.publishing.on_refused(frame.number)
        elif frame.request == "forget":
            # Nobody knows the name, which is as good.
            self._on_forgotten(Forgotten(frame.number))
        elif frame.request == "subscribe":
            self._subscribing.on_refused(frame.number, frame.reason)

    def _on_forgotten(self, frame: Forgotten) -> None:
        name = self.forgetting.pop(frame.number)
        if not frame.pending:
            self.forgotten[name] = self._clock.now_us

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
        self.held_back, self.publishing.window_bytes = frame.reason, frame.window_bytes
        if frame.reason:
            self.holds.append(frame.reason)
        self._flush()

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
        self.forgetting.clear()
        self._subscribing.disconnect()

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
