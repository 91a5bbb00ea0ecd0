"""Processes in virtual time: generators that yield what they wait for, and a gate that stops them for a while.

Whoever talks to a database has many steps, each of which takes time and may never be answered. Written as callbacks
they would be unreadable, so they are generators here: each yields a ``Promise``, and goes on with its value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.sim.clock import Callback, Clock

__all__ = ["Gate", "Promise", "Running", "Waiting", "kept", "sleep"]

_T = TypeVar("_T")


class Promise(Generic[_T]):
    """A value that comes later, once."""

    def __init__(self) -> None:
        self.is_kept = False
        """Whether the value is there."""
        self._value: _T | None = None
        self._waiting: list[Callable[[Any], None]] = []

    def keep(self, value: _T) -> None:
        """Bring the value; later ones are ignored, like the answer to somebody who has given up."""
        if self.is_kept:
            return
        self.is_kept = True
        self._value = value
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(value)

    def then(self, callback: Callable[[Any], None]) -> None:
        """Call back with the value, at once if it is there."""
        if self.is_kept:
            callback(self._value)
        else:
            self._waiting.append(callback)


Waiting: TypeAlias = Generator[Promise[Any], Any, _T]
"""The steps of a process, which returns a value in the end."""


def kept(value: _T) -> Promise[_T]:
    """A promise whose value is there."""
    promise: Promise[_T] = Promise()
    promise.keep(value)
    return promise


def sleep(clock: Clock, us: int) -> Promise[None]:
    """A promise that is kept after this time."""
    promise: Promise[None] = Promise()
    clock.after(us, partial(promise.keep, None))
    return promise


class Gate:
    """Lets a process that is stopped notice nothing; when it goes on, it notices everything in order, timers last.

    Event loops look at their sockets before they look at their timers.
    """

    def __init__(self) -> None:
        self._held: deque[Callback] = deque()
        self._timers: deque[Callback] = deque()
        self.is_shut = False
        """Whether the process is stopped."""

    def shut(self) -> None:
        """Stop the process."""
        self.is_shut = True

    def open(self) -> None:
        """Let the process go on."""
        self.is_shut = False
        for held in (self._held, self._timers):
            while held and not self.is_shut:
                held.popleft()()

    def clear(self) -> None:
        """The process has ended: nobody notices what was held."""
        self._held.clear()
        self._timers.clear()
        self.is_shut = False

    def through(self, callback: Callback) -> None:
        """Call back now, or when the process goes on."""
        if self.is_shut:
            self._held.append(callback)
        else:
            callback()

    def ring(self, callback: Callback) -> None:
        """Call back for a timer, now or when the process goes on, and has noticed everything else."""
        if self.is_shut:
            self._timers.append(callback)
        else:
            callback()


class Running(Generic[_T]):
    """A process that has begun."""

    def __init__(self, steps: Waiting[_T], gate: Gate, on_end: Callable[[_T], object]) -> None:
        """Take the first step now; ``on_end`` gets what the process returns, unless it is cancelled."""
        self._steps, self._gate, self._on_end = steps, gate, on_end
        self.is_over = False
        """Whether it has ended or was cancelled."""
        self._is_stepping = False
        self._step(None)

    def cancel(self) -> None:
        """End the process where it is."""
        if self.is_over:
            return
        self.is_over = True
        if not self._is_stepping:
            self._steps.close()

    def _step(self, value: Any) -> None:
        self._is_stepping = True
        try:
            promise = self._steps.send(value)
        except StopIteration as end:
            if not self.is_over:
                self.is_over = True
                self._on_end(end.value)
            return
        finally:
            self._is_stepping = False
        if self.is_over:
            # It has cancelled itself by what it did in this step.
            self._steps.close()
        else:
            promise.then(self._notice)

    def _notice(self, value: Any) -> None:
        self._gate.through(partial(self._go_on, value))

    def _go_on(self, value: Any) -> None:
        if not self.is_over:
            self._step(value)
