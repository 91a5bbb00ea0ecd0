"""The connection to the broker that a client is moving to, until it takes over from the present one.

Each subscription is requested there as well, with its present positions, as soon as it is in force at the old broker.
The answers are kept here. The move can be made once the new broker has put all subscriptions in force and delivers
every stream that they have a position in. Any mismatch is a reason to stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    PROTOCOL_VERSION,
    Deliver,
    Frame,
    Goodbye,
    Heartbeat,
    Hello,
    Horizons,
    Lost,
    Migrate,
    MoveFailed,
    PubendNames,
    PubendPlaces,
    Refused,
    Settled,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from penstock.session import events
from penstock.session.changes import Changes
from penstock.session.inbox import Inbox
from penstock.session.inboxes import Inboxes, learn_names, subscribe_frame
from penstock.session.overlap import Overlap
from penstock.session.received import received_from

__all__ = ["SILENT_HEARTBEATS", "Newcomer"]

SILENT_HEARTBEATS: Final = 5
"""A connection that has been silent for this many heartbeats is given up."""

_GREETING_MS: Final = 5_000
"""Heartbeat interval until the broker's is known."""


class Newcomer:
    """The endpoint of the new one of a client's two connections."""

    def __init__(
        self,
        order: Migrate,
        hello: Hello,
        present: Welcome,
        inboxes: Inboxes,
        overlap: Overlap,
    ) -> None:
        """Goes where the present broker, which gave the welcome ``present``, has ordered."""
        self.order: Final = order
        self._hello, self._present = hello, present
        self._inboxes, self._overlap = inboxes, overlap
        self.outgoing: list[Frame] = []
        self.pubends: dict[int, str] = {}
        self.welcome: Welcome | None = None
        self.skew_ms = 0
        """How far the new broker's clock is ahead."""
        self.confirmed: dict[int, Subscribed] = {}
        """The new broker's confirmations of subscriptions that are in force there."""
        self.asked: dict[int, Inbox] = {}
        """The subscriptions requested there."""
        self.begun: dict[tuple[int, str], None] = {}
        """Subscriptions and pubends whose streams have begun there."""
        self.places: list[PubendPlaces] = []
        """What the new broker said about the pubends of the overlay after its welcome."""
        self.problem = ""
        """Why the move cannot be made; empty if it can."""
        self.has_news = False
        """Whether the move may have become possible, or impossible, since the last look."""
        self.sent_ms = self.heard_ms = 0
        self.writable = True
        self.received = 0

    @property
    def is_up(self) -> bool:
        """Whether the new broker has welcomed this client, and nothing is wrong."""
        return self.welcome is not None and not self.problem

    @property
    def is_ready(self) -> bool:
        """Whether the new broker can take over."""
        return self.is_up and all(self._is_served(inbox) for inbox in self._inboxes if inbox.state != "closing")

    @property
    def can_rescue(self) -> bool:
        """Whether the new broker can take over when the old one is lost, ready or not.

        The new broker does not know positions that a subscription got from the old one after it was requested here: the
        stream would begin later, and what lies between would be missing.
        """
        return self.is_up and all(map(self._overlap.covers, self.asked.values()))

    @property
    def reading(self) -> bool:
        """Whether the shell should read from the socket."""
        return not self._inboxes.are_blocking

    # What happens at the old broker.

    def open(self, inbox: Inbox) -> None:
        """Requests a subscription that is in force at the old broker: now it has positions to continue from."""
        if inbox.work is None and self.is_up and inbox.number not in self.asked and inbox.state == "ready":
            self.asked[inbox.number] = inbox
            self._overlap.opens(inbox)
            self.outgoing.append(subscribe_frame(inbox))

    def withdraw(self, inbox: Inbox) -> None:
        """Withdraws a subscription here, too."""
        self._overlap.drop(inbox)
        if self.asked.pop(inbox.number, None) is not None:
            self.confirmed.pop(inbox.number, None)
            self.outgoing.append(Unsubscribe(inbox.number))
        self.has_news = True

    def claims(self, inbox: Inbox) -> bool:
        """Whether the old broker may report a durable subscription as taken over, because it was requested here."""
        return bool(inbox.wanted.durable) and inbox.number in self.asked

    def fail(self, problem: str) -> None:
        """The move cannot be made; the first reason counts."""
        self.problem = self.problem or problem
        self.has_news = True

    def fail_ahead(self, pubend: str) -> None:
        """The move cannot be made, because part of a stream would be missing."""
        self.fail(f"its stream of {pubend} starts past this client's position")

    # Events of the connection.

    def on_connected(self, *, now_ms: int) -> None:
        """There is a connection."""
        self.outgoing = [self._hello]
        self.sent_ms = self.heard_ms = now_ms

    def on_frames(self, frames: Iterable[Frame], *, now_ms: int, wall_ms: int) -> Changes:
        """Frames from the new broker; raises ``ProtocolError`` at one that a broker may not send."""
        self.heard_ms = now_ms
        changes = Changes()
        for frame in frames:
            if isinstance(frame, Goodbye):
                changes.goodbye = frame
                self.fail(frame.reason)
            elif self.welcome is None:
                self._on_greeting(frame, changes, wall_ms)
            elif self.problem:
                # Nothing it sends counts any more, least of all messages: they may come after ticks that are lost here,
                # and that the old broker still has.
                continue
            elif isinstance(frame, Deliver):
                self.received += len(frame.bodies)
                for numbers, received in zip(
                    frame.numbers, received_from(frame, self._pubend(frame.pubend)), strict=True
                ):
                    self._overlap.deliver_new(numbers, received, changes.inboxes)
            else:
                self._on_frame(frame, changes)
        if changes.inboxes:
            self._inboxes.block_if_full(changes.inboxes)
        if self._overlap.is_full:
            self.fail("it is too far ahead of the old broker")
        return changes

    def on_disconnected(self) -> Changes:
        """The connection is gone."""
        self.fail("the connection was lost")
        return Changes()

    # What is to be sent, and when.

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """The frames to send now."""
        if not self.writable:
            return []
        frames, self.outgoing = self.outgoing, []
        if not frames and now_ms >= self.sent_ms + self._heartbeat_ms():
            frames.append(Heartbeat(now_ms))
        if frames:
            self.sent_ms = now_ms
        return frames

    def next_deadline(self) -> int | None:
        """When to take frames, or to check whether the broker is still there."""
        deadlines = [self._silent_at_ms()] if self.reading else []
        if self.writable:
            deadlines.append(self.sent_ms + self._heartbeat_ms())
        return min(deadlines, default=None)

    def is_silent(self, *, now_ms: int) -> bool:
        """Whether nothing was heard for so long that the connection must be given up."""
        return self.reading and now_ms >= self._silent_at_ms()

    def on_reading(self, *, now_ms: int) -> None:
        """The shell reads from the socket again; the silence until now does not count."""
        self.heard_ms = now_ms

    # Inside.

    def _heartbeat_ms(self) -> int:
        return self.welcome.heartbeat_ms if self.welcome is not None else _GREETING_MS

    def _silent_at_ms(self) -> int:
        return self.heard_ms + SILENT_HEARTBEATS * self._heartbeat_ms()

    def _is_served(self, inbox: Inbox) -> bool:
        if inbox.work is not None:
            # A member goes with its connection: it joins anew when that is another one.
            return True
        confirmed = self.confirmed.get(inbox.number)
        if confirmed is None or not self._overlap.covers(inbox):
            return False
        # Where there is a position, the stream continues from it, even if its pubend cannot be reached now.
        return {*confirmed.pending} <= {*inbox.pending, *inbox.positions.known()}

    def _on_greeting(self, frame: Frame, changes: Changes, wall_ms: int) -> None:
        if not isinstance(frame, Welcome) or frame.version != PROTOCOL_VERSION or frame.heartbeat_ms <= 0:
            raise ProtocolError(f"the broker's first frame is {type(frame).__name__}, not a welcome")
        self.welcome = changes.welcome = frame
        self.skew_ms = frame.now_ms - wall_ms
        if (frame.broker, frame.overlay) != (self.order.broker, self._present.overlay):
            self.fail(f"broker {frame.broker} of overlay {frame.overlay} answers there")
        for inbox in self._inboxes:
            self.open(inbox)
        self.has_news = True

    def _on_frame(self, frame: Frame, changes: Changes) -> None:
        match frame:
            case PubendNames(names):
                learn_names(self.pubends, names)
            case Horizons():
                self._on_horizons(frame, self._pubend(frame.pubend), changes)
            case Settled(number) if number in self.asked:
                # It names what the streams here bring and the application has had; the old one may bring it, too.
                self.asked[number].on_settled(self._pubend(frame.pubend), frame.ticks)
            case Subscribed(number) if number in self.asked:
                self._on_subscribed(frame)
            case Refused(request, number, reason) if request == "subscribe" and number in self.asked:
                self._on_refused(self.asked[number], reason, changes)
            case PubendPlaces():
                self.places.append(frame)
            case Lost():
                # The old broker may still have it, or will say the same.
                self.fail("it cannot go on from the positions of this client")
            case Migrate(session):
                self.outgoing.append(MoveFailed(session, "the client is just coming"))
            case Heartbeat() | Subscribed() | Refused() | Unsubscribed() | Settled():
                pass
            case _:
                raise ProtocolError(f"a broker does not send {type(frame).__name__} to a client that comes")

    def _on_subscribed(self, frame: Subscribed) -> None:
        if frame.selector != self.asked[frame.number].granted:
            self.fail(f"subscription {frame.number} is granted only {frame.selector}")
        self.confirmed[frame.number] = frame
        self.has_news = True

    def _on_refused(self, inbox: Inbox, reason: str, changes: Changes) -> None:
        if not inbox.speaks_of_another(reason):
            self.fail(f"it refuses a subscription: {reason}")
            return
        # Taken over by somebody who came after this client had come here.
        del self.asked[inbox.number]
        self._overlap.drop(inbox)
        self._inboxes.forget(inbox)
        inbox.refuse(reason)
        changes.inboxes[inbox.number] = inbox
        changes.events.append(events.Refused("subscription", inbox.wanted.selector, reason))
        self.has_news = True

    def _on_horizons(self, frame: Horizons, pubend: str, changes: Changes) -> None:
        numbers = frame.numbers
        named = {int.from_bytes(numbers[start : start + 4]) for start in range(0, len(numbers), 4)}
        for number, inbox in self.asked.items():
            if frame.is_only and number in named:
                if not self._overlap.begins(inbox, pubend, frame.tick):
                    self.fail_ahead(pubend)
                    return
                self.begun[number, pubend] = None
            elif frame.is_only or number in named or (number, pubend) not in self.begun:
                continue
            if self._overlap.waits(inbox, pubend):
                continue
            inbox.positions.on_horizon(pubend, frame.tick)
            changes.inboxes[number] = inbox
        if frame.is_only:
            changes.inboxes |= self._overlap.flush(pubend)
        self.has_news = True

    def _pubend(self, number: int) -> str:
        name = self.pubends.get(number)
        if name is None:
            raise ProtocolError(f"pubend number {number} has no name")
        return name
