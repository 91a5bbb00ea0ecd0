"""The client's side of the protocol without any I/O: bytes and requests in, frames and changes out.

A session outlives its connections. Subscriptions are sent again on every new connection, under their old numbers;
messages that waited are sent on it, messages that were on the wire are not.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from penstock.broker.codec import FRAME_BYTES_MAX, FrameReader
from penstock.broker.errors import ProtocolError
from penstock.broker.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    PubendNames,
    PublishAck,
    Refused,
    StatusReply,
    StatusRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.client.inbox import Inbox
from penstock.client.publishing import PublishQueue
from penstock.client.received import Received
from penstock.client.settings import ClientSettings
from penstock.model.body import encode_body
from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.model.message_id import MessageId, MessageIdSource

__all__ = ["SILENT_HEARTBEATS", "Changes", "Session"]

SILENT_HEARTBEATS: Final = 5
"""A connection on which nothing was heard for so many heartbeats is given up."""

_BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024
_PUBEND_CHARS_MAX: Final = 100
_NUMBER: Final = struct.Struct(">I")
_State: TypeAlias = Literal["down", "greeting", "up"]


@dataclass(slots=True)
class Changes:
    """What the shell has to pass on to the application, after some input."""

    inboxes: dict[int, Inbox] = field(default_factory=dict)
    """The subscriptions with messages or another state, by number."""
    statuses: list[tuple[int, bytes | str]] = field(default_factory=list)
    """Answers to requests for the broker's status, or the reasons why there is none."""
    publishing: bool = False
    """There may be room for messages, or some are settled."""
    welcome: Welcome | None = None
    goodbye: Goodbye | None = None
    lost: bool = False
    """The connection is gone."""


