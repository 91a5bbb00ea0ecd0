"""Measures the CPU time and memory of a live broker's process, and reports them to the broker periodically.

Only for a broker that balances itself: otherwise nothing is measured.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

from penstock.balancing.metrics import HostFigures

__all__ = ["Measuring", "memory_share"]


class Measuring:
    """Measures this process, and tells its broker."""

    def __init__(self, tell: Callable[[HostFigures], None]) -> None:
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None
        self._wall_ns, self._cpu_ns = time.monotonic_ns(), time.process_time_ns()

    def start(self, period_ms: int) -> None:
        """Report to the broker once per period."""
        self._timer = asyncio.get_running_loop().call_later(period_ms / 1000, self._measure, period_ms)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def figures(self) -> HostFigures:
        """CPU use since the last call, and memory use."""
        wall_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        spent_ns, self._cpu_ns = cpu_ns - self._cpu_ns, cpu_ns
        passed_ns, self._wall_ns = wall_ns - self._wall_ns, wall_ns
        # A broker can use one core at most.
        return HostFigures(min(spent_ns / passed_ns, 1.0) if passed_ns else 0.0, memory_share())

    def _measure(self, period_ms: int) -> None:
        self._timer = asyncio.get_running_loop().call_later(period_ms / 1000, self._measure, period_ms)
        self._tell(self.figures())


def memory_share() -> float:
    """The share of the machine's memory that this process uses."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    try:
        taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * page
    except (OSError, ValueError, IndexError):
        # Without /proc, use the peak.
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return min(taken / (page * pages), 1.0)
