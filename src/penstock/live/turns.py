"""Schedules the work of a node in turns: the budget of each, who waits for the next one, and the writes at its end.

A turn is one round of the event loop. Frames that arrive together are handled in slices, and a slice is sized to fit
the budget of a turn, by what the connection's frames cost lately. When the budget is spent, the rest waits for later
turns, and nothing more is read from its connection: so the others are served in between, whatever one peer sends.
Waiting connections take their turns in the order in which they began to wait, but those that have used much time
lately come after all others: only the first of them is sure of a slice. So a light user is served next to any number of
connections that use all they can get. The clock is read twice per slice. What follows from the frames of a whole turn
is done once at its end, and the connections that sent them share its cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

__all__ = ["TURN_S", "Pace", "Turns", "Worker"]

TURN_S: Final = 0.005
"""Time that a turn may spend on frames before the rest has to wait; one frame that costs more is handled whole."""
_SLICE_MAX: Final = 2_048
"""Largest weight of a slice, however cheap frames were lately: they may become expensive."""
_UNIT_START_S: Final = 100e-6
"""Assumed cost of a message before any was handled: a new peer may send expensive ones."""
_LIGHT_S: Final = 0.002
"""A connection whose slices take no longer than this is served at once, even when a turn is spent."""
_SHARE: Final = 0.1
"""The share of a processor that a connection may use without having to wait for others that use less."""
_DEBT_S_MAX: Final = 0.05
"""Time that a connection may use above its share before that counts against it."""


class Worker(Protocol):
    """A connection, as turns see it."""

    @property
    def number(self) -> int:
        """The number that identifies it."""

    @property
    def uses_much(self) -> bool:
        """Whether it has used so much time lately that others go first."""

    def flush(self) -> None:
        """Write what is queued to be sent."""

    def work(self) -> None:
        """Handle received data, until the turn is spent."""


class Pace:
    """What the frames of one connection cost lately, which sizes its next slice."""

    __slots__ = ("_debt_s", "_noted_s", "_slice_s", "_unit_s", "_weight", "is_heavy", "weight_max")

    def __init__(self) -> None:
        self._unit_s = _UNIT_START_S
        # A newcomer goes after all that are already here.
        self._debt_s = _DEBT_S_MAX
        self._noted_s = 0.0
        self._slice_s = 0.0
        self._weight = 1
        """``_slice_s`` and ``_weight``: of the last slice, with what was charged for it since."""
        self.is_heavy = True
        """Whether its last slice was not light, or it has had none: then it has to wait where others do not."""
        self.weight_max = int(TURN_S / _UNIT_START_S)
        """The weight of the next slice; at least one."""

    @property
    def uses_much(self) -> bool:
        """Whether it has used more than its share lately."""
        return self._debt_s >= _DEBT_S_MAX

    def note(self, weight: int, took_s: float, *, now_s: float) -> None:
        """Account for a slice."""
        # Comparisons instead of ``min`` and ``max``: this is on the path of every message.
        debt_s = self._debt_s
        if self._noted_s:
            debt_s -= _SHARE * (now_s - self._noted_s)
        self._noted_s = now_s
        self._owe(took_s if debt_s < 0.0 else debt_s + took_s)
        self._slice_s = took_s
        self._weight = weight if weight > 1 else 1  # noqa: FURB136 - see above
        unit_s = took_s / self._weight
        if unit_s < self._unit_s:
            # The estimate rises at once, and falls gradually.
            unit_s = (self._unit_s + unit_s) / 2
        self._price(unit_s)
        self.is_heavy = took_s > _LIGHT_S

    def charge(self, took_s: float) -> None:
        """Account for time spent on the frames of its last slice after the slice, as if it had been a part of it."""
        self._owe(self._debt_s + took_s)
        self._slice_s += took_s
        unit_s = self._slice_s / self._weight
        if unit_s > self._unit_s:
            self._price(unit_s)
        if self._slice_s > _LIGHT_S:
            self.is_heavy = True

    def _price(self, unit_s: float) -> None:
        self._unit_s = unit_s
        if unit_s * _SLICE_MAX <= TURN_S:
            self.weight_max = _SLICE_MAX
        else:
            self.weight_max = int(TURN_S / unit_s) or 1

    def _owe(self, debt_s: float) -> None:
        # Twice the limit at most, so that heavy use is forgiven in a second.
        self._debt_s = min(debt_s, 2 * _DEBT_S_MAX)


class Turns:
    """The current turn, and who waits for the next."""

    def __init__(
        self,
        *,
        give_up: Callable[[Worker, Exception], None],
        settle: Callable[[], None],
        on_end: Callable[[], None],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Call ``settle`` at the end of each turn, before anything is written, and ``on_end`` after that."""
        self._give_up = give_up
        self._settle = settle
        self._on_end = on_end
        self.clock: Final = clock
        self.woken: dict[int, Worker] = {}
        """Workers to flush at the end of this turn, by number."""
        self._behind: dict[int, Worker] = {}
        self._behind_all: dict[int, Worker] = {}
        """Waiting workers that have used so much time lately that the others go first."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Handle | None = None
        self._spent_s = 0.0
        self.now_s = 0.0
        """When the last slice ended."""

    @property
    def is_spent(self) -> bool:
        """Whether the budget of this turn is used up."""
        return self._spent_s >= TURN_S

    @property
    def behind(self) -> int:
        """How many workers wait for a later turn."""
        return len(self._behind) + len(self._behind_all)

    def timed(self, handle: Callable[[], None]) -> float:
        """Handle a slice, and take its time from the budget; returns the time."""
        started_s = self.clock()
        handle()
        return self.spend(started_s)

    def spend(self, started_s: float) -> float:
        """Take the time of a slice that began then from the budget; returns the time."""
        self.now_s = self.clock()
        took_s = self.now_s - started_s
        self._spent_s += took_s
        return took_s

    def wake(self, worker: Worker) -> None:
        """Flush a worker at the end of this turn."""
        self.woken[worker.number] = worker
        self.end_later()

    def put_off(self, worker: Worker) -> None:
        """Let a worker continue in a later turn, after those that already wait."""
        if worker.number not in self._behind and worker.number not in self._behind_all:
            waiting = self._behind_all if worker.uses_much else self._behind
            waiting[worker.number] = worker
        self.end_later()

    def forget(self, worker: Worker) -> None:
        """Drop a worker that is gone."""
        self.woken.pop(worker.number, None)
        self._behind.pop(worker.number, None)
        self._behind_all.pop(worker.number, None)

    def end_later(self) -> None:
        """Schedule the end of this turn."""
        if self._ending is None:
            if self._loop is None:
                # Kept: to ask for it costs a system call.
                self._loop = asyncio.get_running_loop()
            self._ending = self._loop.call_soon(self.end)

    def end(self) -> None:
        """Settle and flush, begin the next turn, and let the waiting workers work in it."""
        self._settle()
        # Not before: settling asks for the end of the turn, which this is.
        self.stop()
        # Workers woken while flushing wait for the next turn: sockets must be read in between.
        woken, self.woken = self.woken, {}
        for worker in woken.values():
            try:
                worker.flush()
            except Exception as error:  # noqa: BLE001 - the other connections have something to say, too
                self._give_up(worker, error)
        self._spent_s = 0.0
        # The store, which has number 0, goes first: everybody waits for its reports.
        for number in sorted(self._behind, key=bool):
            if self.is_spent:
                break
            self._let_work(self._behind, number)
        for place, number in enumerate(list(self._behind_all)):
            if place and self.is_spent:
                break
            self._let_work(self._behind_all, number)
        if self.behind:
            self.end_later()
        self._on_end()

    def _let_work(self, waiting: dict[int, Worker], number: int) -> None:
        worker = waiting.pop(number, None)
        if worker is None:
            # One of the workers before has ended it.
            return
        try:
            worker.work()
        except Exception as error:  # noqa: BLE001 - the others have something to do, too
            self._give_up(worker, error)

    def stop(self) -> None:
        """Cancel the scheduled end of this turn."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
