"""Tells the broker what the application has of each durable subscription: when it has moved, but not too often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.client.inbox import Inbox
from penstock.protocol.frames import Acknowledge, is_guaranteed_number

__all__ = ["MESSAGES_MAX", "Reporting"]

MESSAGES_MAX: Final = 1_000
"""After so many messages the broker is told at once."""


class Reporting:
    """The durable subscriptions of a client that have moved since the broker was told.

    A subscription that is in force is told of; one that is asked for again has to wait until the broker knows it.
    """

    def __init__(self, *, pause_ms: int) -> None:
        self._pause_ms = pause_ms
        self._moved: dict[int, Inbox] = {}
        self._numbers: dict[str, int] = {}

    def on_names(self, names: Iterable[tuple[int, str]]) -> None:
        """The numbers of pubends on this connection."""
        self._numbers.update((name, number) for number, name in names if is_guaranteed_number(number))

    def on_moved(self, inbox: Inbox) -> bool:
        """A durable subscription has moved; whether somebody has to look at the time for that."""
        assert inbox.receipts is not None, "not durable"
        if inbox.state not in ("asked", "ready"):
            return False
        is_new = inbox.number not in self._moved
        self._moved[inbox.number] = inbox
        return is_new or inbox.receipts.taken >= MESSAGES_MAX

    def drop(self, inbox: Inbox) -> None:
        """A subscription is over."""
        self._moved.pop(inbox.number, None)

    def on_disconnected(self) -> None:
        """The connection is gone; what was said on it will be said again."""
        self._moved, self._numbers = {}, {}

    def next_deadline(self) -> int | None:
        """When to tell the broker."""
        return min((_due_ms(inbox) for inbox in self._moved.values() if inbox.state == "ready"), default=None)

    def take(self, *, now_ms: int) -> list[Acknowledge]:
        """What is to be told now."""
        if not self._moved:
            return []
        due = [each for each in self._moved.values() if each.state == "ready" and _due_ms(each) <= now_ms]
        frames: list[Acknowledge] = []
        for inbox in due:
            assert inbox.receipts is not None, "not durable"
            if said := self.last(inbox):
                frames += said
                inbox.receipts.not_before_ms = now_ms + self._pause_ms
        return frames

    def last(self, inbox: Inbox) -> list[Acknowledge]:
        """What is to be told of one subscription, whenever it was told last: before it is withdrawn."""
        self.drop(inbox)
        if inbox.receipts is None or inbox.state != "ready":
            return []
        risen = inbox.receipts.say(inbox.acknowledgeable(), self._numbers)
        return [Acknowledge(risen, inbox.number)] if risen else []


def _due_ms(inbox: Inbox) -> int:
    assert inbox.receipts is not None, "not durable"
    return 0 if inbox.receipts.taken >= MESSAGES_MAX else inbox.receipts.not_before_ms
