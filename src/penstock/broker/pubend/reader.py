"""Reads pubends' logs to answer NACKs: one read at a time per pubend, of bounded size, in the order of ticks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.broker.effects import ReadLog
from penstock.model.tick_ranges import TickRanges
from penstock.selectors.effort import TURN_EFFORT_MAX

__all__ = ["LogReader"]

_READ_BYTES: Final = 512 * 1024
"""Bytes per read: with less, a subscriber that is far behind mostly waits for commits between reads (make bench)."""
_READ_BYTES_MIN: Final = 4 * 1024
_MESSAGE_BYTES: Final = 100
"""The small size assumed for a message when the effort of matching bounds a read."""


@dataclass(slots=True)
class _Reading:
    """The pending reads of one pubend."""

    wanted: TickRanges = field(default_factory=TickRanges)
    under_way: ReadLog | None = None


class LogReader:
    """The reads of one broker."""

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}
        self._by_number: dict[int, ReadLog] = {}
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

    def on_read(self, number: int, last: int) -> ReadLog | None:
        """A read has ended, complete up to a tick; returns the request, or None if the read was not ours."""
        read = self._by_number.pop(number, None)
        if read is None:
            return None
        reading = self._readings[read.pubend]
        reading.under_way = None
        if last >= read.first:
            reading.wanted.remove(read.first, last)
        self._begin(read.pubend, reading)
        return read

    def _begin(self, pubend: str, reading: _Reading) -> None:
        if reading.under_way is not None or not reading.wanted:
            return
        first, last = next(iter(reading.wanted))
        self._last += 1
        self.reads += 1
        read = reading.under_way = self._by_number[self._last] = ReadLog(
            self._last, pubend, first, last, self._bytes_max
        )
        self._effects.append(read)
