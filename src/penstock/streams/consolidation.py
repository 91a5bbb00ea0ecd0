"""NACKs on their way up: asked once for many, answered to those who asked ([Gryphon] section 2).

An intermediate broker forwards the same ticks at most once a second, whoever asks, and remembers who did: answers go
only towards those. Interest that was never satisfied is forgotten after a while; who still cares asks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.tick import TickRange
from penstock.model.tick_ranges import TickRanges

__all__ = ["NackBook"]


@dataclass(slots=True)
class _Interest:
    """What one child asked for and has not got."""

    wanted: TickRanges = field(default_factory=TickRanges)
    asked_ms: int = 0


class NackBook:
    """Who asked for what, of one pubend."""

    def __init__(
        self, *, forward_every_ms: int = 1_000, forget_after_ms: int = 10_000, ranges_max: int = 10_000
    ) -> None:
        assert 0 < forward_every_ms <= forget_after_ms
        self._every_ms, self._forget_ms, self._ranges_max = forward_every_ms, forget_after_ms, ranges_max
        self._interests: dict[str, _Interest] = {}
        """Of the children that want something; who has got everything is not in it."""
        self._forwarded: list[tuple[int, TickRanges]] = []
        self.refused = 0
        """Requests that were not taken, because a child has asked for too many ranges."""

    def ask(self, child: str, first: int, last: int, *, now_ms: int) -> list[TickRange]:
        """A child wants a range; answers with what must be asked for further up."""
        self._forget(now_ms)
        interest = self._interests.get(child) or _Interest()
        if interest.wanted.range_count >= self._ranges_max:
            self.refused += 1
            return []
        self._interests[child] = interest
        interest.wanted.add(first, last)
        interest.asked_ms = now_ms
        asking = TickRanges.of((first, last))
        for _, ticks in self._forwarded:
            asking.difference_update(ticks)
        if asking and self._forwarded and self._forwarded[-1][0] == now_ms:
            # A NACK of many ranges comes at one time: one entry, or each range would be compared with each before it.
            self._forwarded[-1][1].update(asking)
        elif asking:
            self._forwarded.append((now_ms, asking))
        return list(asking)

    def waiting(self, child: str) -> bool:
        """Whether a child has asked for anything that is not answered yet."""
        return child in self._interests

    def answered(self, first: int, last: int) -> dict[str, list[TickRange]]:
        """Ticks are known now; answers with who wanted which of them, and takes that off the book."""
        found: dict[str, list[TickRange]] = {}
        # Asked of each live batch, and mostly nobody waits.
        if not self._interests:
            return found
        for child, interest in self._interests.items():
            parts = list(interest.wanted.within(first, last))
            if parts:
                found[child] = parts
                interest.wanted.remove(first, last)
        for child in found:
            if not self._interests[child].wanted:
                del self._interests[child]
        for _, ticks in self._forwarded:
            ticks.remove(first, last)
        return found

    def leave(self, child: str) -> None:
        """A child is gone, and what it wanted with it."""
        self._interests.pop(child, None)

    def _forget(self, now_ms: int) -> None:
        self._forwarded = [each for each in self._forwarded if now_ms - each[0] < self._every_ms and each[1]]
        stale = [child for child, interest in self._interests.items() if now_ms - interest.asked_ms >= self._forget_ms]
        for child in stale:
            del self._interests[child]
