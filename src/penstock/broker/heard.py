"""Knowledge as a broker hears it: of a stretch of a pubend's stream, narrowed by some versions of hosts' filters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from penstock.broker.transit.lanes import Versions
from penstock.model.body import decode_attributes
from penstock.model.values import AttributeValue
from penstock.protocol.frames import KnowledgeKind

__all__ = ["Heard"]


class Heard:
    """Knowledge as it arrived, or as the pubend itself has it."""

    __slots__ = ("_attributes", "bodies", "first", "kind", "last", "pubend", "ticks", "versions")

    def __init__(
        self,
        pubend: str,
        first: int,
        last: int,
        ticks: Sequence[int],
        bodies: Sequence[bytes],
        versions: Versions | None,
        kind: KnowledgeKind = KnowledgeKind.LIVE,
        attributes: list[dict[str, AttributeValue]] | None = None,
    ) -> None:
        self.pubend = pubend
        self.first, self.last = first, last
        self.ticks, self.bodies = ticks, bodies
        self.versions = versions
        """By which filters it was narrowed; None if by none."""
        self.kind = kind
        self._attributes = attributes

    @property
    def attributes(self) -> list[dict[str, AttributeValue]]:
        """The attributes of the messages; taken out of them once, for all who look."""
        if self._attributes is None:
            self._attributes = [decode_attributes(body) for body in self.bodies]
        return self._attributes

    def within(self, first: int, last: int) -> Heard:
        """The part of it that speaks of these ticks, and of the silence behind them: that costs nothing to say."""
        low, high = bisect_left(self.ticks, first), bisect_right(self.ticks, last)
        return Heard(
            self.pubend,
            max(first, self.first),
            self.ticks[high] - 1 if high < len(self.ticks) else self.last,
            self.ticks[low:high],
            self.bodies[low:high],
            self.versions,
            self.kind,
            None if self._attributes is None else self._attributes[low:high],
        )
