"""The state of a session's move to another broker: the newcomer, the overlap, and durable names to claim back.

The new broker claims the names of durable subscriptions, so the old one reports that they were taken over. While the
client moves, that is its own doing. If it stays after all, it claims them back at the old broker, on a new connection:
on the present one, frames about all subscriptions, sent while these were gone, may still be under way.
"""

from __future__ import annotations

from penstock.protocol.frames import Deliver, Hello, Horizons, Migrate, Refused, Subscribed, Welcome
from penstock.session import events
from penstock.session.changes import Changes
from penstock.session.inbox import Inbox
from penstock.session.inboxes import Inboxes
from penstock.session.newcomer import Newcomer
from penstock.session.overlap import Overlap
from penstock.session.received import received_from

__all__ = ["Moves", "Subscribing"]


class Moves:
    """The moves of one client, one at a time."""

    def __init__(self, inboxes: Inboxes) -> None:
        self._inboxes = inboxes
        self.deliver = inboxes.deliver
        """Delivers the messages of the session's connection."""
        self.overlap: Overlap | None = None
        self.newcomer: Newcomer | None = None
        self._former: Overlap | None = None
        """The overlap of the previous move, if it was not over when this one began."""
        self._claimed: dict[int, Inbox] = {}
        """Durable subscriptions that the old broker will report as taken over, by this client itself."""
        self._displaced: dict[int, Inbox] = {}
        """Durable subscriptions that it has reported as taken over."""
        self.count = 0
        """How often the client has moved."""

    @property
    def is_full(self) -> bool:
        """Whether the old connection has to end now, because too many messages wait for its end."""
        return self.overlap is not None and self.overlap.is_full

    @property
    def is_final(self) -> bool:
        """Whether the new connection has become the session's, and the overlap is not over."""
        return self.overlap is not None and self.newcomer is None

    def deliver_all(self, frame: Deliver, pubend: str, woken: dict[int, Inbox]) -> None:
        """Delivers all messages of a frame, at once if the same subscriptions want them and nothing must be merged."""
        numbers = frame.numbers
        received = received_from(frame, pubend)
        if self.overlap is None and numbers and numbers.count(numbers[0]) == len(numbers):
            self._inboxes.deliver_all(numbers[0], received, woken)
            return
        for each, message in zip(numbers, received, strict=True):
            self.deliver(each, message, woken)

    def begin(self, order: Migrate, hello: Hello, present: Welcome) -> Newcomer:
        """Begins a move that the broker has ordered."""
        self._former, self.overlap = self.overlap, Overlap(self._inboxes)
        self.newcomer = Newcomer(order, hello, present, self._inboxes, self.overlap)
        self.deliver = self.overlap.deliver_old
        return self.newcomer

    def give_up(self) -> list[Inbox]:
        """Gives up the move; returns the durable subscriptions that the client has to claim back."""
        newcomer, self.newcomer = self.newcomer, None
        # The connection of the previous move may still repeat what the one before it delivered.
        self.overlap, self._former = self._former, None
        self.deliver = self.overlap.deliver_new if self.overlap is not None else self._inboxes.deliver
        displaced, self._displaced = self._displaced, {}
        if newcomer is not None:
            asked = [inbox for inbox in newcomer.asked.values() if newcomer.claims(inbox)]
            self._claimed = {inbox.number: inbox for inbox in asked if inbox.number not in displaced}
        return [inbox for inbox in displaced.values() if inbox.state in ("asked", "ready")]

    def make(self) -> tuple[Newcomer, Welcome, Overlap]:
        """Makes the move: the new connection takes over."""
        newcomer, self.newcomer = self.newcomer, None
        assert newcomer is not None, "nobody is there to take over"
        assert newcomer.welcome is not None, "nobody there has welcomed the client"
        assert self.overlap is not None
        self._former = None
        self.deliver = self.overlap.deliver_new
        self.forget_claims()
        self.count += 1
        return newcomer, newcomer.welcome, self.overlap

    def release(self) -> dict[int, Inbox]:
        """Delivers held messages after the old connection's end; returns the woken subscriptions."""
        return self.overlap.release() if self.overlap is not None else {}

    def finish(self) -> None:
        """Ends the overlap: nothing that the old connection delivered can arrive again."""
        self.overlap, self.deliver = None, self._inboxes.deliver

    def forget_claims(self) -> None:
        """Forgets claimed names: the connection to the old broker is no longer the session's."""
        self._claimed, self._displaced = {}, {}

    def is_own_doing(self, inbox: Inbox, reason: str) -> bool:
        """Whether the broker ends a durable subscription because this client has claimed its name elsewhere."""
        if not inbox.speaks_of_another(reason):
            return False
        if self.newcomer is not None and self.newcomer.claims(inbox):
            self._displaced[inbox.number] = inbox
            # What the old broker says of all subscriptions from now on does not apply to this one.
            inbox.positions.on_disconnected()
            return True
        return False

    def must_claim_back(self, inbox: Inbox, reason: str) -> bool:
        """Whether the broker ends a durable subscription because of a move since given up: it must be claimed back."""
        return inbox.speaks_of_another(reason) and self._claimed.pop(inbox.number, None) is not None

    def on_ready(self, inbox: Inbox) -> None:
        """A subscription is in force on the session's connection."""
        self._claimed.pop(inbox.number, None)
        if self.newcomer is not None:
            self.newcomer.open(inbox)

    def withdraw(self, inbox: Inbox) -> None:
        """Withdraws a subscription at the new broker, too."""
        if self.newcomer is not None:
            self.newcomer.withdraw(inbox)

    def begins(self, inboxes: list[Inbox], pubend: str, tick: int) -> dict[int, Inbox]:
        """Streams of a pubend begin on the new connection, if it is the session's; returns the woken subscriptions."""
        if not self.is_final or self.overlap is None:
            return {}
        for inbox in inboxes:
            self.overlap.begins(inbox, pubend, tick, is_final=True)
        return self.overlap.flush(pubend)

    def begun(self, inboxes: list[Inbox], pubend: str) -> dict[int, Inbox]:
        """Streams have begun on the session's connection, maybe after the new one; returns the woken subscriptions."""
        if self.newcomer is None or self.overlap is None:
            return {}
        for inbox in inboxes:
            if not self.overlap.begins_old(inbox, pubend):
                self.newcomer.fail_ahead(pubend)
                return {}
        return self.overlap.flush(pubend)


