"""The streams that this broker's publishers write to: assigns publishers to them, and numbers them for clients.

Only best-effort streams get their ticks here: at most once, in order per publisher. The tick grows with every message
and, because it starts from the clock, across restarts; every broker forwards only what is newer than what it forwarded
before, so no change of path can repeat or reorder a message. Guaranteed pubends have a ``PubendLog`` each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32

from penstock.model.tick import tick_at
from penstock.protocol.control import NAMES_MAX
from penstock.protocol.data_frames import delivery_number

__all__ = ["NUMBERS_MAX", "Pubends"]

NUMBERS_MAX: Final = 2 * NAMES_MAX
"""Most pubends of each service class that a broker can announce to clients in its life; numbers have 16 bits."""
_LAST_MAX: Final = 4 * NAMES_MAX
"""Above this many remembered last ticks, those of pubends no longer in the overlay are forgotten."""


class Pubends:
    """The pubends of one broker, and the last tick seen of every pubend in the overlay."""

    def __init__(self, names: tuple[str, ...], best_effort: tuple[str, ...] = ()) -> None:
        self.names = names
        # A publisher that names no pubend gets the better class, if there is one.
        self._chosen = tuple(each for each in names if each not in best_effort) or names
        self._last: dict[str, int] = {}
        self._numbers: dict[tuple[str, bool], int] = {}
        self._places = {False: 0, True: 0}
        """How many numbers of each service class are assigned."""

    def choose(self, wanted: str, publisher: int) -> str | None:
        """Returns the pubend for a publisher's messages: the one it names, or one by hash; None if there is none."""
        if wanted:
            return wanted if wanted in self.names else None
        if len(self._chosen) < 2:
            return self._chosen[0] if self._chosen else None
        return self._chosen[crc32(publisher.to_bytes(4)) % len(self._chosen)]

    def next_ticks(self, pubend: str, count: int, *, now_ms: int) -> list[int]:
        """Ticks for new messages: after all earlier ones, and not before the clock."""
        first = max(self._last.get(pubend, 0) + 1, tick_at(now_ms))
        self._last[pubend] = first + count - 1
        return [first] if count == 1 else list(range(first, first + count))

    def newer(self, pubend: str, ticks: list[int]) -> int:
        """Returns how many of these ascending ticks, counted from the end, are new, and marks them as seen."""
        last = self._last.get(pubend, 0)
        if ticks and ticks[0] > last:
            self._last[pubend] = ticks[-1]
            return len(ticks)
        fresh = sum(tick > last for tick in ticks)
        if fresh:
            self._last[pubend] = ticks[-1]
        return fresh

    def remember(self, is_known: Callable[[str], bool]) -> None:
        """Forgets the last ticks of pubends that are no longer known, once too many are remembered."""
        if len(self._last) > _LAST_MAX:
            self._last = {name: tick for name, tick in self._last.items() if name in self.names or is_known(name)}

    def last_tick(self, pubend: str) -> int:
        """The last tick assigned or forwarded."""
        return self._last.get(pubend, 0)

    def number_of(self, pubend: str, *, is_guaranteed: bool) -> tuple[int | None, bool]:
        """Returns this broker's number for a pubend, and whether it is new; None if all numbers are in use.

        A pubend whose service class was changed has two: the ticks of one class say nothing about those of the other.
        Numbers are never reused: frames to or from clients that mention one may still be on their way.
        """
        number = self._numbers.get((pubend, is_guaranteed))
        if number is not None:
            return number, False
        place = self._places[is_guaranteed]
        if place >= NUMBERS_MAX:
            return None, False
        self._places[is_guaranteed] = place + 1
        number = self._numbers[pubend, is_guaranteed] = delivery_number(place, is_guaranteed=is_guaranteed)
        return number, True

    def numbered(self) -> tuple[tuple[int, str], ...]:
        """All numbers assigned so far, with their pubends."""
        return tuple((number, name) for (name, _), number in self._numbers.items())
