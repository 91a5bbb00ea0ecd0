"""Live brokers on an event loop in a thread beside the test, and commands that are run against them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.lab.demo_overlay import OverlayPlan
from penstock.live.config import load_overlay
from penstock.live.node import BrokerNode

LIMIT_S = 60.0
"""Time after which a test that waits gives up; nothing is judged by the clock."""
PLAN = OverlayPlan({"pb1": ("pb1.a", "pb1.b"), "sb1": ()}, [("sb1", "pb1")])


@dataclass
class Commands:
    """Runs commands against brokers that are there."""

    file: Path
    ports: dict[str, int]
    nodes: dict[str, BrokerNode]

    def url(self, broker: str) -> str:
        return f"penstock://127.0.0.1:{self.ports[broker]}"

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=stdin)

    def delivered(self) -> int:
        return sum(int(node.broker.status().counts["delivered"]) for node in self.nodes.values())

    def wait_for(self, condition: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(int(LIMIT_S / 0.01)):
            if condition():
                return
            pause.wait(0.01)
        raise AssertionError("waited in vain")


@contextmanager
def running(file: Path, names: Sequence[str]) -> Iterator[dict[str, BrokerNode]]:
    overlay = load_overlay(file)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> dict[str, BrokerNode]:
        nodes = {name: BrokerNode(overlay, name) for name in names}
        for node in nodes.values():
            await node.start()
        while any(len(node.broker.status().brokers) < len(names) for node in nodes.values()):
            await asyncio.sleep(0.005)
        return nodes

    async def stop(nodes: dict[str, BrokerNode]) -> None:
        for node in nodes.values():
            await node.stop()

    try:
        nodes = asyncio.run_coroutine_threadsafe(start(), loop).result(LIMIT_S)
        yield nodes
        asyncio.run_coroutine_threadsafe(stop(nodes), loop).result(LIMIT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT_S)
        loop.close()
