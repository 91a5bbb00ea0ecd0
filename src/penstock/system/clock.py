"""The clock of a live broker: wall time at its start, advanced by the monotonic clock.

A step of the wall clock (an operator, a leap second, a late NTP) must not fire every timer at once, nor stall them
all for an hour. The shell reads the clock once per stimulus and passes the value on.
"""

from __future__ import annotations

import time

__all__ = ["Clock"]

_NANOSECONDS_PER_MS = 1_000_000


class Clock:
    """Milliseconds since 1970 as an integer that never goes back."""

    __slots__ = ("_offset_ns", "started_ms")

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self.started_ms = self.now_ms()
        """When this clock was made; a broker's incarnation, since it grows with every start."""

    def now_ms(self) -> int:
        """The current time."""
        return (time.monotonic_ns() + self._offset_ns) // _NANOSECONDS_PER_MS
