"""The client's side of the protocol without any I/O: bytes and requests in, frames and changes out.

A session outlives its connections. Subscriptions are sent again on every new connection, under their old numbers and
with the positions they have come to. So are messages that waited, and those that were on the wire if the broker is
the same and recognises what it has: all connections of a session state the same publisher.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from penstock.broker.codec import FRAME_BYTES_MAX, FrameReader
from penstock.broker.errors import ProtocolError
from penstock.broker.frames import (
    PROTOCOL_VERSION,
    Acknowledge,
    Deliver,
    Forgotten,
    Frame,
    Goodbye,
    Heartbeat,
    HeldBack,
    Hello,
    Horizons,
    LogAnswer,
    Lost,
    PubendNames,
    PublishAck,
    Refused,
    StatusReply,
    Subscribed,
    SurveyReply,
    TraceReply,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.client.inbox import Inbox, Lag
from penstock.client.inboxes import Inboxes, subscribe_frame
from penstock.client.positions import LostTicks
from penstock.client.publishing import PublishQueue
from penstock.client.received import Received
from penstock.client.settings import ClientSettings
from penstock.client.wanted import Wanted
from penstock.model.body import encode_body
from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource

__all__ = ["SILENT_HEARTBEATS", "Answer", "Changes", "Reply", "Session"]

Reply: TypeAlias = StatusReply | Forgotten | SurveyReply | LogAnswer | TraceReply
Answer: TypeAlias = Reply | Refused
"""To a request that the application waits for; its number is that of the request."""

SILENT_HEARTBEATS: Final = 5
"""A connection on which nothing was heard for so many heartbeats is given up."""

_BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
_PUBEND_CHARS_MAX: Final = 100
_PUBLISHER_BYTES: Final = 16
_State: TypeAlias = Literal["down", "greeting", "up"]


@dataclass(slots=True)
class Changes:
    """What the shell has to pass on to the application, after some input."""

    inboxes: dict[int, Inbox] = field(default_factory=dict)
    """The subscriptions with messages or another state, by number."""
    answers: list[Answer] = field(default_factory=list)
    """Answers to what was asked, or the reasons why there is none."""
    missing: list[LostTicks] = field(default_factory=list)
    """What some subscription will never get."""
    publishing: bool = False
    """There may be room for messages, or some are settled."""
    welcome: Welcome | None = None
    goodbye: Goodbye | None = None
    lost: bool = False
    """The connection is gone."""


class Session:
    """One client's dealings with its brokers."""

    def __init__(
        self, settings: ClientSettings, *, name: str, token: str = "", overlay: str = "", publisher: bytes = b""
    ) -> None:
        publisher = publisher or secrets.token_bytes(_PUBLISHER_BYTES)
        self._hello = Hello(PROTOCOL_VERSION, "client", name, overlay, credential=token, publisher=publisher)
        self._state: _State = "down"
        self._reader = FrameReader()
        self._outgoing: list[Frame] = []
        self._inboxes = Inboxes(settings)
        self._pubends: dict[int, str] = {}
        self._ids: MessageIdSource | None = None
        self._last_id: MessageId | None = None
        self._last_question = 0
        self._heartbeat_ms = 0
        self._sent_ms = self._heard_ms = 0
        self.publishing: Final = PublishQueue(linger_ms=settings.linger_ms, batch_bytes=settings.batch_bytes)
        self.welcome: Welcome | None = None
        """What the broker said when it was connected last."""
        self.received = 0
        """Messages that were delivered to this client."""
        self.writable = True
        """Whether the shell can write; as long as it cannot, nothing is taken and batches grow."""
        self.held_back = ""
        """Why the broker lets its publishers wait; empty if it does not."""

    @property
    def is_up(self) -> bool:
        """Whether a broker has welcomed this client, and has not gone since."""
        return self._state == "up"

    @property
    def reading(self) -> bool:
        """Whether the shell should read from the socket: no subscription is too full."""
        return not self._inboxes.are_blocking

    @property
    def repeated(self) -> int:
        """Deliveries that were dropped because they had arrived before; a broker that keeps its word sends none."""
        return self._inboxes.repeated

    # What the application asks for.

    def subscribe(self, wanted: Wanted) -> Inbox:
        """A new subscription."""
        inbox = self._inboxes.add(wanted)
        if self.is_up:
            self._outgoing.append(subscribe_frame(inbox))
        return inbox

    def unsubscribe(self, inbox: Inbox, *, is_done: bool = False) -> None:
        """Withdraws a subscription; what waits in it is forgotten.

        What was read of a durable one is acknowledged before; what was read last, if the application is done with it.
        """
        if self.is_up:
            self._outgoing += self._last_words(inbox, is_done=is_done)
        inbox.withdraw()
        if inbox.is_over or inbox.state == "closing":
            return
        if self.is_up:
            self._inboxes.close(inbox)
            self._outgoing.append(Unsubscribe(inbox.number))
        else:
            self._inboxes.forget(inbox)
        self.on_taken(inbox)

    def identify(self, message: Message, *, wall_ms: int) -> tuple[MessageId, bytes]:
        """An identifier for a message that is to be published now, and the bytes of both."""
        assert self._ids is not None, "no broker has given this client a number yet"
        message_id = self._last_id = self._ids.next(wall_ms)
        body = encode_body(message_id, message)
        if len(body) > _BODY_BYTES_MAX:
            raise LimitError("the message's size in bytes", len(body), _BODY_BYTES_MAX)
        return message_id, body

    def publish(self, body: bytes, pubend: str, *, now_ms: int) -> bool:
        """Queues a message, for which there must be room; whether there is a batch to send."""
        if len(pubend) > _PUBEND_CHARS_MAX:
            raise LimitError("the name of the pubend, in characters,", len(pubend), _PUBEND_CHARS_MAX)
        self.publishing.put(body, pubend, now_ms=now_ms)
        return self.publishing.is_due(now_ms)

    def ask(self, question: Callable[[int], Frame]) -> int:
        """Asks the broker something that it answers by number; the number."""
        self._last_question += 1
        self.ask_again(question(self._last_question))
        return self._last_question

    def ask_again(self, question: Frame) -> None:
        """Asks the broker something that it was asked before on the same connection, with the same number."""
        assert self.is_up, "there is no broker to ask"
        self._outgoing.append(question)

    def on_taken(self, inbox: Inbox) -> bool:
        """The application took messages out of a full subscription; whether the shell should read again."""
        self._inboxes.on_taken(inbox)
        return self.reading

    def on_moved(self, inbox: Inbox) -> bool:
        """The application is done with messages of a durable subscription; whether the shell must look at the time."""
        return self._inboxes.reporting.on_moved(inbox)

    def lag(self, inbox: Inbox) -> dict[str, Lag]:
        """How far the application is behind each pubend."""
        return inbox.lag(self._inboxes.presents)

    def on_closing(self, *, is_done: bool) -> None:
        """This is the end: what was read of durable subscriptions is acknowledged; read last, if it is done with."""
        # The last words are few, and nothing follows that could wait for the transport instead.
        self.writable = True
        for inbox in self._inboxes:
            self._outgoing += self._last_words(inbox, is_done=is_done)

    # What the connection brings.

    def on_connected(self, *, now_ms: int) -> None:
        """There is a connection; the broker does not know who we are yet."""
        assert self._state == "down"
        self._state = "greeting"
        self.writable = True
        self._reader = FrameReader()
        self._outgoing = [self._hello]
        self._sent_ms = self._heard_ms = now_ms

    def on_data(self, data: bytes, *, now_ms: int, wall_ms: int) -> Changes:
        """Bytes from the broker; raises ``ProtocolError`` if they are not what a broker may say."""
        self._heard_ms = now_ms
        changes = Changes()
        inboxes, deliver, pubends = changes.inboxes, self._inboxes.deliver, self._pubends
        for frame in self._reader.feed(data):
            if type(frame) is Deliver:
                name = pubends.get(frame.pubend) or self._pubend(frame.pubend)
                deliver(frame.numbers, Received(name, frame.tick, frame.body), inboxes)
                self.received += 1
            elif self._state == "up":
                self._on_frame(frame, changes)
            else:
                self._on_greeting(frame, changes, wall_ms)
        if inboxes:
            self._inboxes.block_if_full(inboxes)
        if (acknowledge := self._inboxes.acknowledge()) is not None:
            self._outgoing.append(acknowledge)
        return changes

    def on_disconnected(self) -> Changes:
        """The connection is gone; what is to be said again will be said on the next one."""
        self._state = "down"
        self._outgoing = []
        self._pubends = {}
        self.held_back = ""
        self.publishing.on_disconnected()
        # All are woken: some may have got messages just before the connection broke.
        return Changes(publishing=True, lost=True, inboxes=self._inboxes.on_disconnected())

    # What is to be sent, and when.

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""
        if not self.writable:
            return []
        frames, self._outgoing = self._outgoing, []
        if self.is_up:
            frames += self._inboxes.reporting.take(now_ms=now_ms)
            frames += self.publishing.take(now_ms=now_ms)
            if not frames and now_ms >= self._sent_ms + self._heartbeat_ms:
                frames.append(Heartbeat(now_ms))
        if frames:
            self._sent_ms = now_ms
        return frames

    def next_deadline(self) -> int | None:
        """When to take frames, or to look whether the broker is still there."""
        if not self.is_up:
            return None
        deadlines = [self._silent_at_ms()] if self.reading else []
        if self.writable:
            deadlines.append(self._sent_ms + self._heartbeat_ms)
            wishes = self.publishing.next_deadline(), self._inboxes.reporting.next_deadline()
            deadlines += [each for each in wishes if each is not None]
        return min(deadlines, default=None)

    def is_silent(self, *, now_ms: int) -> bool:
        """Whether nothing was heard for so long that the connection must be given up."""
        # While the application does not read, neither do we: then silence is our own doing.
        return self.is_up and self.reading and now_ms >= self._silent_at_ms()

    def on_reading(self, *, now_ms: int) -> None:
        """The shell reads from the socket again; the silence until now does not count."""
        self._heard_ms = now_ms

    def _silent_at_ms(self) -> int:
        return self._heard_ms + SILENT_HEARTBEATS * self._heartbeat_ms

    def _on_greeting(self, frame: Frame, changes: Changes, wall_ms: int) -> None:
        if isinstance(frame, Goodbye):
            changes.goodbye = frame
            return
        if not isinstance(frame, Welcome):
            raise ProtocolError(f"the broker begins with {type(frame).__name__}, not with a welcome")
        if frame.version != PROTOCOL_VERSION or frame.heartbeat_ms <= 0 or frame.credit_bytes <= 0:
            raise ProtocolError(f"the broker's welcome is for another protocol: {frame}")
        before, self.welcome = self.welcome, frame
        changes.welcome = frame
        self._state = "up"
        self._heartbeat_ms = frame.heartbeat_ms
        after = self._last_id if self._last_id is not None and self._last_id.publisher == frame.publisher else None
        self._ids = MessageIdSource(frame.publisher, frame.broker_number, after=after)
        self._ids.adjust(frame.now_ms - wall_ms)
        self.publishing.on_welcome(
            credit_bytes=frame.credit_bytes, now_ms=self._heard_ms, recognises=_recognises(before, frame)
        )
        changes.publishing = True
        self._outgoing += self._inboxes.subscribes()

    def _on_frame(self, frame: Frame, changes: Changes) -> None:
        match frame:
            case PublishAck(sequence, credit_bytes):
                self.publishing.on_ack(sequence, credit_bytes)
                changes.publishing = True
            case PubendNames(names):
                self._pubends.update(names)
                self._inboxes.on_names(names)
            case Heartbeat():
                pass
            case Horizons():
                self._inboxes.on_horizons(frame, self._pubend(frame.pubend))
            case HeldBack(reason, window_bytes):
                self.held_back, self.publishing.window_bytes = reason, window_bytes
                changes.publishing = True
            case Lost(number, first, last, numbers):
                self._on_lost(LostTicks(self._pubend(number), first, last), numbers, changes)
            case Subscribed():
                self._on_subscribed(frame, changes)
            case Unsubscribed(number):
                self._end(number, changes)
            case Refused():
                self._on_refused(frame, changes)
            case StatusReply() | Forgotten() | SurveyReply() | LogAnswer() | TraceReply():
                changes.answers.append(frame)
            case Goodbye():
                changes.goodbye = frame
            case _:
                raise ProtocolError(f"a broker does not send {type(frame).__name__} to a client")

    def _on_subscribed(self, frame: Subscribed, changes: Changes) -> None:
        inbox = self._inboxes.get(frame.number)
        if inbox is not None and inbox.state in ("asked", "ready"):
            inbox.on_subscribed(frame.selector, frame.pending, frame.starts)
            if inbox.receipts is not None:
                self._inboxes.reporting.on_moved(inbox)
            changes.inboxes[inbox.number] = inbox

    def _on_lost(self, lost: LostTicks, numbers: tuple[int, ...], changes: Changes) -> None:
        if self._inboxes.on_lost(lost, numbers):
            changes.missing.append(lost)

    def _on_refused(self, frame: Refused, changes: Changes) -> None:
        if frame.request == "publish":
            self.publishing.on_refused(frame.number, frame.reason)
            changes.publishing = True
        elif frame.request in ("status", "forget", "read", "trace"):
            changes.answers.append(frame)
        elif (inbox := self._end(frame.number, changes)) is not None and frame.request == "subscribe":
            inbox.refuse(frame.reason)

    def _last_words(self, inbox: Inbox, *, is_done: bool) -> list[Acknowledge]:
        if inbox.receipts is not None and is_done:
            inbox.receipts.settle()
        return self._inboxes.reporting.last(inbox)

    def _end(self, number: int, changes: Changes) -> Inbox | None:
        inbox = self._inboxes.get(number)
        if inbox is not None:
            self._inboxes.forget(inbox)
            changes.inboxes[number] = inbox
        return inbox

    def _pubend(self, number: int) -> str:
        name = self._pubends.get(number)
        if name is None:
            raise ProtocolError(f"pubend number {number} has no name")
        return name

    def check_invariants(self) -> None:
        """Fails if the parts do not agree."""
        self.publishing.check_invariants()
        self._inboxes.check_invariants()


def _recognises(before: Welcome | None, now: Welcome) -> Callable[[str], bool]:
    """Which pubends recognise what was sent to them before this welcome, if it is sent again."""
    is_same = before is not None and (before.broker, before.overlay) == (now.broker, now.overlay)
    # Where the broker chooses, it must choose as before: what one pubend has, another does not recognise.
    chooses_alike = is_same and before is not None and before.pubends == now.pubends

    def recognises(pubend: str) -> bool:
        if pubend:
            return is_same and pubend not in now.best_effort
        return chooses_alike and not {*now.pubends} <= {*now.best_effort}

    return recognises
