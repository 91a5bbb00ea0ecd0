"""Keeps publishers' timestamps near the broker's clock: the skew adjustment δ ([Tracking] section 3.2).

The publisher applies δ when it makes identifiers (`penstock.model.message_id.MessageIdSource.adjust`). At connect δ is
the broker's clock less the publisher's; later the broker derives a new one from a timestamp that is out of tolerance.

Deviation from the paper: timestamps from before the connection are no sign of skew. They belong to messages that are
republished after a failure, and a δ made from them would send the publisher's timestamps into the future.
"""

from __future__ import annotations

from typing import Final

from penstock.model.errors import MisuseError

__all__ = ["SkewCheck", "measured_skew_ms"]

_SETTLE_MS: Final = 2_000


def measured_skew_ms(*, broker_ms: int, publisher_ms: int) -> int:
    """The δ of a publisher that connects: what it must add to its clock to match the broker's."""
    return broker_ms - publisher_ms


class SkewCheck:
    """Checks the clock of one connected publisher."""

    def __init__(self, tolerance_ms: int, skew_ms: int, *, now_ms: int, settle_ms: int = _SETTLE_MS) -> None:
        """For a publisher that has connected now, and was told to use this skew."""
        if tolerance_ms < 0:
            raise MisuseError(f"skew tolerance of {tolerance_ms} ms is negative")
        self._tolerance_ms = tolerance_ms
        self._settle_ms = settle_ms
        self._connected_ms = now_ms
        self._quiet_until_ms = now_ms
        self.skew_ms = skew_ms
        """The δ the publisher was last told."""
        self.corrections = 0

    def check(self, newest_ms: int, *, now_ms: int) -> int | None:
        """The δ that the publisher must use from now on, if the newest timestamp of a batch is out of tolerance.

        Messages in flight when it was told still have the old δ, so nothing is checked for a while after.
        """
        off_ms = now_ms - newest_ms
        if abs(off_ms) <= self._tolerance_ms or now_ms < self._quiet_until_ms:
            return None
        if newest_ms < self._connected_ms - self._tolerance_ms:
            return None
        self.skew_ms += off_ms
        self._quiet_until_ms = now_ms + self._settle_ms
        self.corrections += 1
        return self.skew_ms
