"""Gathers the changes that one turn of the broker makes durable into one numbered commit.

Adding a change returns the number of its commit; once the shell reports all commits up to that number as durable, so is
the change.
"""

from __future__ import annotations

from penstock.broker.durable import Change
from penstock.broker.effects import Commit

__all__ = ["Commits"]


class Commits:
    """The commits made in one life of a broker."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._taken = 0
        self.durable = 0
        """The number of the last commit that is known to be durable."""

    @property
    def waiting(self) -> int:
        """Commits that the shell has not finished yet."""
        return self._taken - self.durable

    @property
    def last(self) -> int:
        """The number of the last commit that has changes, taken or not."""
        return self._taken + bool(self._changes)

    def add(self, change: Change) -> int:
        """Adds a change to this turn's commit and returns the number of the commit."""
        self._changes.append(change)
        return self._taken + 1

    def take(self) -> Commit | None:
        """Returns this turn's commit, if anything changed."""
        if not self._changes:
            return None
        self._taken += 1
        changes, self._changes = tuple(self._changes), []
        return Commit(self._taken, changes)

    def on_committed(self, number: int) -> None:
        """The shell has made everything up to a number durable."""
        assert self.durable <= number <= self._taken, f"commit {number} is not in {self.durable} .. {self._taken}"
        self.durable = number
