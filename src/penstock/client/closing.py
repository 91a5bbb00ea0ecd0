"""Ends what a client has running, for certain: also when whoever closes it is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.client.shell import Shell
from penstock.session.session import Session

__all__ = ["Closing", "finished"]


class Closing:
    """The end of one client, however many ask for it."""

    def __init__(self, session: Session, shell: Shell, *, on_closing: Callable[[], None]) -> None:
        self._session, self._shell = session, shell
        self._on_closing = on_closing
        self._task: asyncio.Task[None] | None = None

    async def close(self, *, is_done: bool) -> None:
        """Say the last words, and end the connection; waits if that goes on already."""
        if self._task is None:
            try:
                self._session.say_last_words(is_done=is_done)
                self._shell.pump()
            finally:
                self._on_closing()
                self._task = asyncio.create_task(self._end(), name="penstock: close")
        await finished(self._task, hurry=self._shell.abort)

    async def _end(self) -> None:
        try:
            await self._shell.close()
        finally:
            # Also when a loop that ends cancels all its tasks, this one included.
            self._shell.abort()


async def finished(task: asyncio.Task[Any], hurry: Callable[[], None]) -> None:
    """Wait until the task has ended; raises what it raised.

    If the caller is cancelled, ``hurry`` is called, which must let the task end without waiting for anybody else. The
    cancellation is raised once the task has ended, and not before: so nothing is left behind.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
            hurry()
    if cancelled is not None:
        raise cancelled
    if not task.cancelled():
        task.result()
