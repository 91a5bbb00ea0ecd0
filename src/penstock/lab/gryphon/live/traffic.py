"""Publishers and subscribers of the live experiments: ordinary clients, and an oracle that knows what each must get."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from penstock.client.client import Client
from penstock.client.subscription import Subscription
from penstock.lab.delivery.kill9.oracle import DeliveryVerdict, Ledger, Reading, judge
from penstock.lab.gryphon.live.plan import HOSTS, OFFERED_MSG_S, PUBENDS, WIRE_BYTES
from penstock.lab.links.overlays import LinkedOverlay
from penstock.session.settings import ClientSettings

__all__ = ["BROKERS", "CLIENTS", "Host", "Traffic", "pause_s", "trading"]

BROKERS: Final = ("pb", "ib", *HOSTS)
CLIENTS: Final = (
    *(f"subscriber-{name}" for name in HOSTS),
    *(f"publisher-{pubend}" for pubend in PUBENDS),
    *(f"asker-{name}" for name in BROKERS),
)
"""The names of all clients, for brokers that authenticate them."""

_PAYLOAD: Final = bytes(range(100))
_FRAMING_BYTES: Final = 97
"""The measured size of a message on a link, without its payload and the padding."""
_HEADER: Final = "h" * (WIRE_BYTES - len(_PAYLOAD) - _FRAMING_BYTES)
"""Padding that stands for the header of the paper's messages."""
_BURST_S: Final = 0.05
"""The most delay that a publisher makes up for: a machine may be late, but being held back leaves no backlog."""
_POLL_S: Final = 0.05
_PATIENT: Final = ClientSettings(backoff_max_ms=500, close_ms=1_000)


class Host:
    """The subscriber at one host, and the messages it got from each publisher."""

    def __init__(self, name: str, number: int, subscription: Subscription, ledger: Ledger) -> None:
        self.name, self.number, self.subscription = name, number, subscription
        self._ledger = ledger
        self.readings = [Reading() for _ in PUBENDS]
        self.delivered = 0
        self.strange = 0
        """Received messages that differ from all published ones."""

    async def read(self) -> None:
        """Read messages until cancelled."""
        async for batch in self.subscription.batches():
            for received in batch:
                found = self._ledger.find(received.attributes)
                self.delivered += 1
                if found is None or received.payload != _PAYLOAD:
                    self.strange += 1
                else:
                    self.readings[found[0]].add(found[1])


class Traffic:
    """All publishers and subscribers, and the ledger of what was published."""

    def __init__(self, ledger: Ledger, publishers: list[Client], hosts: list[Host], askers: dict[str, Client]) -> None:
        self.ledger, self.hosts, self.askers = ledger, hosts, askers
        self._publishers = publishers
        self._is_over = False

    def acked(self) -> dict[str, int]:
        """Messages that were acknowledged, by pubend."""
        return {pubend: client.counters.acknowledged for pubend, client in zip(PUBENDS, self._publishers, strict=True)}

    async def publish(self) -> None:
        """Offer messages to all pubends until ``stop``; a publisher that is held back waits."""
        await asyncio.gather(*(self._offer(number) for number in range(len(PUBENDS))))

    def stop(self) -> None:
        """Stop offering messages; one that already waits is still sent."""
        self._is_over = True

    async def settle(self, seconds: float) -> bool:
        """Wait until all messages are acknowledged and received; False if that takes too long."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(client.flush() for client in self._publishers))
                while any(host.delivered < self.ledger.published for host in self.hosts):
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True

    def verdicts(self) -> list[DeliveryVerdict]:
        """Errors in the received messages, for each host and publisher."""
        acked = list(self.acked().values())
        return [
            judge(self.ledger.fitting(host.number, number), acked[number], host.readings[number])
            for host in self.hosts
            for number in range(len(PUBENDS))
        ]

    async def _offer(self, number: int) -> None:
        client, pubend = self._publishers[number], PUBENDS[number]
        # Publishers do not all start at the same moment.
        due_s = time.monotonic() + number / len(PUBENDS) / OFFERED_MSG_S
        while not self._is_over:
            due_s, wait_s = pause_s(due_s, time.monotonic())
            await asyncio.sleep(wait_s)
            message = self.ledger.issue(number, {"header": _HEADER}, now_s=time.monotonic())
            await client.publish(message, _PAYLOAD, pubend=pubend)


def pause_s(due_s: float, now_s: float) -> tuple[float, float]:
    """When the message after the next is due, and how long to wait for the next.

    >>> pause_s(10.0, 9.9)
    (10.008, 0.09999999999999964)
    >>> pause_s(10.0, 20.0)
    (19.958, 0.0)
    """
    due_s = max(due_s, now_s - _BURST_S)
    return due_s + 1 / OFFERED_MSG_S, max(0.0, due_s - now_s)


@asynccontextmanager
async def trading(overlay: LinkedOverlay) -> AsyncIterator[Traffic]:
    """Connect publishers, subscribers that miss nothing from now on, and a client to ask each broker."""
    ledger = Ledger(len(PUBENDS), ["TRUE"] * len(HOSTS))
    async with AsyncExitStack() as stack:

        async def client(broker: str, name: str) -> Client:
            made = overlay.client(broker, name, _PATIENT)
            await made.open()
            # No flush: messages not acknowledged by now have been judged already.
            stack.push_async_callback(made.close, flush=False)
            return made

        hosts = []
        for number, name in enumerate(HOSTS):
            reader = await client(name, f"subscriber-{name}")
            hosts.append(Host(name, number, reader.subscribe("TRUE"), ledger))
        for host in hosts:
            await host.subscription.ready()
            while not set(PUBENDS) <= host.subscription.starts.keys():
                await asyncio.sleep(_POLL_S)
        publishers = [await client("pb", f"publisher-{pubend}") for pubend in PUBENDS]
        askers = {name: await client(name, f"asker-{name}") for name in BROKERS}
        yield Traffic(ledger, publishers, hosts, askers)
