"""What a session keeps of a move to another broker: the newcomer, the overlap, and durable names to claim back.

The new broker claims the names of durable subscriptions, so the old one says that they were taken over. While the
client moves, that is its own doing. If it stays after all, it claims them back at the old broker, on a new connection:
on the one it has, what was said of all subscriptions while these were gone is still on its way.
"""

from __future__ import annotations

from penstock.protocol.frames import Hello, Horizons, Migrate, Refused, Subscribed, Welcome
from penstock.session.changes import Changes
from penstock.session.inbox import Inbox
from penstock.session.inboxes import Inboxes
from penstock.session.newcomer import Newcomer
from penstock.session.overlap import Overlap

__all__ = ["Moves", "Subscribing"]


class Moves:
    """The moves of one client, of which there is one at a time."""

    def __init__(self, inboxes: Inboxes) -> None:
        self._inboxes = inboxes
        self.deliver = inboxes.deliver
        """Who takes what the session's connection brings."""
        self.overlap: Overlap | None = None
        self.newcomer: Newcomer | None = None
        self._former: Overlap | None = None
        """That of the move before, if it was not over when this one began."""
        self._claimed: dict[int, Inbox] = {}
        """Durable subscriptions of which the old broker will say that they were taken over, by this client itself."""
        self._displaced: dict[int, Inbox] = {}
        """Those of which it has said so."""
        self.count = 0
        """How often the client has moved."""

    @property
    def is_full(self) -> bool:
        """Whether the old connection has to end now, since too much waits for that."""
        return self.overlap is not None and self.overlap.is_full

    @property
    def is_final(self) -> bool:
        """Whether the new connection is the session's, and the old one has not ended."""
        return self.overlap is not None and self.newcomer is None

    def begin(self, order: Migrate, hello: Hello, present: Welcome) -> Newcomer:
        """The broker wants this client to go elsewhere."""
        self._former, self.overlap = self.overlap, Overlap(self._inboxes)
        self.newcomer = Newcomer(order, hello, present, self._inboxes, self.overlap)
        self.deliver = self.overlap.deliver_old
        return self.newcomer

    def give_up(self) -> list[Inbox]:
        """The client stays; answers with the durable subscriptions that it has to claim back."""
        newcomer, self.newcomer = self.newcomer, None
        # The connection of a move before may still repeat what the one before that has brought.
        self.overlap, self._former = self._former, None
        self.deliver = self.overlap.deliver_new if self.overlap is not None else self._inboxes.deliver
        displaced, self._displaced = self._displaced, {}
        if newcomer is not None:
            asked = [inbox for inbox in newcomer.asked.values() if newcomer.claims(inbox)]
            self._claimed = {inbox.number: inbox for inbox in asked if inbox.number not in displaced}
        return [inbox for inbox in displaced.values() if not inbox.is_over and inbox.state != "closing"]

    def make(self) -> tuple[Newcomer, Welcome, Overlap]:
        """The new connection takes over."""
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
        """The old connection has ended; who got something by that."""
        return self.overlap.release() if self.overlap is not None else {}

    def finish(self) -> None:
        """Nothing is on its way any more that came over the old connection before."""
        self.overlap, self.deliver = None, self._inboxes.deliver

    def forget_claims(self) -> None:
        """The connection on which the old broker could speak of them is not the session's any more."""
        self._claimed, self._displaced = {}, {}

    def is_own_doing(self, inbox: Inbox, reason: str) -> bool:
        """Whether the broker ends a durable subscription because this client has claimed its name elsewhere."""
        if not inbox.speaks_of_another(reason):
            return False
        if self.newcomer is not None and self.newcomer.claims(inbox):
            self._displaced[inbox.number] = inbox
            # What the old broker says of all subscriptions from now on is not meant for this one.
            inbox.positions.on_disconnected()
            return True
        return False

    def must_claim_back(self, inbox: Inbox, reason: str) -> bool:
        """The same, after the client has given up to go there: it must be asked for again."""
        return inbox.speaks_of_another(reason) and self._claimed.pop(inbox.number, None) is not None

    def on_ready(self, inbox: Inbox) -> None:
        """A subscription is in force on the session's connection."""
        self._claimed.pop(inbox.number, None)
        if self.newcomer is not None:
            self.newcomer.open(inbox)

    def withdraw(self, inbox: Inbox) -> None:
        """A subscription is not wanted any more."""
        if self.newcomer is not None:
            self.newcomer.withdraw(inbox)

    def begins(self, inboxes: list[Inbox], pubend: str, tick: int) -> dict[int, Inbox]:
        """The new connection, when it is the session's, names subscriptions on a pubend; who got something by that."""
        if not self.is_final or self.overlap is None:
            return {}
        for inbox in inboxes:
            self.overlap.begins(inbox, pubend, tick, is_final=True)
        return self.overlap.flush(pubend)

    def begun(self, inboxes: list[Inbox], pubend: str) -> dict[int, Inbox]:
        """The session's connection has named subscriptions on a pubend, maybe after the new one; who got something."""
        if self.newcomer is None or self.overlap is None:
            return {}
        for inbox in inboxes:
            if not self.overlap.begins_old(inbox, pubend):
                self.newcomer.fail_ahead(pubend)
                return {}
        return self.overlap.flush(pubend)


class Subscribing:
    """Carries what the broker says to the subscriptions of one session, and to the moves that wait for it."""

    def __init__(self, inboxes: Inboxes, moves: Moves) -> None:
        self._inboxes, self._moves = inboxes, moves

    def on_horizons(self, frame: Horizons, pubend: str, changes: Changes) -> None:
        """The broker has delivered everything of a pubend up to a tick."""
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
                self._inboxes.reporting.on_moved(inbox)
            self._moves.on_ready(inbox)
            changes.inboxes[inbox.number] = inbox

    def on_refused(self, frame: Refused, changes: Changes) -> None:
        """A subscription is refused, unless that is what a move was meant to do."""
        if frame.request != "subscribe" or (inbox := self._inboxes.get(frame.number)) is None:
            self.end(frame.number, changes)
        elif self._moves.must_claim_back(inbox, frame.reason):
            changes.must_come_back = True
        elif not self._moves.is_own_doing(inbox, frame.reason):
            self.end(frame.number, changes)
            inbox.refuse(frame.reason)

    def end(self, number: int, changes: Changes) -> None:
        """No more messages come for a subscription."""
        inbox = self._inboxes.get(number)
        if inbox is not None:
            self._inboxes.forget(inbox)
            self._moves.withdraw(inbox)
            changes.inboxes[number] = inbox
