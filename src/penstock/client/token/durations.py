"""Reads durations as people write them: ``"10 min"``, ``"4 s"``, ``"250 ms"``, or a number of seconds."""

from __future__ import annotations

import re
from typing import Final

from penstock.model.errors import MisuseError

__all__ = ["duration_ms"]

_UNITS_MS: Final = {
    **dict.fromkeys(("ms",), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_FORM: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def duration_ms(value: str | float, what: str = "the duration") -> int:
    """Convert a duration to milliseconds; raises ``MisuseError`` if it is invalid.

    >>> duration_ms("10 min"), duration_ms("0.5 s"), duration_ms(4)
    (600000, 500, 4000)
    """
    if isinstance(value, str):
        found = _FORM.fullmatch(value)
        if found is None or found[2].lower() not in _UNITS_MS:
            raise MisuseError(f"{what} is {value!r}, must be like '10 min', '4 s' or '250 ms'")
        ms = float(found[1]) * _UNITS_MS[found[2].lower()]
    else:
        ms = value * 1_000
    # NaN fails this check, too.
    if not 1 <= ms <= 400 * 86_400_000:
        raise MisuseError(f"{what} is {value!r}, must be 1 ms to 400 days")
    return round(ms)
