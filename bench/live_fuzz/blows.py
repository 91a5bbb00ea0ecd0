"""Deals the blows of a round to real brokers, links and clients, and repairs what it broke."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from bench.live_fuzz.clients import ClientProcess
from bench.live_fuzz.disk import SmallDisk
from bench.live_fuzz.journal import Journal
from bench.live_fuzz.plan import Blow, Link
from penstock.lab.delivery.kill9.proxy import LinkProxy
from penstock.lab.demo_overlay import DemoOverlay

__all__ = ["Blows"]

_COMMAND: Final = (sys.executable, "-c", "from penstock.cli import main; main()")
_DRAIN_S: Final = 4.0
_DELAY_S: Final = 0.15


class Blows:
    """Breaks things one after the other, several at a time, but nothing that is already broken."""

    def __init__(
        self,
        overlay: DemoOverlay,
        links: Mapping[Link, LinkProxy],
        client_links: Mapping[str, Sequence[LinkProxy]],
        clients: Mapping[str, ClientProcess],
        disk: SmallDisk,
        journal: Journal,
    ) -> None:
        self._overlay, self._links, self._client_links = overlay, links, client_links
        self._clients, self._disk, self._journal = clients, disk, journal
        self._locks: dict[str | Link, asyncio.Lock] = {}
        self.counts: Counter[str] = Counter()
        """Blows dealt, by kind."""
        self.lives = 0
        """Restarts of client processes."""
        self.down: set[str] = set()
        """Brokers that may be down at the moment."""

    async def strike_all(self, blows: Sequence[Blow]) -> None:
        """Deal every blow at its time; returns when everything is repaired."""
        started_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for blow in blows:
                await asyncio.sleep(max(0.0, blow.at_s - (time.monotonic() - started_s)))
                group.create_task(self._strike(blow))

    async def _strike(self, blow: Blow) -> None:
        if blow.kind == "full-disk" and self._disk.refusal:
            self.counts["full-disk left out"] += 1
            return
        # A target that is still broken when its turn comes is struck as soon as it is repaired.
        async with self._locks.setdefault(blow.target, asyncio.Lock()):
            self.counts[blow.kind] += 1
            self._journal.write("blow", blow.kind, blow.target, blow.pause_s)
            if not isinstance(blow.target, str):
                await _harm_links(blow.kind, [self._links[blow.target]], blow.pause_s)
            elif blow.kind.startswith("client-"):
                await _harm_links(blow.kind.removeprefix("client-"), self._client_links[blow.target], blow.pause_s)
            elif blow.kind in {"death", "leave"}:
                await self._end_life(blow, self._clients[blow.target])
            else:
                await self._strike_broker(blow, blow.target)
            self._journal.write("repaired", blow.kind, blow.target)

    async def _strike_broker(self, blow: Blow, name: str) -> None:
        match blow.kind:
            case "stop":
                self._overlay.pause(name)
                await asyncio.sleep(blow.pause_s)
                self._overlay.resume(name)
            case "hang-up":
                self._hang_up(name)
            case "full-disk":
                await asyncio.to_thread(self._disk.fill)
                await asyncio.sleep(blow.pause_s)
                self._disk.free()
            case _:
                self.down.add(name)
                if await self._end_broker(blow, name):
                    await asyncio.sleep(blow.pause_s)
                    # In a thread: it takes about a second, and the relays must keep running.
                    await asyncio.to_thread(self._overlay.start, name)
                self.down.discard(name)
                if blow.kind == "start-hang-up":
                    self._hang_up(name)

    async def _end_broker(self, blow: Blow, name: str) -> bool:
        """End a broker; return whether it has ended."""
        if blow.kind == "drain":
            return await self._drain(name)
        number = signal.SIGTERM if blow.kind == "term" else signal.SIGKILL
        code = await asyncio.to_thread(self._overlay.kill, name, number)
        if code not in {0, -number}:
            self._journal.write("bad-exit", name, code)
        return True

    async def _drain(self, name: str) -> bool:
        others = [each for each in self._overlay.plan.pubends if each != name]
        options = [option for each in others for option in ("--to", each)]
        command = [*_COMMAND, "drain", str(self._overlay.file), name, *options, "--wait", str(_DRAIN_S), "--force"]
        done = await asyncio.to_thread(subprocess.run, command, check=False, capture_output=True, text=True)
        self._journal.write("drained", name, done.returncode, done.stderr[-1000:])
        if done.returncode == 0:
            await asyncio.to_thread(self._overlay.kill, name, 0)
            return True
        # It could not be reached, or nobody could take its clients: it continues as before.
        cancel = [*_COMMAND, "drain", str(self._overlay.file), name, "--cancel"]
        await asyncio.to_thread(subprocess.run, cancel, check=False, capture_output=True)
        return False

    def _hang_up(self, name: str) -> None:
        """Make the broker reread its file, after changing a setting without consequences."""
        file = self._overlay.file_of(name)
        lines = file.read_text(encoding="utf-8").splitlines()
        changed = [
            f"migration_ms = {20_000 + self.counts.total()}" if "migration_ms" in line else line for line in lines
        ]
        file.write_text("\n".join(changed) + "\n", encoding="utf-8")
        self._overlay.hang_up(name)

    async def _end_life(self, blow: Blow, client: ClientProcess) -> None:
        if blow.kind == "leave":
            client.say("leave")
            if not await client.ended():
                self._journal.write("did-not-leave", client.name)
        client.kill()
        await asyncio.sleep(blow.pause_s)
        client.start()
        self.lives += 1


async def _harm_links(kind: str, links: Sequence[LinkProxy], pause_s: float) -> None:
    for link in links:
        match kind:
            case "cut":
                link.cut()
            case "delay":
                link.delay(_DELAY_S)
            case "trickle":
                link.trickle()
            case _:
                link.stall()
    await asyncio.sleep(pause_s)
    for link in links:
        if kind == "silence":
            link.cut()
        link.restore()
