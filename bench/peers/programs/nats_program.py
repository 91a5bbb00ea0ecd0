"""Publishes with nats-py, one message after the other, and reads from a subscription beside it.

The library buffers what is published, and its server drops a subscriber that falls too far behind; so the program
yields to its reader every 100 messages.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import nats

from bench.peers.programs.frame import Run, main
from bench.peers.workloads import QUOTES_TOPIC

_TURN: Final = 100


async def publish_and_read(run: Run) -> dict[str, float]:
    """Publish everything while another task reads."""
    client = await nats.connect(f"nats://127.0.0.1:{run.port}")
    subscription = await client.subscribe(QUOTES_TOPIC)
    await client.flush()
    run.begin()
    reader = asyncio.create_task(_read(subscription, run.count))
    for number in range(run.count):
        await client.publish(QUOTES_TOPIC, run.bodies[number % len(run.bodies)])
        if number % _TURN == 0:
            await asyncio.sleep(0)
    await client.flush()
    await reader
    figures = run.end()
    await client.close()
    return figures


async def _read(subscription: Any, count: int) -> None:
    received = 0
    async for _ in subscription.messages:
        received += 1
        if received == count:
            return


if __name__ == "__main__":
    main(publish_and_read)
