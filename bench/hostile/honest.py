"""Runs an honest publisher and subscriber in a process of their own: ``python -m bench.hostile.honest SPEC``.

It says ``ready`` when its subscription is in force, publishes at a rate until a line comes on standard input, waits a
while for missing messages, and prints what it saw as JSON. It never prints a traceback: a failure is a result, too.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription

__all__ = ["HonestSpec", "Seen", "main"]

_READY_S_MAX: Final = 60.0
_TICK_S: Final = 0.005


class HonestSpec(msgspec.Struct, frozen=True):
    """Where to connect, and how much to publish."""

    publish_at: str
    subscribe_at: str
    rate_s: int
    tail_s: float = 5.0
    """How long to wait for missing messages at the end."""
    token: str = ""
    name: str = "honest"
    certificates: str = ""
    """The folder of the certificates, if the brokers require them."""


class Seen(msgspec.Struct):
    """What became of the messages."""

    published: int = 0
    acknowledged: int = 0
    received: int = 0
    repeated: int = 0
    reconnects: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    stall_ms: float = 0.0
    """The longest wait of a message, including those that have not arrived."""
    own_ms: float = 0.0
    """The longest time for which this process itself was stalled: so much of a wait may be the machine's fault."""
    error: str = ""


def main() -> int:
    """Run as the specification on the command line says."""
    spec = msgspec.json.decode(sys.argv[1].encode(), type=HonestSpec)
    pair = _Pair(spec)
    try:
        asyncio.run(pair.run())
    except Exception as error:  # noqa: BLE001 - whatever harms an honest client is what we look for
        pair.seen.error = f"{type(error).__name__}: {error}"
    sys.stdout.write(msgspec.json.encode(pair.result()).decode() + "\n")
    return 0


class _Pair:
    def __init__(self, spec: HonestSpec) -> None:
        self._spec, self.seen = spec, Seen()
        self._sent_s: dict[int, float] = {}
        self._waits_ms: list[float] = []
        self._bytes = 0

    def result(self) -> Seen:
        """The figures so far; a missing message has waited until now."""
        now_s = time.monotonic()
        waits = sorted([*self._waits_ms, *((now_s - each) * 1e3 for each in self._sent_s.values())])
        if waits:
            self.seen.p50_ms, self.seen.p99_ms = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
            self.seen.stall_ms = waits[-1]
        return self.seen

    async def run(self) -> None:
        spec, seen = self._spec, self.seen
        tls = _context(Path(spec.certificates)) if spec.certificates else None
        publisher = connect(spec.publish_at, token=spec.token, name=spec.name, tls=tls)
        subscriber = connect(spec.subscribe_at, token=spec.token, name=spec.name, tls=tls)
        async with publisher, subscriber:
            subscription = subscriber.subscribe("honest = TRUE")
            async with asyncio.timeout(_READY_S_MAX):
                await subscription.ready()
            reading = asyncio.create_task(self._read(subscription))
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            stopping = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            publishing = asyncio.create_task(self._publish(publisher))
            await asyncio.wait({stopping, publishing, reading}, return_when=asyncio.FIRST_COMPLETED)
            publishing.cancel()
            await asyncio.gather(publishing, return_exceptions=True)
            deadline_s = time.monotonic() + spec.tail_s
            while seen.received < seen.published and time.monotonic() < deadline_s and not reading.done():
                await asyncio.sleep(_TICK_S)
            seen.acknowledged = publisher.counters.acknowledged
            seen.reconnects = publisher.counters.reconnects + subscriber.counters.reconnects
            if reading.done():
                reading.result()
            reading.cancel()
            self.result()
            # Do not wait for brokers that cannot be reached.
            await asyncio.gather(publisher.close(flush=False), subscriber.close(flush=False), return_exceptions=True)

    async def _publish(self, publisher: Client) -> None:
        seen, started_s = self.seen, time.monotonic()
        last_s = started_s
        while True:
            now_s = time.monotonic()
            seen.own_ms, last_s = max(seen.own_ms, (now_s - last_s) * 1e3), now_s
            for _ in range(int((time.monotonic() - started_s) * self._spec.rate_s) - seen.published):
                self._sent_s[seen.published] = time.monotonic()
                try:
                    await publisher.publish({"honest": True, "number": seen.published}, b"x" * 100)
                except BaseException:
                    # The client has not accepted the message, so it is not lost.
                    del self._sent_s[seen.published]
                    raise
                seen.published += 1
            await asyncio.sleep(_TICK_S)

    async def _read(self, subscription: Subscription) -> None:
        async for message in subscription:
            number = message.attributes.get("number")
            # Read the payload as an application would: that it can be read is part of the service.
            self._bytes += len(message.payload)
            sent_s = self._sent_s.pop(number, None) if isinstance(number, int) else None
            if sent_s is None:
                self.seen.repeated += isinstance(number, int)
                continue
            self.seen.received += 1
            self._waits_ms.append((time.monotonic() - sent_s) * 1e3)


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "honest.pem", folder / "honest.key")
    return context


if __name__ == "__main__":
    sys.exit(main())
