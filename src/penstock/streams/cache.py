"""An intermediate broker's cache of a pubend's recent ticks, to answer NACKs near where they arise.

[Gryphon] section 2: the first cache that holds the ticks answers a NACK. Silence is an answer only for hosts whose
current filter is no newer than the version that the silence was narrowed by; so each range is kept with the versions
of the hosts' filters that narrowed it. If ticks arrive twice, narrowed by different versions, the cache keeps all data
of both, so the later version counts for each host. The cache is bounded in bytes: the oldest ticks go first.
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
"""Cost of a range, besides the data in it."""
_HOST_BYTES: Final = 16
"""Cost of a range per host in its versions: less than a mapping takes, since most ranges share theirs."""
_MESSAGE_BYTES: Final = 64
"""Cost of a message besides its body."""
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
        """The ticks of the data, in order; all of them lie in ranges."""
        self._bodies: list[bytes] = []
        self.data_bytes = 0
        """Bytes of the bodies alone."""

    @property
    def size_bytes(self) -> int:
        """Size of the cache: bodies, messages and ranges."""
        return self.data_bytes + _MESSAGE_BYTES * len(self._ticks) + self._ranges.weight

    def add(self, knowledge: Knowledge) -> None:
        """Adds knowledge; fastest if its versions are the same mapping object as the previous one's."""
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
        """What the cache knows of a range for a host with this version of its filter, and the ranges it does not know.

        The answer includes the silence after the range: it costs nothing, and saves many NACKs.
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
        """Drops ticks that are final: everybody has them."""
        self._ranges.remove_below(below_tick)
        count = bisect_left(self._ticks, below_tick)
        if count:
            self.data_bytes -= sum(map(len, self._bodies[:count]))
            del self._ticks[:count], self._bodies[:count]

    def check_invariants(self) -> None:
        """Fails if the parts contradict each other or exceed the bound."""
        self._ranges.check_invariants()
        assert self._ticks == sorted(set(self._ticks)), "ticks ascend"
        assert len(self._ticks) == len(self._bodies), "every tick has a body"
        assert self.data_bytes == sum(map(len, self._bodies)), "the bytes add up"
        assert self.size_bytes <= self._bytes_max, f"{self.size_bytes} bytes exceed {self._bytes_max}"
        # Ranges are disjoint and ticks distinct, so counting proves it at far less cost than looking up each tick.
        inside = sum(
            bisect_right(self._ticks, last) - bisect_left(self._ticks, first) for first, last, _ in self._ranges
        )
        assert inside == len(self._ticks), "data lies in ranges"

    def _silent_until(self, tick: int, place: int) -> int:
        """The last tick of the silence after a known tick; ``place`` is the index of the next data."""
        end = self._ranges.end_of(tick)
        return min(end, self._ticks[place] - 1) if place < len(self._ticks) else end

    def _insert(self, ticks: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Adds data in the middle of other data; some of it may be there already."""
        low, high = bisect_left(self._ticks, ticks[0]), bisect_right(self._ticks, ticks[-1])
        merged = dict(zip(self._ticks[low:high], self._bodies[low:high], strict=True))
        self.data_bytes -= sum(map(len, self._bodies[low:high]))
        merged.update(zip(ticks, bodies, strict=True))
        self._ticks[low:high] = sorted(merged)
        self._bodies[low:high] = [merged[tick] for tick in self._ticks[low : low + len(merged)]]
        self.data_bytes += sum(map(len, merged.values()))

    def _evict(self) -> None:
        """Evicts the oldest ticks, an eighth of the bound more than needed, so that not every batch evicts again."""
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
    """The versions that narrow ticks received under both; returns one of the two itself where it covers the other."""
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
