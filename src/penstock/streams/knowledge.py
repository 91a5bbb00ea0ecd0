"""Knowledge: a statement about a range of a pubend's ticks ([Gryphon] section 2).

Every tick of the range is either data, which the knowledge carries, or silence: nothing was published then, or nothing
that passes the filters by which the knowledge was narrowed. Silence is a promise, but only for those versions of the
filters. On the wire knowledge is a ``KnowledgeMessage``; everywhere else in a broker it is this one type.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.model.body import decode_attributes
from penstock.model.values import AttributeValue
from penstock.protocol.frames import KnowledgeKind

__all__ = ["COMPLETE", "Knowledge", "Versions"]

COMPLETE: Final = 2**62
"""The version of knowledge that no filter has narrowed: everybody believes its silence."""

Versions: TypeAlias = Mapping[str, tuple[int, int]]
"""Incarnation and version of each host's filter; never modified once made."""


@dataclass(slots=True)
class Knowledge:
    """What is known of a pubend's ticks from first to last, both included; never modified once made."""

    pubend: str
    first: int
    last: int
    ticks: Sequence[int] = ()
    """The ticks with data, ascending, all within the range."""
    bodies: Sequence[bytes] = ()
    """The messages, one for each of the ticks."""
    versions: Versions | None = None
    """The versions of the filters that narrowed it; None if no filter did."""
    kind: KnowledgeKind = KnowledgeKind.LIVE
    decoded: list[dict[str, AttributeValue]] | None = field(default=None, repr=False, compare=False)
    """The decoded attributes of the messages, if somebody needed them already; use ``attributes`` instead."""

    def __post_init__(self) -> None:
        # Made for each batch on the hot path, so whoever makes it must see to it that ticks ascend.
        assert self.first <= self.last, f"ticks {self.first} to {self.last} are no range"
        ticks = self.ticks
        assert len(ticks) == len(self.bodies), f"{len(ticks)} ticks have {len(self.bodies)} bodies"
        if ticks:
            assert self.first <= ticks[0], f"tick {ticks[0]} is out of range"
            assert ticks[-1] <= self.last, f"tick {ticks[-1]} is out of range"

    @property
    def attributes(self) -> list[dict[str, AttributeValue]]:
        """The attributes of the messages; decoded once, for all who look."""
        if self.decoded is None:
            self.decoded = [decode_attributes(body) for body in self.bodies]
        return self.decoded

    def within(self, first: int, last: int) -> Knowledge:
        """The part that covers these ticks, and the silence after them, which costs nothing to include."""
        low, high = bisect_left(self.ticks, first), bisect_right(self.ticks, last)
        end = self.ticks[high] - 1 if high < len(self.ticks) else self.last
        return self._part(max(first, self.first), end, low, high)

    def parts(self, bytes_max: int) -> Iterator[Knowledge]:
        """Splits the knowledge into parts with at most this much data, but at least one message each."""
        first, start, size = self.first, 0, 0
        for place, body in enumerate(self.bodies):
            size += len(body)
            if size > bytes_max and place > start:
                yield self._part(first, self.ticks[place] - 1, start, place)
                first, start, size = self.ticks[place], place, len(body)
        yield self._part(first, self.last, start, len(self.bodies)) if start else self

    def narrowed(self, places: Sequence[int], versions: Versions, kind: KnowledgeKind) -> Knowledge:
        """The same range with only the messages at these places, for hosts whose filters have these versions."""
        ticks, bodies = [self.ticks[place] for place in places], [self.bodies[place] for place in places]
        return Knowledge(self.pubend, self.first, self.last, ticks, bodies, versions, kind)

    def _part(self, first: int, last: int, start: int, end: int) -> Knowledge:
        decoded = None if self.decoded is None else self.decoded[start:end]
        ticks, bodies = self.ticks[start:end], self.bodies[start:end]
        return Knowledge(self.pubend, first, last, ticks, bodies, self.versions, self.kind, decoded)
