"""Knowledge: what one message says about a range of a pubend's ticks ([Gryphon] section 2).

Every tick of the range is either data, which the message carries, or silence: nothing was published then, or nothing
that passes the filter by which the message was narrowed. Silence is a promise, but only for that version of the filter.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Knowledge"]


@dataclass(slots=True, frozen=True)
class Knowledge:
    """What is known of the ticks from first to last, both included."""

    first: int
    last: int
    data: tuple[tuple[int, bytes], ...] = ()
    """Messages with their ticks, ascending, all within the range."""
    version: int = 0
    """The version of the receiver's filter by which it was narrowed; what newer versions want may be missing."""

    def __post_init__(self) -> None:
        assert self.first <= self.last, f"ticks {self.first} to {self.last} are no range"
        previous = self.first - 1
        for tick, _ in self.data:
            assert previous < tick <= self.last, f"tick {tick} is out of order or range"
            previous = tick

    def clipped(self, first: int, last: int) -> Knowledge | None:
        """The part of it that speaks of these ticks, if any."""
        low, high = max(first, self.first), min(last, self.last)
        if low > high:
            return None
        if (low, high) == (self.first, self.last):
            return self
        return Knowledge(low, high, tuple(each for each in self.data if low <= each[0] <= high), self.version)
