"""When the parts of a broker want to be woken, known without asking all of them after every stimulus.

Each part has a ``Due`` and tells it whenever something of its own becomes due earlier; what moves to a later time, or
away, need not be told. So what a ``Due`` says is never too late, but may be too early: ``next_due`` asks the part that
seems to be first, and believes what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["Due", "next_due"]

_NEVER: Final = 2**63


class Due:
    """When one part of a broker wants to be woken, or a time before that."""

    __slots__ = ("_ask", "ms")

    def __init__(self, ask: Callable[[], int | None]) -> None:
        """The part is asked for the truth by this, and nothing is known before it is asked for the first time."""
        self._ask = ask
        self.ms = 0

    def by(self, due_ms: int) -> None:
        """Something of the part is due at this time."""
        self.ms = min(self.ms, due_ms)

    def ask(self) -> None:
        """The part may be due at any time: it is asked when somebody wants to know."""
        self.ms = 0

    def settle(self) -> bool:
        """Asks the part; whether what was said before is the truth."""
        said, truth = self.ms, self._ask()
        self.ms = _NEVER if truth is None else truth
        return self.ms == said

    def check(self) -> None:
        """Fails if the part would be woken too late."""
        truth = self._ask()
        assert truth is None or self.ms <= truth, f"{self._ask} says {truth}, and {self.ms} is known"


def next_due(dues: Sequence[Due]) -> int | None:
    """The earliest time at which one of them is really due."""
    while True:
        first = dues[0]
        for each in dues:
            if each.ms < first.ms:
                first = each
        if first.ms == _NEVER:
            return None
        if first.settle():
            return first.ms
