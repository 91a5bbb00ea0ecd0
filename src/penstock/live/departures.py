"""Connections that are gone, of which the broker is told as turns have time for it.

A client that leaves takes its subscriptions with it, which costs by their number; when many leave at once, the others
should not have to wait for all of that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.live.turns import Turns

__all__ = ["Departures"]

_NUMBER: Final = -1
"""By which turns know it: no connection has it."""


class Departures:
    """The connections of one node that are gone, first come, first told."""

    def __init__(self, turns: Turns, tell: Callable[[int], None]) -> None:
        self._turns, self._tell = turns, tell
        self._gone: deque[int] = deque()

    def add(self, number: int) -> None:
        """A connection is gone."""
        self._gone.append(number)
        if len(self._gone) == 1:
            self.work()

    @property
    def number(self) -> int:
        """By which turns know it."""
        return _NUMBER

    @property
    def uses_much(self) -> bool:
        """Nobody waits for it."""
        return True

    def flush(self) -> None:
        """Nothing of it has to be sent."""

    def work(self) -> None:
        """Tell the broker of as many as the turn has time for."""
        while self._gone:
            if self._turns.is_spent:
                self._turns.put_off(self)
                return
            self._turns.timed(partial(self._tell, self._gone.popleft()))
