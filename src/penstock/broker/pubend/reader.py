"""Reads pubends' logs to answer NACKs: one read at a time per pubend, of bounded size, in the order of ticks.

A read finds more than a turn may spend on it, so what was found is handed out in parts. The next read is under way
meanwhile, but no further one: a broker that is busy with other things does not collect old messages in memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.broker.effects import ReadLog
from penstock.model.tick import TickRange
from penstock.model.tick_ranges import TickRanges
from penstock.selectors.effort import TURN_EFFORT_MAX

__all__ = ["Found", "LogReader"]

_READ_BYTES: Final = 512 * 1024
"""Bytes per read: with less, a subscriber that is far behind mostly waits for commits between reads (make bench)."""
_READ_BYTES_MIN: Final = 4 * 1024
_MESSAGE_BYTES: Final = 100
"""The small size assumed for a message when the effort of matching bounds a read."""
_WAITING_MAX: Final = 2
"""Reads of one pubend whose results may wait; at so many, none is begun."""


@dataclass(slots=True, frozen=True)
class Found:
    """The result of a read, or a part of it: all messages of a pubend from the first tick to the last."""

    pubend: str
    first: int
    last: int
    """Before the first tick if nothing could be read."""
    messages: list[tuple[int, bytes]]
    damaged: TickRange | None = None
    """Ticks right after the last that can never be read."""


@dataclass(slots=True)
class _Reading:
    """The pending reads of one pubend."""

    wanted: TickRanges = field(default_factory=TickRanges)
    under_way: ReadLog | None = None
    found: deque[Found] = field(default_factory=deque)
    """What reads have found and nobody has taken, in order."""


class LogReader:
    """The reads of one broker."""

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}
        self._by_number: dict[int, ReadLog] = {}
        self._waiting: deque[str] = deque()
        """The pubends for which something was found, in the order in which they get their turn."""
        self._last = 0
        self._effects: list[ReadLog] = []
        self._bytes_max = _READ_BYTES
        self.reads = 0

    def bound(self, effort: int) -> None:
        """Limits reads to what can be matched in one turn, given the effort for one message."""
        self._bytes_max = min(_READ_BYTES, max(_READ_BYTES_MIN, _MESSAGE_BYTES * TURN_EFFORT_MAX // (effort + 1)))

    def want(self, pubend: str, first: int, last: int) -> None:
        """Queues a request for these ticks."""
        reading = self._readings.setdefault(pubend, _Reading())
        reading.wanted.add(first, last)
        self._begin(pubend, reading)

    def take_effects(self) -> list[ReadLog]:
        """Returns the reads for the shell."""
        effects, self._effects = self._effects, []
        return effects

    def on_read(self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None) -> None:
        """A read has ended, complete up to a tick; ignores reads that were not ours."""
        read = self._by_number.pop(number, None)
        if read is None:
            return
        reading = self._readings[read.pubend]
        reading.under_way = None
        known_until = last if damaged is None else max(last, damaged.last)
        if known_until >= read.first:
            reading.wanted.remove(read.first, known_until)
            if not reading.found:
                self._waiting.append(read.pubend)
            reading.found.append(Found(read.pubend, read.first, last, messages, damaged))
        self._begin(read.pubend, reading)

    @property
    def has_found(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting)

    def take(self, messages_max: int) -> Found:
        """Takes the next part of what was found, with at most this many messages; pubends take turns."""
        pubend = self._waiting.popleft()
        reading = self._readings[pubend]
        found = reading.found.popleft()
        if len(found.messages) > messages_max:
            rest = found.messages[messages_max:]
            reading.found.appendleft(replace(found, first=rest[0][0], messages=rest))
            found = Found(pubend, found.first, rest[0][0] - 1, found.messages[:messages_max])
        if reading.found:
            self._waiting.append(pubend)
        self._begin(pubend, reading)
        return found

    def check_invariants(self) -> None:
        """Fails if results are forgotten, or too many wait."""
        assert sorted(self._waiting) == sorted(pubend for pubend, each in self._readings.items() if each.found)
        assert all(len(each.found) + (each.under_way is not None) <= _WAITING_MAX for each in self._readings.values())

    def _begin(self, pubend: str, reading: _Reading) -> None:
        if reading.under_way is not None or not reading.wanted or len(reading.found) >= _WAITING_MAX:
            return
        first, last = next(iter(reading.wanted))
        self._last += 1
        self.reads += 1
        read = reading.under_way = self._by_number[self._last] = ReadLog(
            self._last, pubend, first, last, self._bytes_max
        )
        self._effects.append(read)
