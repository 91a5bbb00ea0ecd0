"""The positions of a subscription in the streams of pubends: where it resumes after a lost connection.

Positions are kept by pubend name, since the numbers that stand for pubends are those of one connection. Only pubends
for which a broker has told a start or a horizon have one: the others guarantee nothing, and may count from anywhere
after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.session.received import Received

__all__ = ["LostTicks", "Positions", "first_unread"]


@dataclass(slots=True, frozen=True)
class LostTicks:
    """A range of ticks in a pubend's stream that is lost: nobody will ever know what was there."""

    pubend: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"ticks {self.first} to {self.last} of pubend {self.pubend} are lost"


class Positions:
    """By pubend, the first tick that has not arrived yet.

    >>> positions = Positions({"quotes": 5})
    >>> positions.on_start("trades", 8)
    >>> positions.on_horizon("quotes", 7)
    >>> positions.known()
    {'quotes': 7, 'trades': 8}
    """

    __slots__ = ("_begun", "_guaranteed", "next_ticks")

    def __init__(self, start: Mapping[str, int] | None = None) -> None:
        self.next_ticks: Final = dict(start or {})
        """By pubend, the first tick that may still arrive: the one after the last delivered or announced, or the start;
        also for pubends whose start no broker has told yet."""
        self._guaranteed: dict[str, None] = dict.fromkeys(self.next_ticks)
        self._begun: dict[str, None] = {}
        """The pubends for which the broker of this connection has named the subscription."""

    def on_start(self, pubend: str, tick: int) -> None:
        """From this tick on nothing will be missing."""
        self._guaranteed[pubend] = None
        self.next_ticks.setdefault(pubend, tick)

    def begin(self, pubend: str) -> None:
        """The broker names the subscription: from now on, what it says of all subscriptions applies to this one, too.

        Earlier frames may have been written before the broker knew of it, and been overtaken by the confirmation.
        """
        self._begun[pubend] = None

    def has_begun(self, pubend: str) -> bool:
        """Whether the broker has named the subscription on this connection."""
        return pubend in self._begun

    def on_horizon(self, pubend: str, tick: int) -> None:
        """Everything below the tick has been sent, and has therefore arrived."""
        self.on_start(pubend, 0)
        self.next_ticks[pubend] = max(tick, self.next_ticks[pubend])

    def on_lost(self, lost: LostTicks) -> bool:
        """Some ticks will never arrive; returns whether this subscription misses them."""
        position = self.get(lost.pubend)
        if position is None or position > lost.last:
            return False
        # The notice may have overtaken messages before the lost ticks: those are still to come.
        if lost.first <= position:
            self.on_horizon(lost.pubend, lost.last + 1)
        return True

    def on_disconnected(self) -> None:
        """Discards what the broker said on the connection, but keeps the positions."""
        self._begun.clear()

    def get(self, pubend: str) -> int | None:
        """The position in one pubend's stream; None if the pubend is not known to have one."""
        return self.next_ticks[pubend] if pubend in self._guaranteed else None

    def known(self) -> dict[str, int]:
        """All positions."""
        return {pubend: self.get(pubend) or 0 for pubend in self._guaranteed}


def first_unread(positions: dict[str, int], waiting: Iterable[Received]) -> dict[str, int]:
    """The positions of a reader: messages that have arrived but are not read yet do not count.

    >>> first_unread({"quotes": 9, "trades": 4}, [Received("quotes", 6, b""), Received("quotes", 8, b"")])
    {'quotes': 6, 'trades': 4}
    """
    unread = dict(positions)
    missing = set(positions)
    for received in waiting:
        if received.pubend in missing and received.is_guaranteed:
            unread[received.pubend] = received.tick
            missing.remove(received.pubend)
            if not missing:
                break
    return unread
