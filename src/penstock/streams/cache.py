"""What an intermediate broker remembers of a pubend's recent ticks, to answer NACKs near where they arise.

[Gryphon] section 2: NACKs are answered by the first cache that holds the ticks. Data answers everybody. Silence answers
only if the filter that made it silent is at least as new as the one the asker has; so ranges are kept by the version of
each host's filter that they were narrowed by. Bounded in bytes: the oldest ticks go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.model.tick import TickRange
from penstock.model.tick_ranges import TickRanges
from penstock.streams.knowledge import Knowledge

__all__ = ["KnowledgeCache"]

_RANGE_BYTES = 64
"""What a range counts for, besides the data in it."""
_SEGMENTS_MAX = 64
"""Sets of versions that are told apart; older ones are forgotten."""


@dataclass(slots=True)
class _Segment:
    """Ticks whose silence was made by the same versions."""

    versions: Mapping[str, int]
    ticks: TickRanges


class KnowledgeCache:
    """Recent knowledge of one pubend."""

    def __init__(self, *, bytes_max: int) -> None:
        assert bytes_max > 0
        self._bytes_max = bytes_max
        self._data: dict[int, bytes] = {}
        self._segments: list[_Segment] = []
        self.data_bytes = 0

    @property
    def size_bytes(self) -> int:
        """What it counts for."""
        return self.data_bytes + _RANGE_BYTES * sum(each.ticks.range_count for each in self._segments)

    def add(self, first: int, last: int, data: tuple[tuple[int, bytes], ...], versions: Mapping[str, int]) -> None:
        """Remembers knowledge that was narrowed by these versions of the hosts' filters."""
        for tick, body in data:
            if tick not in self._data:
                self._data[tick] = body
                self.data_bytes += len(body)
        if self._segments and self._segments[-1].versions == versions:
            self._segments[-1].ticks.add(first, last)
        else:
            self._segments.append(_Segment(dict(versions), TickRanges.of((first, last))))
            del self._segments[:-_SEGMENTS_MAX]
        self._evict()

    def answer(self, first: int, last: int, *, host: str, version: int) -> tuple[list[Knowledge], list[TickRange]]:
        """What it knows of a range for a host with this version of its filter, and what it does not."""
        known = TickRanges()
        for segment in self._segments:
            if segment.versions.get(host, -1) >= version:
                for part in segment.ticks.within(first, last):
                    known.add(part.first, part.last)
        ticks = sorted(tick for tick in self._data if first <= tick <= last)
        for tick in ticks:
            known.add(tick, tick)
        answers = [
            Knowledge(part.first, part.last, tuple((t, self._data[t]) for t in ticks if part.covers(t)), version)
            for part in known
        ]
        return answers, list(known.gaps(first, last))

    def trim(self, below_tick: int) -> None:
        """Forgets what is final: everybody has it."""
        for tick in [tick for tick in self._data if tick < below_tick]:
            self.data_bytes -= len(self._data.pop(tick))
        for segment in self._segments:
            segment.ticks.remove_below(below_tick)
        self._segments = [segment for segment in self._segments if segment.ticks]

    def check_invariants(self) -> None:
        """Fails if the bytes do not add up, or are too many."""
        assert self.data_bytes == sum(map(len, self._data.values()))
        assert self.size_bytes <= self._bytes_max or not self._segments

    def _evict(self) -> None:
        while self.size_bytes > self._bytes_max and (self._data or self._segments):
            ends = [end for each in self._segments for end in (each.ticks.first, each.ticks.last) if end is not None]
            oldest, youngest = min([*self._data, *ends]), max([*self._data, *ends])
            # A quarter of the span at a time, so that a full cache is not trimmed at every message.
            self.trim(oldest + max(1, (youngest - oldest) // 4))
