"""Limits how many lines of one kind go to a log per period, whoever causes them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

__all__ = ["LineLimit"]

_LINES_MAX: Final = 10
"""Lines of one kind per period."""
_PERIOD_S: Final = 10.0


class LineLimit:
    """Limits the lines that others can cause, by kind; the next line that is written says how many were left out."""

    def __init__(
        self, *, lines_max: int = _LINES_MAX, period_s: float = _PERIOD_S, clock: Callable[[], float] = monotonic
    ) -> None:
        self._lines_max = lines_max
        self._period_s = period_s
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def left_out(self, kind: str) -> int | None:
        """How many lines of this kind were left out before this one; None if this one is left out, too."""
        now_s = self._clock()
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Kind(now_s)
        if now_s >= found.began_s + self._period_s:
            found.began_s, found.lines = now_s, 0
        if found.lines >= self._lines_max:
            found.left_out += 1
            return None
        found.lines += 1
        left_out, found.left_out = found.left_out, 0
        return left_out


class _Kind:
    """Counts of one kind; this program names the kinds, so there are few."""

    __slots__ = ("began_s", "left_out", "lines")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.lines = 0
        self.left_out = 0
