"""Members on loopback whose clocks are set, that come late or die: the limit stays, and nobody starves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from penstock.ajil import Aup
from penstock.lab.demo_overlay import free_ports
from penstock.live.multicast import MulticastNode

AUP = Aup(limit_bytes_s=20_000, alpha=1, beta=1, report_fraction=1.0, epoch_ms=50, version=1, author="test")
HOUR_S = 3_600
_hosts = count(1)


class Site:
    """A group that no other test uses, and members that send to it at a rate of their own."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        number = next(_hosts)
        self.group, self.control = f"239.77.4.{number}:{port}", f"239.77.5.{number}:{port}"
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def node(self, name: str, aup: Aup = AUP) -> MulticastNode:
        return MulticastNode([self.group], aup, name=name, control=self.control, interface="lo", key=b"a key for tests")

    def load(self, node: MulticastNode, bytes_s: float) -> None:
        """From now on it wants to send so much; the last word counts."""
        self.silence(node.name)
        self.tasks[node.name] = asyncio.create_task(self._load(node, bytes_s))

    def silence(self, name: str) -> None:
        if name in self.tasks:
            self.tasks.pop(name).cancel()

    async def _load(self, node: MulticastNode, bytes_s: float) -> None:
        began_s, offered = time.monotonic(), 0.0
        while True:
            while offered < (time.monotonic() - began_s) * bytes_s:
                offered += 200
                if node.status()["waiting_bytes"] < 2_000:
                    node.send_nowait(self.group, bytes(200))
            await asyncio.sleep(0.005)


def running(test: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        site = Site()
        try:
            await asyncio.wait_for(test(site), 60)
        finally:
            for name in list(site.tasks):
                site.silence(name)

    asyncio.run(whole())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def epochs_of(node: MulticastNode) -> list[bool]:
    """Filled at the end of each epoch of a node: whether it was slowed down."""
    seen: list[bool] = []
    node.on_epoch = lambda _: seen.append(bool(node.status()["slowed"]))
    return seen


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, 0.03])
def test_a_clock_that_is_set_while_its_node_is_slowed_down_stops_nothing(step_s: float) -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one, site.node("n2") as two:
            site.load(one, 40_000)
            site.load(two, 40_000)
            await until(lambda: bool(one.status()["slowed"] and two.status()["slowed"]))
            one.clock = lambda: time.time() + step_s
            epochs, heard = epochs_of(one), (one.counts["reports_heard"], two.counts["reports_heard"])
            sent = one.counts["sent"]
            await until(lambda: len(epochs) >= 10)
            assert one.counts["sent"] > sent, "it goes on sending"
            assert one.counts["reports_heard"] > heard[0], "it hears others"
            assert two.counts["reports_heard"] > heard[1], "and others hear it"
            assert (one.counts["replayed"], two.counts["replayed"]) == (0, 0)
            # Back to where it was, and the surge is over: nobody stays slowed down.
            one.clock = time.time
            site.load(one, 4_000)
            site.load(two, 4_000)
            await until(lambda: not one.status()["slowed"] and not two.status()["slowed"])

    running(test)


def test_a_loud_node_that_joins_late_obeys_within_three_epochs() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one:
            site.load(one, 10_000)
            await until(lambda: one.counts["sent"] > 5)
            async with site.node("late", Aup()) as late:
                site.load(late, 100_000)
                await until(lambda: late.aup == AUP)
                epochs = epochs_of(late)
                await until(lambda: len(epochs) >= 4)
                assert any(epochs[:4]), "three epochs, and the one in which it learned the policy"

    running(test)


def test_what_a_node_that_dies_while_slowed_down_had_is_taken_by_others() -> None:
    async def test(site: Site) -> None:
        async with site.node("n1") as one:
            async with site.node("n2") as two:
                site.load(one, 15_000)
                site.load(two, 40_000)
                await until(lambda: bool(one.status()["slowed"] and two.status()["slowed"]))
                site.silence("n2")
            await until(lambda: not one.status()["slowed"])

    running(test)
