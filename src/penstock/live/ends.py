"""Waits for connections to close, and cuts those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from penstock.live.connection import DRAIN_S, LINGER_S, Connection

__all__ = ["wait_for_ends"]


async def wait_for_ends(connections: Mapping[int, Connection], *, seconds_max: float = DRAIN_S + LINGER_S) -> None:
    """Wait until all connections have closed; they leave the mapping by themselves, and are cut after a time limit."""
    ends = [asyncio.ensure_future(each.ended.wait()) for each in connections.values()]
    if not ends:
        return
    await asyncio.wait(ends, timeout=seconds_max)
    for connection in list(connections.values()):
        connection.abort()
    await asyncio.gather(*ends)
