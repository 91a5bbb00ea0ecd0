"""Tracks what may be acknowledged of a durable subscription: never more than the application is done with.

Automatically, that is everything that the application took out of the subscription, except what the last call
returned: it counts when the application comes back for more, or closes. So a program that dies gets again what it was
working on. Manually, it is what the application acknowledges, and silence up to the next message that it did not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Final

from penstock.model.errors import MisuseError
from penstock.session.positions import first_unread
from penstock.session.received import Received

__all__ = ["TICKS_MAX", "Receipts"]

TICKS_MAX: Final = 65_536
"""How many ticks are kept of messages of one pubend that were taken and not acknowledged."""


class Receipts:
    """The acknowledgements of one durable subscription.

    >>> receipts = Receipts(is_manual=True)
    >>> receipts.hold([Received("quotes", 6, b""), Received("quotes", 8, b"")])
    >>> receipts.positions({"quotes": 9}, [])
    {'quotes': 6}
    >>> receipts.acknowledge(Received("quotes", 6, b""))
    >>> receipts.positions({"quotes": 9}, [])
    {'quotes': 8}
    """

    __slots__ = ("_said", "_taken", "acknowledged", "in_hand", "is_manual", "not_before_ms", "taken")

    def __init__(self, *, is_manual: bool) -> None:
        self.is_manual = is_manual
        self.in_hand: tuple[Received, ...] = ()
        """The messages that the application got last, and is working on."""
        self._taken: dict[str, _Taken] = {}
        self._said: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}
        """By pubend, the tick below which everything was acknowledged to a broker."""
        self.taken = 0
        """Messages that were taken or acknowledged since the broker was last told."""
        self.not_before_ms = 0
        """When to tell the broker again, at the earliest."""

    def hold(self, received: Iterable[Received]) -> None:
        """The application has taken these out."""
        held = tuple(received)
        if not self.is_manual:
            self.in_hand = held
            self.taken += len(held)
            return
        for each in held:
            if each.is_guaranteed:
                self._taken_of(each.pubend).take(each.tick)

    def settle(self) -> bool:
        """The application comes back for more; returns whether it had anything in hand."""
        had_some = bool(self.in_hand)
        self.in_hand = ()
        return had_some

    def acknowledge(self, message: Received | None = None, *, waiting: Iterable[Received] = ()) -> None:
        """The application is done with everything up to a message, or with all it took except what waits elsewhere."""
        if not self.is_manual:
            raise MisuseError("this subscription is not acknowledged manually")
        if message is not None:
            if message.is_guaranteed:
                self._acknowledge(message.pubend, message.tick)
            return
        ends = {pubend: taken.last + 1 for pubend, taken in self._taken.items()}
        for pubend, end in first_unread(ends, waiting).items():
            self._acknowledge(pubend, end - 1)

    def positions(self, arrived: dict[str, int], waiting: Iterable[Received]) -> dict[str, int]:
        """By pubend, the tick below which everything may be acknowledged."""
        unread = first_unread(arrived, chain(self.in_hand, waiting))
        for pubend, taken in self._taken.items():
            if pubend in unread and (tick := taken.first_open()) is not None:
                unread[pubend] = min(unread[pubend], tick)
        return unread

    def say(self, positions: dict[str, int], numbers: dict[str, int]) -> tuple[tuple[int, int], ...]:
        """The positions that have risen, by pubend number; from now on they count as told to the broker."""
        risen: list[tuple[int, int]] = []
        for pubend, tick in positions.items():
            if pubend in numbers and tick > self._said.get(pubend, 0):
                self._said[pubend] = tick
                self.acknowledged[pubend] = max(tick, self.acknowledged.get(pubend, 0))
                risen.append((numbers[pubend], tick))
        self.taken = 0
        return tuple(risen)

    def on_disconnected(self) -> None:
        """What the broker was told may not have arrived, and is to be told again."""
        self._said = {}

    def _acknowledge(self, pubend: str, tick: int) -> None:
        taken = self._taken_of(pubend)
        if tick > taken.last:
            raise MisuseError(f"tick {tick} of pubend {pubend} was not read from this subscription")
        self.taken += taken.acknowledge(tick)

    def _taken_of(self, pubend: str) -> _Taken:
        taken = self._taken.get(pubend)
        if taken is None:
            taken = self._taken[pubend] = _Taken()
        return taken


class _Taken:
    """The messages of one pubend that the application took and has not acknowledged.

    If the application takes very many, only the ticks of the first ones are kept. Once those are acknowledged, the
    position stays just after the last one acknowledged, until all are.
    """

    __slots__ = ("_acknowledged", "_has_more", "_ticks", "last")

    def __init__(self) -> None:
        self._ticks: deque[int] = deque()
        self._has_more = False
        self._acknowledged = 0
        self.last = -1

    def take(self, tick: int) -> None:
        self.last = max(self.last, tick)
        self._has_more = self._has_more or len(self._ticks) >= TICKS_MAX
        if not self._has_more:
            self._ticks.append(tick)

    def acknowledge(self, tick: int) -> int:
        """Everything up to a tick is done; returns how many open messages with known ticks that settles."""
        before = len(self._ticks)
        while self._ticks and self._ticks[0] <= tick:
            self._ticks.popleft()
        self._acknowledged = max(self._acknowledged, tick + 1)
        self._has_more = self._has_more and tick < self.last
        return before - len(self._ticks)

    def first_open(self) -> int | None:
        """The first tick that must not be acknowledged; None if everything taken may be."""
        if self._ticks:
            return self._ticks[0]
        return self._acknowledged if self._has_more else None
