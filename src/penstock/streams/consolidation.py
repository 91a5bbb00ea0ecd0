"""Consolidates NACKs on their way up: asks once for many children, and answers those that asked ([Gryphon] section 2).

An intermediate broker forwards a NACK for the same ticks at most once a second, whoever asks, and remembers which
children asked: answers go only to those. Interest that is never satisfied is forgotten after a while; a child that
still needs the ticks asks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.tick import TickRange
from penstock.model.tick_ranges import TickRanges

__all__ = ["NackBook"]


@dataclass(slots=True)
class _Interest:
    """The ticks that one child asked for and has not received."""

    wanted: TickRanges = field(default_factory=TickRanges)
    asked_ms: int = 0


class NackBook:
    """Which child asked for which ticks of one pubend."""

    def __init__(
        self, *, forward_every_ms: int = 1_000, forget_after_ms: int = 10_000, ranges_max: int = 10_000
    ) -> None:
        assert 0 < forward_every_ms <= forget_after_ms
        self._every_ms, self._forget_ms, self._ranges_max = forward_every_ms, forget_after_ms, ranges_max
        self._interests: dict[str, _Interest] = {}
        """Interests by child; a child that has received everything has no entry."""
        self._forwarded: list[tuple[int, TickRanges]] = []
        self.refused = 0
        """Requests refused because the child was waiting for too many ranges."""

    def ask(self, child: str, first: int, last: int, *, now_ms: int) -> list[TickRange]:
        """Records that a child wants a range; returns what must be requested further up."""
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
            # The ranges of one NACK share an entry; otherwise each would be compared with every one before it.
            self._forwarded[-1][1].update(asking)
        elif asking:
            self._forwarded.append((now_ms, asking))
        return list(asking)

    def waiting(self, child: str) -> bool:
        """Whether a child still waits for an answer."""
        return child in self._interests

    def answered(self, first: int, last: int) -> dict[str, list[TickRange]]:
        """Returns which children wanted which of these ticks, now known, and takes those off the book."""
        found: dict[str, list[TickRange]] = {}
        # Called for each live batch, and mostly nobody waits.
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
        """Forgets a child that has gone, and what it wanted."""
        self._interests.pop(child, None)

    def _forget(self, now_ms: int) -> None:
        self._forwarded = [each for each in self._forwarded if now_ms - each[0] < self._every_ms and each[1]]
        stale = [child for child, interest in self._interests.items() if now_ms - interest.asked_ms >= self._forget_ms]
        for child in stale:
            del self._interests[child]
