"""Attacks with everybody at once: strangers, hostile clients and a subscriber that never reads, for a set time.

Attackers share two cores with the broker and the honest pair, so they are paced; the rates are in the result. Strangers
are idle, half-open, send garbage or guess tokens, and come back when disconnected. Hostile clients ignore their credit,
subscribe to selectors that are costly to match, send bad bodies, or reconnect all the time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final

from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, Rejected, head, raw_publish
from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame

__all__ = ["CLIENTS", "STRANGERS", "storm"]

STRANGERS: Final = 1_000
CLIENTS: Final = 50
_RETURN_S: Final = 2.0
"""An attacker that was disconnected comes back after about this time."""
_FLOOD_BYTES_S: Final = 1_000_000
"""Bytes per second of a client that ignores its credit, if the broker accepts them."""
_TOKEN: Final = "weak-token"  # noqa: S105 - of an arena that lives for seconds

Work = Callable[["_Storm", int], Awaitable[None]]


async def storm(stage: Stage) -> Told:
    """Attack with all of them, and report their rates."""
    return await _Storm(stage).run()


class _Storm:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.deadline_s = time.monotonic() + stage.seconds
        self.counts: Counter[str] = Counter()
        self.rng = Random(0)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline_s

    async def run(self) -> Told:
        strangers = (_idle, _half_open, _garbage, _wrong_token)
        hostile = (_flood, _subscribe, _spoil, _reconnect)
        works = [strangers[number % len(strangers)] for number in range(STRANGERS)]
        works += [hostile[number % len(hostile)] for number in range(CLIENTS)]
        works.append(_never_read)
        await asyncio.gather(*(self._again(work, number) for number, work in enumerate(works)))
        counts, seconds = self.counts, self.stage.seconds
        rates = {what: round(count / seconds, 1) for what, count in counts.items()}
        told = ", ".join(f"{rate:,.0f} {what}" for what, rate in sorted(rates.items()))
        return Told(f"a second: {told}", figures={f"{what}_s": rate for what, rate in rates.items()})

    async def _again(self, work: Work, number: int) -> None:
        """Run one attacker, which comes back whatever becomes of it."""
        # Spread the starts: all at once would only show how fast attackers start.
        await asyncio.sleep(self.rng.random() * min(2.0, self.stage.seconds / 4))
        while not self.is_over:
            with suppress(OSError, Rejected, TimeoutError):
                async with asyncio.timeout(max(self.deadline_s - time.monotonic(), 0.01)):
                    await work(self, number)
            await asyncio.sleep(min(_RETURN_S * (0.5 + self.rng.random()), max(self.deadline_s - time.monotonic(), 0)))

    async def dial(self) -> Peer:
        self.counts["connections"] += 1
        return await Peer.dial(self.stage.port)

    async def enter(self, number: int) -> Peer:
        """A client with few rights; each is a publisher of its own."""
        self.counts["connections"] += 1
        return await Peer.client(self.stage.port, "weak", credential=_TOKEN, publisher=number.to_bytes(16))


async def _idle(world: _Storm, _number: int) -> None:
    peer = await world.dial()
    try:
        await peer.ended(world.stage.seconds)
    finally:
        await peer.close()


async def _half_open(world: _Storm, _number: int) -> None:
    """Announces a frame, and sends only its beginning."""
    peer = await world.dial()
    try:
        peer.send_bytes(head(60_000) + bytes(30_000))
        await peer.ended(world.stage.seconds)
    finally:
        await peer.close()


async def _garbage(world: _Storm, _number: int) -> None:
    peer = await world.dial()
    try:
        peer.send_bytes(world.rng.randbytes(1_000))
        await peer.ended(5.0)
    finally:
        await peer.close()


async def _wrong_token(world: _Storm, number: int) -> None:
    world.counts["guesses"] += 1
    world.counts["connections"] += 1
    peer = await Peer.client(world.stage.port, "feed", credential=f"guess {number}")
    await peer.close()


async def _flood(world: _Storm, number: int) -> None:
    """Publishes without credit, at a given rate."""
    peer = await world.enter(number)
    # Sequence numbers must grow, so each life starts above the previous one.
    sequence = int(time.time() * 1_000) << 16
    try:
        while not peer.is_over:
            batch = [peer.body({"x": 1}, bytes(9_900)) for _ in range(10)]
            peer.send(raw_publish(sequence, batch))
            sequence += len(batch)
            world.counts["flooded kB"] += 100
            if not await peer.drain():
                break
            await asyncio.sleep(100_000 / _FLOOD_BYTES_S)
    finally:
        await peer.close()


async def _subscribe(world: _Storm, number: int) -> None:
    """Subscribes to costly selectors, and then disconnects."""
    peer = await world.enter(number)
    try:
        for each in range(200):
            text = " OR ".join(f"a{(each * 7 + k + number) % 97} LIKE '%{'ab' * 20}_{k}%'" for k in range(20))
            peer.send(f.Subscribe(each, text))
            world.counts["subscriptions"] += 1
            if not await peer.drain() or peer.is_over:
                break
            await asyncio.sleep(0.1)
    finally:
        await peer.close()


async def _spoil(world: _Storm, number: int) -> None:
    """Publishes malformed bodies, each of which costs it the connection or is refused."""
    peer = await world.enter(number)
    good = peer.body({"honest": True})
    spoilt = (b"not a body", good[:-1] + b"\xff", b"\xff" * 16 + good[16:], good[:20] + b"\xff" * 30)
    try:
        peer.send(raw_publish(int(time.time() * 1_000) << 16, [world.rng.choice(spoilt)]))
        world.counts["bad bodies"] += 1
        await peer.ended(1.0)
    finally:
        await peer.close()


async def _reconnect(world: _Storm, number: int) -> None:
    """Connects and disconnects, each time in the middle of a frame."""
    for _ in range(10):
        peer = await world.enter(number)
        peer.send_bytes(encode_frame(raw_publish(1, [peer.body({"x": 1}, bytes(10_000))]))[:5_000])
        world.counts["reconnects"] += 1
        await peer.drain()
        await peer.close()
        await asyncio.sleep(0.2)


async def _never_read(world: _Storm, _number: int) -> None:
    """Subscribes to everything that is published, and never reads a byte of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.stage.port, limit=1_024)
    world.counts["connections"] += 1
    hello = f.Hello(f.PROTOCOL_VERSION, "client", "victim", "arena", credential="victim-token")
    writer.write(encode_frame(hello) + encode_frame(f.Subscribe(1, "TRUE")))
    try:
        while not world.is_over and not writer.is_closing():
            writer.write(encode_frame(f.Heartbeat(0)))
            await writer.drain()
            await asyncio.sleep(1.0)
    finally:
        writer.transport.abort()
        del reader
