"""Tracks when the parts of a broker want to be woken, without asking all of them after every stimulus.

Each part has a ``Due`` and tells it whenever something becomes due earlier; it need not report what is postponed or
cancelled. So a ``Due`` is never too late but may be too early: ``Dues`` asks the part that seems to be first, and
believes its answer. Most stimuli make nothing due earlier: then a shell that compares ``bound_ms`` with its timer need
not ask anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["Due", "Dues"]

_NEVER: Final = 2**63


class Due:
    """The time at which one part of a broker wants to be woken, or an earlier one."""

    __slots__ = ("_all", "_ask", "ms")

    def __init__(self, ask: Callable[[], int | None]) -> None:
        """Takes a function that returns the part's true deadline; nothing is known before it is first called."""
        self._ask = ask
        self.ms = 0
        self._all: Dues | None = None

    def join(self, dues: Dues) -> None:
        """Makes this one of several; their common bound follows it."""
        self._all = dues
        dues.bound_ms = min(dues.bound_ms, self.ms)

    def by(self, due_ms: int) -> None:
        """Notes that something in the part is due at this time."""
        if due_ms < self.ms:
            self.ms = due_ms
            if self._all is not None and due_ms < self._all.bound_ms:
                self._all.bound_ms = due_ms

    def ask(self) -> None:
        """Notes that the part may be due at any time, so that it is asked before the next deadline is known."""
        self.by(0)

    def settle(self) -> bool:
        """Asks the part for its deadline; returns whether the time known before was right."""
        said, truth = self.ms, self._ask()
        self.ms = _NEVER if truth is None else truth
        return self.ms == said

    def check(self) -> None:
        """Fails if the part would be woken too late."""
        truth = self._ask()
        assert truth is None or self.ms <= truth, f"{self._ask} says {truth}, and {self.ms} is known"


class Dues:
    """The deadlines of several parts."""

    __slots__ = ("_parts", "bound_ms")

    def __init__(self, parts: Iterable[Due]) -> None:
        self._parts = tuple(parts)
        self.bound_ms = 0
        """No part is due before this time."""
        for each in self._parts:
            each.join(self)

    def next(self) -> int | None:
        """The earliest time at which any of the parts is really due."""
        parts = self._parts
        while True:
            first = parts[0]
            for each in parts:
                if each.ms < first.ms:
                    first = each
            self.bound_ms = first.ms
            if first.ms == _NEVER:
                return None
            if first.settle():
                return first.ms

    def check(self) -> None:
        """Fails if a part would be woken too late."""
        for each in self._parts:
            each.check()
            assert self.bound_ms <= each.ms
