"""Publishes with Penstock's client library, one message after the other, and reads from a subscription beside it.

The library encodes and decodes attributes, which the other programs do not: their payloads are ready-made bytes.
"""

from __future__ import annotations

import asyncio

import penstock
from bench.live_load import PAYLOAD_BYTES
from bench.peers.programs.frame import Run, main


async def publish_and_read(run: Run) -> dict[str, float]:
    """Publish everything while another task reads; reading in this one could block both."""
    payload = bytes(PAYLOAD_BYTES)
    async with penstock.connect(f"penstock://127.0.0.1:{run.port}") as client:
        subscription = await client.subscribe("TRUE").ready()
        run.begin()
        reader = asyncio.create_task(_read(subscription, run.count))
        for number in range(run.count):
            await client.publish(run.ring[number % len(run.ring)].attributes, payload)
        await client.flush()
        await reader
        return run.end()


async def _read(subscription: penstock.Subscription, count: int) -> None:
    received = 0
    async for _ in subscription:
        received += 1
        if received == count:
            return


if __name__ == "__main__":
    main(publish_and_read)
