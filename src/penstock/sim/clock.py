"""The virtual clock of the simulator: a heap of callbacks, run in the order of (time, serial).

Time is in whole microseconds: fine enough for a frame on a fast wire, and exact, so that a run can be repeated. Brokers
see milliseconds. The world bounds the heap: wires, brokers and clients keep a few timers each.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

__all__ = ["Callback", "Clock", "Timer"]

Callback: TypeAlias = Callable[[], object]
Timer: TypeAlias = list[Any]
"""Time, serial and callback of a future event. A bare list, as one is made per hop; only the clock looks inside."""

_CALLBACK: Final = 2


class Clock:
    """Virtual time, and everything still to happen in it."""

    __slots__ = ("_heap", "_serial", "now_us", "steps")

    def __init__(self, start_us: int = 0) -> None:
        self._heap: list[Timer] = []
        self._serial = 0
        self.now_us = start_us
        """The present, in microseconds."""
        self.steps = 0
        """Callbacks run so far."""

    @property
    def now_ms(self) -> int:
        """The present, in whole milliseconds, as brokers and clients see it."""
        return self.now_us // 1_000

    @property
    def pending(self) -> int:
        """Callbacks that wait, cancelled ones included."""
        return len(self._heap)

    def at(self, time_us: int, callback: Callback) -> Timer:
        """Call back at this time; callbacks for the same time run in the order of the calls."""
        assert time_us >= self.now_us, f"time {time_us} lies {self.now_us - time_us} microseconds in the past"
        self._serial = serial = self._serial + 1
        timer: Timer = [time_us, serial, callback]
        heappush(self._heap, timer)
        return timer

    def after(self, delay_us: int, callback: Callback) -> Timer:
        """Call back after this delay."""
        return self.at(self.now_us + delay_us, callback)

    @staticmethod
    def cancel(timer: Timer) -> None:
        """Forget the callback; its place in the heap is freed when its time comes. Harmless after it has run."""
        timer[_CALLBACK] = _nothing

    def run_until(self, end_us: int) -> None:
        """Run all callbacks up to this time, which is the present afterwards."""
        assert end_us >= self.now_us, f"end {end_us} lies before the present, {self.now_us}"
        heap, steps = self._heap, 0
        try:
            while heap and heap[0][0] <= end_us:
                time_us, _, callback = heappop(heap)
                self.now_us = time_us
                steps += 1
                callback()
        finally:
            self.steps += steps
        self.now_us = end_us

    def run_for(self, duration_us: int) -> None:
        """Run all callbacks within this time from now."""
        self.run_until(self.now_us + duration_us)


def _nothing() -> None:
    """The callback of a cancelled timer."""