class Session:
    """One client's dealings with its brokers."""

    def __init__(self, settings: ClientSettings, *, name: str, token: str = "", overlay: str = "") -> None:
        self._settings = settings
        self._hello = Hello(PROTOCOL_VERSION, "client", name, overlay, credential=token)
        self._state: _State = "down"
        self._reader = FrameReader()
        self._outgoing: list[Frame] = []
        self._inboxes: dict[int, Inbox] = {}
        # By the number as it stands in deliveries, so that it need not be unpacked.
        self._by_bytes: dict[bytes, Inbox] = {}
        self._pubends: dict[int, str] = {}
        self._ids: MessageIdSource | None = None
        self._last_id: MessageId | None = None
        self._last_number = self._last_status = 0
        self._heartbeat_ms = 0
        self._sent_ms = self._heard_ms = 0
        self.publishing: Final = PublishQueue(linger_ms=settings.linger_ms, batch_bytes=settings.batch_bytes)
        self.welcome: Welcome | None = None
        """What the broker said when it was connected last."""
        self.received = 0
        """Messages that were delivered to this client."""
        self.writable = True
        """Whether the shell can write; as long as it cannot, nothing is taken and batches grow."""
        self._blocking: dict[int, Inbox] = {}

    @property
    def is_up(self) -> bool:
        """Whether a broker has welcomed this client, and has not gone since."""
        return self._state == "up"

    @property
    def reading(self) -> bool:
        """Whether the shell should read from the socket: no subscription is too full."""
        return not self._blocking

    # What the application asks for.

    def subscribe(self, selector: str) -> Inbox:
        """A new subscription."""
        self._last_number += 1
        settings = self._settings
        inbox = Inbox(self._last_number, selector, bytes_max=settings.queue_bytes, messages_max=settings.queue_messages)
        self._inboxes[inbox.number] = inbox
        self._by_bytes[_NUMBER.pack(inbox.number)] = inbox
        if self.is_up:
            self._outgoing.append(Subscribe(inbox.number, selector))
        return inbox

    def unsubscribe(self, inbox: Inbox) -> None:
        """Withdraws a subscription; what waits in it is forgotten."""
        inbox.clear()
        if inbox.is_over or inbox.state == "closing":
            return
        if self.is_up:
            inbox.state = "closing"
            self._outgoing.append(Unsubscribe(inbox.number))
        else:
            self._forget(inbox)
            inbox.state = "closed"
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

    def ask_status(self) -> int:
        """Asks the broker how it is; the number of the request."""
        assert self.is_up, "there is no broker to ask"
        self._last_status += 1
        self._outgoing.append(StatusRequest(self._last_status))
        return self._last_status

    def on_taken(self, inbox: Inbox) -> bool:
        """The application took messages out of a full subscription; whether the shell should read again."""
        if not inbox.update_blocking():
            self._blocking.pop(inbox.number, None)
        return self.reading

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
        inboxes = changes.inboxes
        for frame in self._reader.feed(data):
            if type(frame) is Deliver:
                name = self._pubends.get(frame.pubend)
                if name is None:
                    raise ProtocolError(f"pubend number {frame.pubend} has no name")
                self._deliver(frame.numbers, Received(name, frame.tick, frame.body), inboxes)
            elif self._state == "up":
                self._on_frame(frame, changes)
            else:
                self._on_greeting(frame, changes, wall_ms)
        if inboxes:
            self._block_if_full(inboxes)
        return changes

    def on_disconnected(self) -> Changes:
        """The connection is gone; what is to be said again will be said on the next one."""
        self._state = "down"
        self._outgoing = []
        self._pubends = {}
        self.publishing.on_disconnected()
        # All are woken: some may have got messages just before the connection broke.
        changes = Changes(publishing=True, lost=True, inboxes=dict(self._inboxes))
        for inbox in changes.inboxes.values():
            if inbox.state == "closing":
                self._forget(inbox)
                inbox.state = "closed"
            else:
                inbox.state = "asked"
        return changes

    # What is to be sent, and when.

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""
        if not self.writable:
            return []
        frames, self._outgoing = self._outgoing, []
        if self.is_up:
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
            if (batch_ms := self.publishing.next_deadline()) is not None:
                deadlines.append(batch_ms)
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

    def _deliver(self, numbers: bytes, received: Received, woken: dict[int, Inbox]) -> None:
        self.received += 1
        if len(numbers) == 4:
            inbox = self._by_bytes.get(numbers)
            # A subscription that was withdrawn meanwhile is no fault of the broker.
            if inbox is not None and inbox.state != "closing":
                inbox.push(received)
                woken[inbox.number] = inbox
            return
        for start in range(0, len(numbers), 4):
            inbox = self._by_bytes.get(numbers[start : start + 4])
            if inbox is not None and inbox.state != "closing":
                inbox.push(received)
                woken[inbox.number] = inbox

    def _block_if_full(self, inboxes: dict[int, Inbox]) -> None:
        for inbox in inboxes.values():
            if inbox.update_blocking():
                self._blocking[inbox.number] = inbox

    def _on_greeting(self, frame: Frame, changes: Changes, wall_ms: int) -> None:
        if isinstance(frame, Goodbye):
            changes.goodbye = frame
            return
        if not isinstance(frame, Welcome):
            raise ProtocolError(f"the broker begins with {type(frame).__name__}, not with a welcome")
        if frame.version != PROTOCOL_VERSION or frame.heartbeat_ms <= 0 or frame.credit_bytes <= 0:
            raise ProtocolError(f"the broker's welcome is for another protocol: {frame}")
        self.welcome = changes.welcome = frame
        self._state = "up"
        self._heartbeat_ms = frame.heartbeat_ms
        after = self._last_id if self._last_id is not None and self._last_id.publisher == frame.publisher else None
        self._ids = MessageIdSource(frame.publisher, frame.broker_number, after=after)
        self._ids.adjust(frame.now_ms - wall_ms)
        self.publishing.on_welcome(credit_bytes=frame.credit_bytes)
        changes.publishing = True
        self._outgoing += [Subscribe(inbox.number, inbox.selector) for inbox in self._inboxes.values()]

    def _on_frame(self, frame: Frame, changes: Changes) -> None:
        match frame:
            case PublishAck(sequence, credit_bytes):
                self.publishing.on_ack(sequence, credit_bytes)
                changes.publishing = True
            case PubendNames(names):
                self._pubends.update(names)
            case Heartbeat():
                pass
            case Subscribed(number, selector, pending):
                self._on_subscribed(number, selector, pending, changes)
            case Unsubscribed(number):
                self._end(number, changes)
            case Refused(request, number, reason):
                self._on_refused(request, number, reason, changes)
            case StatusReply(number, status):
                changes.statuses.append((number, status))
            case Goodbye():
                changes.goodbye = frame
            case _:
                raise ProtocolError(f"a broker does not send {type(frame).__name__} to a client")

    def _on_subscribed(self, number: int, selector: str, pending: tuple[str, ...], changes: Changes) -> None:
        inbox = self._inboxes.get(number)
        if inbox is not None and inbox.state in ("asked", "ready"):
            inbox.state, inbox.granted, inbox.pending = "ready", selector, pending
            changes.inboxes[number] = inbox

    def _on_refused(self, request: str, number: int, reason: str, changes: Changes) -> None:
        if request == "publish":
            self.publishing.on_refused(number, reason)
            changes.publishing = True
        elif request == "status":
            changes.statuses.append((number, reason))
        elif (inbox := self._end(number, changes)) is not None and request == "subscribe":
            inbox.state, inbox.reason = "refused", reason

    def _end(self, number: int, changes: Changes) -> Inbox | None:
        inbox = self._inboxes.get(number)
        if inbox is not None:
            self._forget(inbox)
            inbox.state = "closed"
            changes.inboxes[number] = inbox
        return inbox

    def _forget(self, inbox: Inbox) -> None:
        del self._inboxes[inbox.number], self._by_bytes[_NUMBER.pack(inbox.number)]
        self._blocking.pop(inbox.number, None)

    def check_invariants(self) -> None:
        """Fails if the parts do not agree."""
        self.publishing.check_invariants()
        assert [*self._inboxes] == [inbox.number for inbox in self._by_bytes.values()]
        assert not any(inbox.is_over for inbox in self._inboxes.values())
        assert {*self._blocking} == {number for number, inbox in self._inboxes.items() if inbox.blocking}
        for inbox in self._inboxes.values():
            inbox.check_invariants()
