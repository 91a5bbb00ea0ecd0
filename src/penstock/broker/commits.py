"""The changes that a turn of the broker makes durable, gathered into one commit with a number.

Whoever adds a change learns the number of the commit it will be in; when the shell says that all commits up to that
number are durable, so is the change.
"""

from __future__ import annotations

from penstock.broker.durable import Change
from penstock.broker.effects import Commit

__all__ = ["Commits"]


class Commits:
    """The commits of one broker's life."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._taken = 0
        self.durable = 0
        """The number of the last commit that is known to be durable."""

    @property
    def waiting(self) -> int:
        """Commits that the shell has not finished yet."""
        return self._taken - self.durable

    def add(self, change: Change) -> int:
        """Puts a change into the commit of this turn, whose number is the answer."""
        self._changes.append(change)
        return self._taken + 1

    def take(self) -> Commit | None:
        """The commit of this turn, if anything changed."""
        if not self._changes:
            return None
        self._taken += 1
        changes, self._changes = tuple(self._changes), []
        return Commit(self._taken, changes)

    def on_committed(self, number: int) -> None:
        """The shell has made everything up to a number durable."""
        assert self.durable <= number <= self._taken, f"commit {number} is not in {self.durable} .. {self._taken}"
        self.durable = number
