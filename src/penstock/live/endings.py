"""The ends of connections: tells the broker of those that are gone, and waits for the last ones at a shutdown.

Removing a client costs time for each of its subscriptions. When many clients leave at once, the broker learns of them
as turns have time for it, so that the others do not have to wait for all of that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from penstock.live.connection import DRAIN_S, LINGER_S, Connection
from penstock.live.turns import Turns

__all__ = ["Departures", "wait_for_ends"]

_NUMBER: Final = -1
"""Its number as a worker, which no connection has."""


class Departures:
    """The lost connections that the broker of a node has yet to hear of, oldest first."""

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


async def wait_for_ends(connections: Mapping[int, Connection], *, seconds_max: float = DRAIN_S + LINGER_S) -> None:
    """Wait until all connections have closed; they leave the mapping by themselves, and are cut after a time limit."""
    ends = [asyncio.ensure_future(each.ended.wait()) for each in connections.values()]
    if not ends:
        return
    await asyncio.wait(ends, timeout=seconds_max)
    for connection in list(connections.values()):
        connection.abort()
    await asyncio.gather(*ends)
