"""What the programs share: the messages, the clocks, and the line that they print."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from bench.live_load import STAMP
from bench.peers.message import PeerMessage, peer_messages
from bench.peers.workloads import QUOTES_TOPIC, quotes

__all__ = ["Run", "main", "main_without_loop"]

_RING: Final = 1_000


class Run:
    """One run of a program: what to publish, and how long it took to read everything back."""

    def __init__(self, port: int, count: int) -> None:
        self.port: Final = port
        self.count: Final = count
        self.ring: Final[Sequence[PeerMessage]] = peer_messages(quotes(0, _RING), topic=QUOTES_TOPIC)
        self.bodies: Final = [each.packed + bytes(STAMP.size) for each in self.ring]
        self._started_s = self._cpu_s = 0.0

    def begin(self) -> None:
        """Start the clocks, when connections and subscriptions are there."""
        self._started_s, self._cpu_s = time.perf_counter(), time.process_time()

    def end(self) -> dict[str, float]:
        """The figures, when the last message has been read."""
        taken_s, cpu_s = time.perf_counter() - self._started_s, time.process_time() - self._cpu_s
        return {"messages_per_s": self.count / taken_s, "client_cpu_us": cpu_s / self.count * 1e6}


def main(program: Callable[[Run], Awaitable[dict[str, float]]]) -> None:
    """Run a program on the event loop of the standard library, and print its figures as JSON."""

    async def run(run: Run) -> dict[str, float]:
        return await program(run)

    main_without_loop(lambda each: asyncio.run(run(each)))


def main_without_loop(program: Callable[[Run], dict[str, float]]) -> None:
    """Run a program that blocks, and print its figures as JSON."""
    figures = program(Run(int(sys.argv[1]), int(sys.argv[2])))
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")
