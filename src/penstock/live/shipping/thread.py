"""A thread that runs jobs for the event loop, one after the other, and is not joined when the process ends.

The pool of the standard library is joined then: a lake that hangs would hang the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

__all__ = ["LakeThread"]

_Result = TypeVar("_Result")


class LakeThread:
    """Calls functions in a thread of its own, in the order in which they were queued."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], _Result]) -> asyncio.Future[_Result]:
        """Queue a function; returns its future result."""
        future: asyncio.Future[_Result] = self._loop.create_future()
        self._jobs.put((function, future))
        return future

    def end(self) -> None:
        """Stop after all queued functions."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, future = job
            try:
                result, error = function(), None
            except Exception as raised:  # noqa: BLE001 - it belongs to who asked
                result, error = None, raised
            # If the loop is closed, nobody is left to listen.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
