"""Tracks how much a channel may still send in an epoch: its quota, spread over the epoch ([Ajil] section 4.2).

Whole packets seldom fill a quota exactly. The remainder, up to one packet, carries over to the next epoch, so that the
rate matches the quota on average. Under a hard limit nothing is carried over.
"""

from __future__ import annotations

from math import inf

__all__ = ["Allowance"]


class Allowance:
    """A channel's quotas in bytes and in packets, epoch by epoch."""

    def __init__(self) -> None:
        self._quota = (inf, inf)
        self._used = [0.0, 0.0]
        self._carried = (0.0, 0.0)
        self._largest = 0

    def start(self, quota_bytes: float, quota_packets: float, *, carries: bool = True) -> None:
        """Begins an epoch with these quotas."""
        self._carried = (self._left(0), self._left(1)) if carries else (0.0, 0.0)
        self._quota = (quota_bytes, quota_packets)
        self._used = [-each for each in self._carried]

    def _left(self, place: int) -> float:
        """The remainder for the next epoch, at most one packet; negative if too much was used."""
        left = self._quota[place] - self._used[place]
        return min(left, 1.0 if place else self._largest) if left < inf else 0.0

    @property
    def rounding(self) -> tuple[float, float]:
        """Bytes and packets by which sending whole packets made this epoch's traffic smaller than on average."""
        # Debts do not count: that traffic was sent, and was too much.
        before, after = ([max(each, 0.0) for each in pair] for pair in (self._carried, (self._left(0), self._left(1))))
        return after[0] - before[0], after[1] - before[1]

    def change(self, quota_bytes: float, quota_packets: float) -> None:
        """Changes the quotas of this epoch; what was used stays used."""
        self._quota = (quota_bytes, quota_packets)

    def take(self, size: int, *, part: float = 1.0) -> bool:
        """Whether a packet may be sent now that this part of the epoch has passed; counts it if so."""
        self._largest = max(self._largest, size)
        if not self.fits(size, part=part):
            return False
        self._used[0] += size
        self._used[1] += 1
        return True

    def fits(self, size: int, *, part: float = 1.0) -> bool:
        """Whether a packet could be sent now."""
        return self._used[0] + size <= self._quota[0] * part and self._used[1] + 1 <= self._quota[1] * part
