"""Waits for the end of a task that must end, also when the one who waits is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["finished"]


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
