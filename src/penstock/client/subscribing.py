"""What a broker says about the subscriptions of a client: in force, refused, ended, or how far it has come."""

from __future__ import annotations

from penstock.client.changes import Changes
from penstock.client.inboxes import Inboxes
from penstock.client.moves import Moves
from penstock.protocol.frames import Horizons, Refused, Subscribed

__all__ = ["Subscribing"]


class Subscribing:
    """Carries what the broker says to the subscriptions of one session, and to the moves that wait for it."""

    def __init__(self, inboxes: Inboxes, moves: Moves) -> None:
        self._inboxes, self._moves = inboxes, moves

    def on_horizons(self, frame: Horizons, pubend: str) -> None:
        """The broker has delivered everything of a pubend up to a tick."""
        if frame.is_only:
            self._moves.begins(self._inboxes.named(frame.numbers), pubend, frame.tick)
        self._inboxes.on_horizons(frame, pubend)

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
