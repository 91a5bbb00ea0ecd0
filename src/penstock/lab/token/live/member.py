"""One member process of the live token experiment: it operates at its turns, and reports this.

Events are reported through a pipe, with the time of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from penstock.client.token import OverUdp, TokenGroup

__all__ = ["Told", "run_member"]

Told = tuple[str, int, str]
"""An event: its kind, its time (in nanoseconds of the monotonic clock), and the token's generation."""


class _Teller(logging.Handler):
    """Sends the member's log messages through the pipe."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            self._pipe.send((record.getMessage(), time.monotonic_ns(), ""))


def run_member(own: str, names: Sequence[str], pipe: Connection, times_ms: tuple[int, int], variant: str) -> None:
    """Operate until the process is killed, or nobody listens to the pipe any more."""
    logger = logging.getLogger("penstock")
    logger.addHandler(_Teller(pipe))
    logger.setLevel(logging.INFO)
    with suppress(OSError, KeyboardInterrupt):
        asyncio.run(_operate(own, names, pipe, times_ms, variant))


async def _operate(own: str, names: Sequence[str], pipe: Any, times_ms: tuple[int, int], variant: str) -> None:
    op_ms, min_ms = times_ms
    carrier = OverUdp(own, names, key="token-lab")
    group = TokenGroup("lab", every=min_ms / 1_000, about=op_ms / 1_000, carrier=carrier, variant=variant)
    async with group:
        pipe.send(("ready", time.monotonic_ns(), ""))
        while True:
            async with group.turn() as fence:
                generation = f"{fence.timestamp_ms}/{fence.id}"
                pipe.send(("begin", time.monotonic_ns(), generation))
                # A little less than the budget, so that a late timer does not exceed it.
                await asyncio.sleep(0.9 * op_ms / 1_000)
                pipe.send(("end", time.monotonic_ns(), generation))