class Subscribing:
    """Applies what the broker says to the subscriptions of one session, and to the moves that wait for it."""

    def __init__(self, inboxes: Inboxes, moves: Moves) -> None:
        self._inboxes, self._moves = inboxes, moves

    def on_horizons(self, frame: Horizons, pubend: str, changes: Changes) -> None:
        """The broker has delivered everything of a pubend below a tick."""
        if not frame.is_only:
            self._inboxes.on_horizons(frame, pubend)
            return
        named = self._inboxes.named(frame.numbers)
        changes.inboxes |= self._moves.begins(named, pubend, frame.tick)
        self._inboxes.on_horizons(frame, pubend)
        changes.inboxes |= self._moves.begun(named, pubend)

    def on_subscribed(self, frame: Subscribed, changes: Changes) -> None:
        """A subscription is in force."""
        inbox = self._inboxes.get(frame.number)
        if inbox is not None and inbox.state in ("asked", "ready"):
            inbox.on_subscribed(frame.selector, frame.pending, frame.starts)
            if inbox.receipts is not None:
                inbox.receipts.wake()
                self._inboxes.reporting.on_moved(inbox)
            self._moves.on_ready(inbox)
            changes.inboxes[inbox.number] = inbox

    def on_refused(self, frame: Refused, changes: Changes) -> None:
        """A subscription is refused, unless that is the expected effect of a move."""
        if frame.request != "subscribe" or (inbox := self._inboxes.get(frame.number)) is None:
            self.end(frame.number, changes)
        elif self._moves.must_claim_back(inbox, frame.reason):
            changes.must_come_back = True
        elif not self._moves.is_own_doing(inbox, frame.reason):
            self.end(frame.number, changes)
            inbox.refuse(frame.reason)
            changes.events.append(events.Refused("subscription", inbox.wanted.selector, frame.reason))

    def end(self, number: int, changes: Changes) -> None:
        """Ends a subscription: no more messages will come for it."""
        inbox = self._inboxes.get(number)
        if inbox is not None:
            self._inboxes.forget(inbox)
            self._moves.withdraw(inbox)
            changes.inboxes[number] = inbox
