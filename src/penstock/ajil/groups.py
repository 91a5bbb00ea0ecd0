"""Numbers the names of groups and of their reporters, so that rates are arrays ([Ajil] section 5.1: 6,600 groups).

Nodes of one process may share an index; a report then reaches all of them as the same arrays. Bounded: names beyond the
bound are refused.
"""

from __future__ import annotations

from typing import Final

from penstock.model.errors import LimitError

__all__ = ["GROUPS_MAX", "GroupIndex"]

GROUPS_MAX: Final = 100_000


class GroupIndex:
    """Numbers names in the order in which they come."""

    def __init__(self, groups_max: int = GROUPS_MAX) -> None:
        self._numbers: dict[str, int] = {}
        self._max = groups_max
        self.names: list[str] = []
        """By number."""

    def number(self, name: str) -> int:
        """The number of a name; assigns one if it has none."""
        found = self._numbers.get(name)
        if found is None:
            if len(self.names) >= self._max:
                raise LimitError("the number of groups", len(self.names) + 1, self._max)
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found

    def get(self, name: str) -> int | None:
        """The number of a name; None if it is unknown."""
        return self._numbers.get(name)

    def __len__(self) -> int:
        return len(self.names)
