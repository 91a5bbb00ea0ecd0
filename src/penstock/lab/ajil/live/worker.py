"""One process of the live multicast experiment: sends its share of the load to all groups, within its quotas.

Started by ``ajil-live-multicast``. It prints that it is ready, reads its plan as a line of JSON, waits until it
is time to join, and prints its result at the end. The time that processes take to start therefore does not matter.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import msgspec

from penstock.ajil import Aup
from penstock.live.multicast import MulticastNode

__all__ = ["WorkerPlan", "WorkerResult", "main", "work"]


class WorkerPlan(msgspec.Struct, frozen=True):
    """Instructions for a worker; times are wall-clock times, so that all processes agree."""

    name: str
    groups: list[str]
    control: str
    key: str
    interface: str
    aup: dict[str, Any]
    """The policy; empty for a worker that has to learn it."""
    packet_bytes: int
    join_s: float
    base_packets_s: float
    peak_packets_s: float
    surge_from_s: float
    surge_to_s: float
    end_s: float


class WorkerResult(msgspec.Struct, frozen=True):
    """What a worker did."""

    name: str
    sent: int
    dropped: int
    waiting: int
    learned_epochs: float
    """Epochs from its start until it knew the policy; negative if it never did."""
    slowed: int
    """Epochs that ended with one of its channels slowed down."""


async def work(plan: WorkerPlan) -> WorkerResult:
    """Joins at the planned time, and sends until the end."""
    await asyncio.sleep(max(plan.join_s - time.time(), 0))
    node = MulticastNode(
        plan.groups,
        Aup(**plan.aup),
        name=plan.name,
        control=plan.control,
        key=plan.key.encode(),
        interface=plan.interface,
    )
    # The packet header contains the sender's name.
    payload = bytes(plan.packet_bytes - 4 - len(plan.name))
    slowed = 0

    def count_slowed(_seen: object) -> None:
        nonlocal slowed
        slowed += bool(node.status()["slowed"])

    node.on_epoch = count_slowed
    async with node:
        started_s, learned_s, due = time.time(), -1.0, 0.0
        last_s = started_s
        while (now_s := time.time()) < plan.end_s:
            in_surge = plan.surge_from_s <= now_s < plan.surge_to_s
            due += (now_s - last_s) * (plan.peak_packets_s if in_surge else plan.base_packets_s)
            last_s = now_s
            for _ in range(int(due)):
                number = (node.counts["sent"] + node.counts["dropped"]) % len(plan.groups)
                node.send_nowait(plan.groups[number], payload)
            due -= int(due)
            if learned_s < 0 and node.aup.version > 0:
                learned_s = now_s
            await asyncio.sleep(0.01)
        length_s = node.aup.epoch_ms / 1000
        learned = -1.0 if learned_s < 0 else (learned_s - started_s) / length_s
        waiting = int(node.status()["waiting_bytes"])
        return WorkerResult(plan.name, node.counts["sent"], node.counts["dropped"], waiting, learned, slowed)


def main() -> None:
    """Reports that it is ready, and runs the plan it reads from standard input."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    plan = msgspec.json.decode(sys.stdin.readline(), type=WorkerPlan)
    sys.stdout.write(msgspec.json.encode(asyncio.run(work(plan))).decode() + "\n")
