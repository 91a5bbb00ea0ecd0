"""Simulated clients: publish, record what they receive, come back after a loss and go on where they were.

They believe whatever the broker says, and drop nothing that comes twice: what is wrong with it the checkers find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.model.message import Message
from penstock.model.values import Attributes
from penstock.protocol import frames as f
from penstock.protocol.frames import LATEST, PROTOCOL_VERSION, ControlFrame, Deliver, Frame, Missing
from penstock.sim.clock import Clock
from penstock.sim.host import Host
from penstock.sim.line import Line
from penstock.sim.link import End
from penstock.sim.moving import Moving
from penstock.sim.positions import unpacked
from penstock.sim.publishing import Publishing
from penstock.sim.records import Delivery, LostTicks, Published, SubscriptionRecord
from penstock.sim.subscribing import Subscribing
from penstock.sim.trace import Trace

__all__ = ["SimClient"]

_BACKLOG_MAX: Final = 100_000


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
        self.clock, self._trace = clock, trace
        self._overlay, self._credential = overlay, credential
        self._deliveries_max = deliveries_max
        self.is_up = True
        self.deliveries: list[Delivery] = []
        """What it received, in order."""
        self.subscribing = Subscribing(clock, given_up)
        self.subscriptions = self.subscribing.records
        """All its subscriptions by number, also those it gave up."""
        self.wanted = self.subscribing.wanted
        """The selectors of the subscriptions it wants now, by number."""
        self.goodbyes: list[f.Goodbye] = []
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
        self._positions = self.subscribing.positions
        self.line: Line | None = None
        """Its connection, if there is one."""
        self.moving = Moving(self)
        self._handlers: dict[type, Callable[[Any], None]] = {
            Deliver: self._on_deliver,
            f.PublishAck: self._on_ack,
            f.Welcome: self._on_welcome,
            f.Subscribed: self._on_subscribed,
            f.Unsubscribed: self._on_unsubscribed,
            f.Refused: self._on_refused,
            f.Goodbye: self._on_goodbye,
            f.Heartbeat: _ignore,
            f.PubendNames: lambda frame: self._positions.learn(frame.names),
            f.Horizons: self._on_horizons,
            f.HeldBack: self._on_held_back,
            f.Forgotten: self._on_forgotten,
            f.Lost: self._on_lost_ticks,
            f.Migrate: self.moving.on_order,
        }

    # --- what applications do

    @property
    def is_connected(self) -> bool:
        """Whether a broker has welcomed it, and the connection stands as far as it knows."""
        return self.line is not None and self.line.welcome is not None

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
        self.subscribing.add(record)
        if self.line is not None and self.line.welcome is not None:
            self._say(self.subscribing.ask_for(record, self.line.welcome.broker))
        return number

    def unsubscribe(self, number: int) -> None:
        """Give a subscription up."""
        self.subscribing.give_up(number)
        self.moving.withdraw(number)
        if self.is_connected:
            self._say(f.Unsubscribe(number))

    def forget(self, durable: str) -> None:
        """Ask that a durable name be forgotten; without a connection, nothing comes of it."""
        if self.is_connected:
            self.forgets += 1
            self.forgetting[self.forgets] = durable
            self._say(f.Forget(self.forgets, durable))

    def publish(self, attributes: Attributes, payload: bytes = b"", pubend: str = "") -> None:
        """Publish a message, as soon as connection and credit allow; to a pubend, or to one of the broker's choice."""
        self.publishing.add(Message(attributes, payload), pubend)
        self._flush()

    def drop(self, *, loud: bool) -> None:
        """Lose the connection, if there is one; loud: the broker is told by the network."""
        self.moving.drop(loud=loud)
        line = self.line
        if line is not None:
            self.note("drops its connection")
            self._disconnected()
            line.end.abort(loud=loud)

    def die(self, *, loud: bool) -> None:
        """End the process: subscriptions, positions and what was not acknowledged are forgotten with it."""
        self.note("dies")
        self.is_up = False
        self.deaths += 1
        for number in list(self.wanted):
            self.subscribing.give_up(number)
        self.drop(loud=loud)

    def leave(self) -> None:
        """Say goodbye and go for good."""
        self.is_up = False
        self.moving.drop(loud=True)
        line = self.line
        if line is not None:
            self._say(f.Goodbye("leaving", "the client is done"))
            self._disconnected()
            line.end.close()

    # --- what the link says

    def on_connected(self, end: End, *, dialled: str) -> None:
        """Introduce itself to the broker it dialled."""
        self.note(f"reaches {dialled}")
        if self.moving.on_connected(end, dialled):
            return
        self._positions.connect()
        self.line = Line(self.clock, end, on_silent=lambda: self.on_silent(end))
        self._say(self.hello())

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Take what the broker says, in order."""
        line, handlers = self.line, self._handlers
        if line is None or line.end is not end:
            self.moving.on_frames(end, frames)
            return
        line.hear()
        for turn, frame in enumerate(frames):
            if self.line is not line:
                self.moving.on_frames(end, frames[turn:])
                return
            handler = handlers.get(type(frame))
            assert handler is not None, f"a {type(frame).__name__} is not for clients"
            handler(frame)
        if self.is_connected:
            for acknowledgement in self._positions.durable_acknowledgements(self.clock.now_us):
                self._say(acknowledgement)

    def on_lost(self, end: End) -> None:
        """Forget the connection; the link dials again."""
        if self.line is not None and end is self.line.end:
            self.note("loses its broker")
            self._disconnected()
        else:
            self.moving.on_lost(end)

    # --- what the broker says

    def _on_welcome(self, welcome: f.Welcome) -> None:
        self.note(f"is welcomed by {welcome.broker} as {welcome.publisher}")
        self.welcomes += 1
        assert self.line is not None
        self.line.welcome = welcome
        self.publishing.connect(welcome)
        for number in self.wanted:
            self._say(self.subscribing.ask_for(self.subscriptions[number], welcome.broker))
        self._flush()

    def _on_subscribed(self, frame: f.Subscribed) -> None:
        self.note(f"is subscribed {frame.number} pending {len(frame.pending)}")
        self.subscribing.on_subscribed(frame)
        self.moving.on_ready(frame.number)

    def _on_unsubscribed(self, frame: f.Unsubscribed) -> None:
        self.subscriptions[frame.number].gone_us = self.clock.now_us

    def _on_refused(self, frame: f.Refused) -> None:
        self.note(f"is refused {frame.request} {frame.number}: {frame.reason}")
        self.refused += 1
        if frame.request == "publish":
            self._say(self.publishing.on_refused(frame.number, frame.count))
        elif frame.request == "forget":
            # Nobody knows the name, which is as good.
            self._on_forgotten(f.Forgotten(frame.number))
        elif frame.request == "subscribe" and not self.moving.explains(frame):
            self.subscribing.on_refused(frame.number, frame.reason)

    def _on_forgotten(self, frame: f.Forgotten) -> None:
        name = self.forgetting.pop(frame.number)
        if not frame.pending:
            self.forgotten[name] = self.clock.now_us

    def _on_goodbye(self, frame: f.Goodbye) -> None:
        self.note(f"is told goodbye: {frame.code}")
        self.goodbyes.append(frame)
        line = self.line
        assert line is not None
        self._disconnected()
        line.end.close()

    def _on_ack(self, frame: f.PublishAck) -> None:
        self.publishing.on_ack(frame)
        self._flush()

    def _on_deliver(self, frame: Deliver) -> None:
        now_us = self.clock.now_us
        pubend = self._positions.name(frame.pubend)
        for number in unpacked(frame.numbers):
            if number in self.subscriptions and number not in self.wanted:
                # Given up meanwhile: the broker's word that nothing follows may overtake what it had queued before.
                continue
            if not self.moving.takes(number, pubend, frame):
                self.record(number, pubend, frame)
        self._trace.note(now_us, self.name, f"gets {frame.tick} for {frame.numbers.hex()}")

    def _on_horizons(self, frame: f.Horizons) -> None:
        acknowledgement = self._positions.on_horizons(frame)
        if acknowledgement is not None:
            self._say(acknowledgement)

    def _on_held_back(self, frame: f.HeldBack) -> None:
        self.note(f"is held back: {frame.reason}" if frame.reason else "is held back no more")
        self.held_back, self.publishing.window_bytes = frame.reason, frame.window_bytes
        if frame.reason:
            self.holds.append(frame.reason)
        self._flush()

    def _on_lost_ticks(self, frame: f.Lost) -> None:
        pubend = self._positions.name(frame.pubend)
        lost = LostTicks(self.clock.now_us, pubend, frame.first, frame.last, frame.numbers)
        self.note(f"is told that {lost.pubend} {lost.first} to {lost.last} are lost")
        self.lost.append(lost)

    # --- what others need who carry out moves

    def hello(self, migration: int = 0, origin: str = "") -> f.Hello:
        """How it introduces itself."""
        return f.Hello(
            *(PROTOCOL_VERSION, "client", self.name, self._overlay),
            credential=self._credential,
            publisher=self.publishing.publisher,
            migration=migration,
            origin=origin,
            pinned=self.moving.is_pinned,
        )

    def record(self, number: int, pubend: str, frame: Deliver) -> None:
        """A message for one of its subscriptions."""
        if f.is_guaranteed_number(frame.pubend):
            self._positions.on_deliver(number, pubend, frame.tick)
        else:
            self._positions.loose[number, pubend] = frame.tick + 1
        if len(self.deliveries) < self._deliveries_max:
            self.deliveries.append(Delivery(self.clock.now_us, number, pubend, frame.tick, frame.body))
        else:
            self.unrecorded += 1

    def note(self, what: str) -> None:
        """Write something down in the trace."""
        self._trace.note(self.clock.now_us, self.name, what)

    def settle(self, line: Line) -> None:
        """Another connection takes the place of the one there is, or was."""
        self.publishing.disconnect()
        self.held_back = ""
        self.forgetting.clear()
        self.line = line
        assert line.welcome is not None
        self.publishing.connect(line.welcome)
        self._flush()

    # --- inside

    def _flush(self) -> None:
        while self.is_connected and (frame := self.publishing.next_frame()) is not None:
            self.note(f"publishes {frame.first}, {len(frame.bodies)} messages")
            assert self.line is not None
            self.line.carry(frame)

    def _say(self, frame: ControlFrame) -> None:
        assert self.line is not None
        self.line.say(frame)

    def on_silent(self, end: End) -> None:
        """A connection on which nothing is heard any more is given up."""
        if self.line is not None and self.line.end is end:
            self.note("hears nothing any more")
            self._disconnected()
            end.abort(loud=False)

    def _disconnected(self) -> None:
        assert self.line is not None
        self.line.is_over = True
        if self.moving.rescue():
            return
        self.publishing.disconnect()
        self.line = None
        self.held_back = ""
        self.forgetting.clear()
        self.subscribing.disconnect()


def _ignore(_: object) -> None:
    """For frames that a client may hear and need not act upon."""
