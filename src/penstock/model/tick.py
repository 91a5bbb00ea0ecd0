"""Ticks, the 64-bit positions in a pubend's stream: milliseconds (48) · counter (16).

A tick is a plain integer: streams hold millions of them, and compare and count them all day. It is formatted by hand,
since nothing in the protocol rooms may import a module that knows the time of day.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple, NewType

__all__ = ["TICK_MAX", "TICK_MIN", "Tick", "TickRange", "format_tick", "tick_at", "tick_counter", "tick_ms"]

Tick = NewType("Tick", int)
"""A position in a pubend's stream: milliseconds since 1970 in the upper 48 bits, a counter in the lower 16."""

TICK_MIN: Final = Tick(0)
"""The first possible tick."""
TICK_MAX: Final = Tick(2**64 - 1)
"""The last possible tick, in the year 10889."""

_COUNTER_BITS: Final = 16
_COUNTER_MAX: Final = 2**_COUNTER_BITS - 1
_MS_MAX: Final = TICK_MAX >> _COUNTER_BITS

_DAY_MS: Final = 86_400_000
_DAYS_TO_1970: Final = 719_468
"""Days from the first of March of the year 0 to the first of January 1970."""
_400_YEARS_DAYS: Final = 146_097
_100_YEARS_DAYS: Final = 36_524
_4_YEARS_DAYS: Final = 1_461
_YEAR_DAYS: Final = 365
_MONTH_STARTS: Final = (0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337)
"""The day on which each month starts in a year that begins in March, so that the leap day is its last."""


class TickRange(NamedTuple):
    """The ticks from first to last, both included."""

    first: Tick
    last: Tick

    def covers(self, tick: int) -> bool:
        """Whether the tick lies in the range."""
        return self.first <= tick <= self.last

    @property
    def tick_count(self) -> int:
        """Number of ticks in the range (not ``count``, which every tuple has and which means something else)."""
        return self.last - self.first + 1


def tick_at(ms: int, counter: int = 0) -> Tick:
    """The tick with this counter in this millisecond."""
    assert 0 <= ms <= _MS_MAX, f"millisecond {ms} is outside 0 to {_MS_MAX}"
    assert 0 <= counter <= _COUNTER_MAX, f"counter {counter} is outside 0 to {_COUNTER_MAX}"
    return Tick(ms << _COUNTER_BITS | counter)


def tick_ms(tick: Tick) -> int:
    """The millisecond of a tick."""
    return tick >> _COUNTER_BITS


def tick_counter(tick: Tick) -> int:
    """The counter of a tick within its millisecond."""
    return tick & _COUNTER_MAX


def format_tick(tick: Tick) -> str:
    """Time and counter of a tick, readable: ``2026-11-15T10:00:00.000Z+3``."""
    assert TICK_MIN <= tick <= TICK_MAX, f"tick {tick} is outside 64 bits"
    days, of_day_ms = divmod(tick_ms(tick), _DAY_MS)
    minutes, of_minute_ms = divmod(of_day_ms, 60_000)
    hour, minute = divmod(minutes, 60)
    second, ms = divmod(of_minute_ms, 1_000)
    year, month, day = _civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{ms:03d}Z+{tick_counter(tick)}"


def _civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of the date this many days after the first of January 1970 (Gregorian calendar)."""
    cycles, rest = divmod(days + _DAYS_TO_1970, _400_YEARS_DAYS)
    # The last century of a cycle, and the last year of four, are a day longer: that day must not start a fifth.
    centuries = min(rest // _100_YEARS_DAYS, 3)
    fours, rest = divmod(rest - centuries * _100_YEARS_DAYS, _4_YEARS_DAYS)
    years = min(rest // _YEAR_DAYS, 3)
    rest -= years * _YEAR_DAYS
    month = bisect_right(_MONTH_STARTS, rest) - 1
    year = 400 * cycles + 100 * centuries + 4 * fours + years
    day = rest - _MONTH_STARTS[month] + 1
    # January and February end the year that began in March, and belong to the next one.
    return (year, month + 3, day) if month < 10 else (year + 1, month - 9, day)
