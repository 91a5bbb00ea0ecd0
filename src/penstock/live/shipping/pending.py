"""Tracks what a broker has made durable since it was last shipped, by watching its commits.

The broker itself is not asked. Only durable changes count: a record is read from the store when its turn comes, and
before its commit it would seem unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from penstock.broker.durable import KeepRecord, SetValue
from penstock.broker.effects import Commit
from penstock.live.shipping.rows import POSITION_PREFIX, is_shipped

__all__ = ["Pending"]


class Pending:
    """Names of records, in the order in which they last changed; bounded by the number of records."""

    def __init__(self) -> None:
        self._submitted: deque[Commit] = deque()
        self._names: dict[str, int] = {}
        self._positions: dict[str, bytes | None] = {}
        self._stamp = 0

    def __len__(self) -> int:
        return len(self._names) + len(self._positions)

    def begin(self, names: Iterable[str], positions: Mapping[str, bytes | None]) -> None:
        """Add what an earlier run left to be shipped."""
        for name in names:
            if is_shipped(name):
                self._mark(name)
        self._positions = {**positions, **self._positions}

    def on_submitted(self, commit: Commit) -> None:
        """A commit is on its way to the store."""
        self._submitted.append(commit)

    def on_committed(self, number: int) -> None:
        """All commits up to this number are durable."""
        while self._submitted and self._submitted[0].number <= number:
            for change in self._submitted.popleft().changes:
                if isinstance(change, KeepRecord):
                    if is_shipped(change.name):
                        self._mark(change.name)
                elif isinstance(change, SetValue) and change.name.startswith(POSITION_PREFIX):
                    self._positions[change.name] = change.value

    def names(self) -> dict[str, int]:
        """The records that have changed, each with a stamp of its last change."""
        return dict(self._names)

    def positions(self) -> dict[str, bytes | None]:
        """The positions that have changed."""
        return dict(self._positions)

    def on_shipped(self, stamps: Mapping[str, int], positions: Mapping[str, bytes | None]) -> None:
        """Remove what was shipped; what has changed meanwhile stays pending."""
        for name, stamp in stamps.items():
            if self._names.get(name) == stamp:
                del self._names[name]
        for name, value in positions.items():
            if name in self._positions and self._positions[name] == value:
                del self._positions[name]

    def _mark(self, name: str) -> None:
        self._stamp += 1
        self._names.pop(name, None)
        self._names[name] = self._stamp
