"""Runs one broker until somebody ends it: what ``penstock broker`` does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.live.errors import ConfigError
from penstock.live.logs import log
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay

__all__ = ["serve"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def serve(overlay: Overlay, name: str, *, on_ready: Callable[[BrokerNode], None] | None = None) -> None:
    """Run the broker of that name until SIGINT or SIGTERM, then end it in order; a second signal ends it at once.

    SIGHUP lets it reread its overlay file. Raises ``NodeFailedError`` if it could not go on, and had to stop by itself.
    """
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    async with BrokerNode(overlay, name) as node:
        for each in _SIGNALS:
            loop.add_signal_handler(each, asked.set)
        loop.add_signal_handler(signal.SIGHUP, _reread, node)
        try:
            if on_ready is not None:
                on_ready(node)
            await _first_of(asked, node.has_failed)
        finally:
            for each in (*_SIGNALS, signal.SIGHUP):
                with suppress(ValueError):
                    loop.remove_signal_handler(each)
    if node.failure is not None:
        raise node.failure


def _reread(node: BrokerNode) -> None:
    try:
        change = node.reread()
    except ConfigError as error:
        # It goes on as it was: who sent the signal is not there to be told.
        log("overlay-refused", (("broker", node.name), ("reason", str(error))))
    else:
        if not change:
            log("overlay-unchanged", (("broker", node.name),))


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(each.wait()) for each in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
