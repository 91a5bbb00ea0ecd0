"""Knowledge: what one message says about a range of a pubend's ticks ([Gryphon] section 2).

Every tick of the range is either data, which the message carries, or silence: nothing was published then, or nothing
that passes the filter by which the message was narrowed. Silence is a promise, but only for that version of the filter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["COMPLETE", "Knowledge"]

COMPLETE: Final = 2**62
"""The version of knowledge that no filter narrowed: everybody believes its silence."""


@dataclass(slots=True, frozen=True)
class Knowledge:
    """What is known of the ticks from first to last, both included."""

    first: int
    last: int
    ticks: Sequence[int] = ()
    """The ticks with data, ascending, all within the range."""
    bodies: Sequence[bytes] = ()
    """The data, one for each of the ticks."""
    version: int = 0
    """The version of the receiver's filter by which it was narrowed; what newer versions want may be missing.

    A negative one is older than any that can be demanded: only the data is believed then.
    """

    def __post_init__(self) -> None:
        # Made for each batch on the hot path: what costs more than a comparison is left to `check`.
        assert self.first <= self.last, f"ticks {self.first} to {self.last} are no range"
        ticks = self.ticks
        assert len(ticks) == len(self.bodies), f"{len(ticks)} ticks have {len(self.bodies)} bodies"
        if ticks:
            assert self.first <= ticks[0], f"tick {ticks[0]} is out of order or range"
            assert ticks[-1] <= self.last, f"tick {ticks[-1]} is out of order or range"

    def clipped(self, first: int, last: int) -> Knowledge | None:
        """The part of it that speaks of these ticks, if any."""
        if first <= self.first and self.last <= last:
            return self
        first, last = max(first, self.first), min(last, self.last)
        if first > last:
            return None
        low = bisect_left(self.ticks, first)
        high = bisect_right(self.ticks, last, low)
        return Knowledge(first, last, self.ticks[low:high], self.bodies[low:high], self.version)

    def check(self) -> None:
        """Fails if the ticks do not ascend within the range; for knowledge from a peer, and for tests."""
        previous = self.first - 1
        for tick in self.ticks:
            assert previous < tick <= self.last, f"tick {tick} is out of order or range"
            previous = tick
