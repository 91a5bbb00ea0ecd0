"""Deals the blows of ``delivery-kill9`` to real processes and links, and repairs what it broke."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from penstock.lab.delivery.kill9.plan import Blow, Link
from penstock.lab.delivery.kill9.proxy import LinkProxy
from penstock.lab.delivery.kill9.recovery import Recoveries
from penstock.lab.demo_overlay import DemoOverlay

__all__ = ["Harm", "links_of"]

_KILLS: Final = "kill"
_STOPS: Final = "stop"


class Harm:
    """Breaks brokers and links, several at a time, but none that is broken already."""

    def __init__(self, overlay: DemoOverlay, links: Mapping[Link, LinkProxy], recoveries: Recoveries) -> None:
        self._overlay, self._links, self._recoveries = overlay, links, recoveries
        self._locks: dict[str | Link, asyncio.Lock] = {}
        self._counts: Counter[str] = Counter()

    @property
    def kills(self) -> int:
        """Brokers that were killed with SIGKILL."""
        return self._counts[_KILLS]

    @property
    def stops(self) -> int:
        """Brokers that were paused with SIGSTOP."""
        return self._counts[_STOPS]

    @property
    def cuts(self) -> int:
        """Links that were cut, stalled, or stalled and then cut."""
        return self._counts.total() - self.kills - self.stops

    async def strike_all(self, blows: Sequence[Blow]) -> None:
        """Deal every blow at its time; returns when all is repaired."""
        started_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for blow in blows:
                await asyncio.sleep(max(0.0, blow.at_s - (time.monotonic() - started_s)))
                group.create_task(self._strike(blow))

    async def _strike(self, blow: Blow) -> None:
        # A target that is still broken is struck as soon as it has been repaired.
        async with self._locks.setdefault(blow.target, asyncio.Lock()):
            self._counts[blow.kind] += 1
            self._recoveries.on_blow(blow)
            if isinstance(blow.target, str):
                await self._strike_broker(blow, blow.target)
            else:
                await _strike_link(blow, self._links[blow.target])
            self._recoveries.on_repaired(blow, now_s=time.monotonic())

    async def _strike_broker(self, blow: Blow, name: str) -> None:
        if blow.kind == _STOPS:
            self._overlay.pause(name)
            await asyncio.sleep(blow.pause_s)
            self._overlay.resume(name)
            return
        self._overlay.kill(name)
        await asyncio.sleep(blow.pause_s)
        # In a thread: it takes about a second, and clients and links must keep running.
        await asyncio.to_thread(self._overlay.start, name)


async def links_of(overlay: DemoOverlay, stack: AsyncExitStack) -> dict[Link, LinkProxy]:
    """Open a proxy for each link of an overlay with detours; closing the stack closes them."""
    return {
        link: await stack.enter_async_context(LinkProxy(port, overlay.port(link[1])))
        for link, port in overlay.detours.items()
    }


async def _strike_link(blow: Blow, link: LinkProxy) -> None:
    if blow.kind == "cut":
        link.cut()
    else:
        link.stall()
    await asyncio.sleep(blow.pause_s)
    if blow.kind == "silence":
        link.cut()
    link.restore()
