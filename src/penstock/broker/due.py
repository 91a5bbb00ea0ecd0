"""Tracks when the parts of a broker want to be woken, without asking all of them after every stimulus.

Each part has a ``Due`` and tells it whenever something becomes due earlier; it need not report what is postponed or
cancelled. So a ``Due`` is never too late but may be too early: ``next_due`` asks the part that seems to be first, and
believes its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["Due", "next_due"]

_NEVER: Final = 2**63


class Due:
    """The time at which one part of a broker wants to be woken, or an earlier one."""

    __slots__ = ("_ask", "ms")

    def __init__(self, ask: Callable[[], int | None]) -> None:
        """Takes a function that returns the part's true deadline; nothing is known before it is first called."""
        self._ask = ask
        self.ms = 0

    def by(self, due_ms: int) -> None:
        """Notes that something in the part is due at this time."""
        self.ms = min(self.ms, due_ms)

    def ask(self) -> None:
        """Notes that the part may be due at any time, so that it is asked before the next deadline is known."""
        self.ms = 0

    def settle(self) -> bool:
        """Asks the part for its deadline; returns whether the time known before was right."""
        said, truth = self.ms, self._ask()
        self.ms = _NEVER if truth is None else truth
        return self.ms == said

    def check(self) -> None:
        """Fails if the part would be woken too late."""
        truth = self._ask()
        assert truth is None or self.ms <= truth, f"{self._ask} says {truth}, and {self.ms} is known"


def next_due(dues: Sequence[Due]) -> int | None:
    """The earliest time at which any of these parts is really due."""
    while True:
        first = dues[0]
        for each in dues:
            if each.ms < first.ms:
                first = each
        if first.ms == _NEVER:
            return None
        if first.settle():
            return first.ms
