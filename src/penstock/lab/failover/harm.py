"""Deals the blows of ``failover-kill9``, one after the other, and repairs what it broke.

The next blow comes when every host has got messages of all pubends that were published after the repair, brokers have
all their links again, and the database has a standby: so that a pause has one cause.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from math import inf
from typing import Final

from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.failover.network import DatabaseNetwork
from penstock.lab.failover.pauses import Outcome
from penstock.lab.failover.plan import HOSTS, REPLICAS_MIN, Blow
from penstock.lab.failover.servers import Holder, Servers

__all__ = ["Harm", "Watch"]

_POLL_S: Final = 0.02


class Watch:
    """What subscribers to everything have got, and when."""

    def __init__(self) -> None:
        self.deliveries: dict[tuple[str, str], list[float]] = {
            (host, pubend): [] for host in HOSTS for pubend in REPLICAS_MIN
        }
        self._newest: dict[tuple[str, str], float] = defaultdict(float)
        """When the newest message that arrived was published."""
        self._alone_since_s = inf
        self.unreplicated = 0
        """Messages of pubends that insist on a standby that were published and arrived while there was none."""

    def on_received(self, host: str, pubend: str, published_s: float) -> None:
        """Note that a subscriber at the host got a message of the pubend."""
        self.deliveries[host, pubend].append(time.monotonic())
        self._newest[host, pubend] = max(self._newest[host, pubend], published_s)
        if REPLICAS_MIN[pubend] and published_s > self._alone_since_s:
            self.unreplicated += 1

    def on_alone(self, since_s: float) -> None:
        """Note that the database has no standby since then, and that its primary knows."""
        self._alone_since_s = since_s

    def on_whole(self) -> None:
        """Note that there is a standby, for which commits may wait from now on."""
        self._alone_since_s = inf

    def have_all_since(self, published_s: float) -> bool:
        """Whether every host has got messages of all pubends that were published after this time."""
        return all(self._newest[pair] > published_s for pair in self.deliveries)


class Harm:
    """Strikes holders, their database, and the network in between."""

    def __init__(self, overlay: DemoOverlay, network: DatabaseNetwork, servers: Servers, watch: Watch) -> None:
        self._overlay, self._network, self._servers = overlay, network, servers
        self._watch = watch
        self.promotions_s: list[float] = []
        """How long each promotion took, which is part of the pauses."""
        self.copies_s: list[float] = []
        """How long it took each time from then on until commits waited for a new standby, which is no part of them."""

    async def holders(self) -> dict[str, Holder]:
        """Who holds each pubend, once every one of them has a holder."""
        while True:
            found = await asyncio.to_thread(self._servers.holders)
            if found.keys() == REPLICAS_MIN.keys():
                return found
            await asyncio.sleep(_POLL_S)

    async def strike(self, blow: Blow) -> Outcome:
        """Deal one blow; returns when all is repaired, and has been well for a while."""
        before = await self.holders()
        target = "" if blow.kind == "database" else before[blow.pubend].name
        struck_s = time.monotonic()
        counts_from_s = await self._deal(blow, target)
        await self._is_well()
        await asyncio.sleep(blow.rest_s)
        return Outcome(
            kind=blow.kind,
            target=target,
            struck_s=struck_s,
            until_s=time.monotonic(),
            counts_from_s=counts_from_s,
            before=before,
            after=await self.holders(),
        )

    async def _deal(self, blow: Blow, target: str) -> dict[str, float]:
        """Break and repair; returns from when on the pauses of pubends count that had to wait for others."""
        match blow.kind:
            case "kill":
                self._overlay.kill(target)
                await asyncio.sleep(blow.pause_s)
                await self._start(target)
            case "stop":
                self._overlay.pause(target)
                await asyncio.sleep(blow.pause_s)
                self._overlay.resume(target)
            case "cut" | "stall" | "silence":
                self._network.disturb(target, blow.kind)
                await asyncio.sleep(blow.pause_s)
                self._network.mend(target, blow.kind)
            case "database":
                return await self._fail_over(blow.pause_s)
            case "both":
                self._overlay.kill(target)
                counts_from_s = await self._fail_over(blow.pause_s)
                await self._start(target)
                return counts_from_s
        return {}

    async def _start(self, name: str) -> None:
        # In a thread: it takes about a second, and clients and relays must keep running.
        await asyncio.to_thread(self._overlay.start, name)

    async def _fail_over(self, detected_s: float) -> dict[str, float]:
        await asyncio.to_thread(self._servers.kill_primary)
        await asyncio.sleep(detected_s)
        promoted_s = await asyncio.to_thread(self._servers.promote)
        alone_s = time.monotonic()
        # Nobody else can have what is published from now on.
        self._watch.on_alone(alone_s)
        await asyncio.to_thread(self._servers.make_standby)
        self._watch.on_whole()
        whole_s = await asyncio.to_thread(self._servers.make_synchronous)
        self.promotions_s.append(alone_s - promoted_s)
        self.copies_s.append(whole_s - alone_s)
        return {pubend: whole_s if replicas_min else promoted_s for pubend, replicas_min in REPLICAS_MIN.items()}

    async def _is_well(self) -> None:
        repaired_s = time.monotonic()
        while not self._watch.have_all_since(repaired_s):
            await asyncio.sleep(_POLL_S)
        await self._overlay.linked()
