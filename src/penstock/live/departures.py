"""Tells the broker of lost connections, as turns have time for it.

Removing a client costs time for each of its subscriptions; when many clients leave at once, the others should not have
to wait for all of that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.live.turns import Turns

__all__ = ["Departures"]

_NUMBER: Final = -1
"""Its number as a worker, which no connection has."""


class Departures:
    """Lost connections of one node, of which the broker has yet to hear, in order."""

    def __init__(self, turns: Turns, tell: Callable[[int], None]) -> None:
        self._turns, self._tell = turns, tell
        self._gone: deque[int] = deque()

    def add(self, number: int) -> None:
        """Note that a connection is gone."""
        self._gone.append(number)
        if len(self._gone) == 1:
            self.work()

    @property
    def number(self) -> int:
        """Its number as a worker."""
        return _NUMBER

    @property
    def uses_much(self) -> bool:
        """True: nobody waits for this work."""
        return True

    def flush(self) -> None:
        """Do nothing: there is nothing to send."""

    def work(self) -> None:
        """Tell the broker of as many lost connections as the turn has time for."""
        while self._gone:
            if self._turns.is_spent:
                self._turns.put_off(self)
                return
            self._turns.timed(partial(self._tell, self._gone.popleft()))
