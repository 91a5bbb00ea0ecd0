"""What an intermediate broker remembers of a pubend's recent ticks, to answer NACKs near where they arise.

[Gryphon] section 2: NACKs are answered by the first cache that holds the ticks. Silence answers only those hosts for
which the filter that made it silent is at least as new as the one that the asker has; so ranges are kept with the
versions of the hosts' filters that they were narrowed by. Of ticks that came twice, narrowed by different versions, all
data is kept: so for each host the later version counts. Bounded in bytes: the oldest ticks go first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from penstock.model.tick import TickRange
from penstock.protocol.frames import KnowledgeKind
from penstock.streams.knowledge import Knowledge, Versions
from penstock.streams.range_map import RangeMap

__all__ = ["KnowledgeCache"]

_RANGE_BYTES: Final = 128
"""What a range counts for, besides the data in it."""
_HOST_BYTES: Final = 16
"""What a range counts for per host of its versions: less than a mapping takes, since most ranges share theirs."""
_MESSAGE_BYTES: Final = 64
"""What a message counts for besides its body."""
_NONE: Final = (-1, -1)
"""Older than any version."""


class KnowledgeCache:
    """Recent knowledge of one pubend."""

    def __init__(self, pubend: str, *, bytes_max: int) -> None:
        assert bytes_max > 0
        self._pubend = pubend
        self._bytes_max = bytes_max
        self._ranges: RangeMap[Versions | None] = RangeMap(_later, _range_bytes)
        self._ticks: list[int] = []
        """Of the data, in order; all of them lie in ranges."""
        self._bodies: list[bytes] = []
        self.data_bytes = 0
        """The bodies, without what else counts."""

    @property
    def size_bytes(self) -> int:
        """What it counts for: bodies, messages and ranges."""
        return self.data_bytes + _MESSAGE_BYTES * len(self._ticks) + self._ranges.weight

    def add(self, knowledge: Knowledge) -> None:
        """Remembers knowledge; quickest if its versions are the very mapping of the one before."""
        ticks, bodies = knowledge.ticks, knowledge.bodies
        if ticks and self._ticks and ticks[0] <= self._ticks[-1]:
            self._insert(ticks, bodies)
        else:
            self._ticks += ticks
            self._bodies += bodies
            self.data_bytes += sum(map(len, bodies))
        self._ranges.put(knowledge.first, knowledge.last, knowledge.versions)
        if self.size_bytes > self._bytes_max:
            self._evict()

    def answer(
        self, first: int, last: int, *, host: str, version: tuple[int, int]
    ) -> tuple[list[Knowledge], list[TickRange]]:
        """What it knows of a range for a host with this version of its filter, and what it does not.

        The silence behind the range belongs to the answer: it costs nothing, and saves many questions.
        """
        answers: list[Knowledge] = []
        missing: list[TickRange] = []
        start = first
        for low, high, versions in self._ranges.within(first, last):
            if versions is not None and versions.get(host, _NONE) < version:
                continue
            if low > start:
                missing.append(TickRange._make((start, low - 1)))
            start = high + 1
            begin = bisect_left(self._ticks, low)
            end = bisect_right(self._ticks, high, begin)
            until = self._silent_until(high, end) if high == last else high
            ticks, bodies = self._ticks[begin:end], self._bodies[begin:end]
            answers.append(Knowledge(self._pubend, low, until, ticks, bodies, versions, KnowledgeKind.ANSWER))
        if start <= last:
            missing.append(TickRange._make((start, last)))
        return answers, missing

    def trim(self, below_tick: int) -> None:
        """Forgets what is final: everybody has it."""
        self._ranges.remove_below(below_tick)
        count = bisect_left(self._ticks, below_tick)
        if count:
            self.data_bytes -= sum(map(len, self._bodies[:count]))
            del self._ticks[:count], self._bodies[:count]

    def check_invariants(self) -> None:
        """Fails if the parts contradict each other, or are too many."""
        self._ranges.check_invariants()
        assert self._ticks == sorted(set(self._ticks)), "ticks ascend"
        assert len(self._ticks) == len(self._bodies), "every tick has a body"
        assert self.data_bytes == sum(map(len, self._bodies)), "the bytes add up"
        assert self.size_bytes <= self._bytes_max, f"{self.size_bytes} bytes exceed {self._bytes_max}"
        # Ranges are disjoint and ticks differ, so counting says it, at far less cost than looking for each tick.
        inside = sum(
            bisect_right(self._ticks, last) - bisect_left(self._ticks, first) for first, last, _ in self._ranges
        )
        assert inside == len(self._ticks), "data lies in ranges"

    def _silent_until(self, tick: int, place: int) -> int:
        """The last tick of the silence behind a tick that is known; at the place stands the data that follows."""
        end = self._ranges.end_of(tick)
        return min(end, self._ticks[place] - 1) if place < len(self._ticks) else end

    def _insert(self, ticks: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Adds data in the midst of other data, of which it may have some."""
        low, high = bisect_left(self._ticks, ticks[0]), bisect_right(self._ticks, ticks[-1])
        merged = dict(zip(self._ticks[low:high], self._bodies[low:high], strict=True))
        self.data_bytes -= sum(map(len, self._bodies[low:high]))
        merged.update(zip(ticks, bodies, strict=True))
        self._ticks[low:high] = sorted(merged)
        self._bodies[low:high] = [merged[tick] for tick in self._ticks[low : low + len(merged)]]
        self.data_bytes += sum(map(len, merged.values()))

    def _evict(self) -> None:
        """Forgets the oldest ticks, an eighth more than it must, so that a full cache is not cut at every batch."""
        excess_bytes = self.size_bytes - self._bytes_max + self._bytes_max // 8
        below_tick = place = 0
        for _, last, versions in self._ranges:
            end = bisect_right(self._ticks, last, place)
            while place < end and excess_bytes > 0:
                excess_bytes -= _MESSAGE_BYTES + len(self._bodies[place])
                below_tick = self._ticks[place] + 1
                place += 1
            if excess_bytes <= 0:
                break
            excess_bytes -= _range_bytes(versions)
            below_tick = last + 1
        self.trim(below_tick)
        assert self.size_bytes <= self._bytes_max, f"{self.size_bytes} bytes exceed {self._bytes_max}"


def _range_bytes(versions: Versions | None) -> int:
    return _RANGE_BYTES + (_HOST_BYTES * len(versions) if versions else 0)


def _later(old: Versions | None, new: Versions | None) -> Versions | None:
    """By which versions ticks are narrowed whose data came by both; one of the two itself, where it says it all."""
    if old is new or new is None:
        return new
    if old is None:
        return None
    merged = dict(old)
    for host, version in new.items():
        if merged.get(host, _NONE) < version:
            merged[host] = version
    if merged == new:
        return new
    return old if merged == old else merged
