"""Publishes with redis-py (its asyncio half), in pipelines of 100, and reads from a subscription beside it.

One PUBLISH after the other would wait for an answer each; pipelines are the library's own way to avoid that.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import redis.asyncio

from bench.peers.programs.frame import Run, main
from bench.peers.workloads import QUOTES_TOPIC

_PIPELINE: Final = 100


async def publish_and_read(run: Run) -> dict[str, float]:
    """Publish everything while another task reads."""
    async with redis.asyncio.Redis(port=run.port) as client, client.pubsub() as subscription:
        await subscription.subscribe(QUOTES_TOPIC)
        confirmed = await anext(subscription.listen())
        assert confirmed["type"] == "subscribe", confirmed
        run.begin()
        reader = asyncio.create_task(_read(subscription, run.count))
        for start in range(0, run.count, _PIPELINE):
            pipeline = client.pipeline(transaction=False)
            for number in range(start, min(run.count, start + _PIPELINE)):
                pipeline.publish(QUOTES_TOPIC, run.bodies[number % len(run.bodies)])
            await pipeline.execute()
        await reader
        return run.end()


async def _read(subscription: Any, count: int) -> None:
    received = 0
    async for _ in subscription.listen():
        received += 1
        if received == count:
            return


if __name__ == "__main__":
    main(publish_and_read)
