"""Runs a subscriber process of the live fuzz: ``python -m bench.live_fuzz.subscriber SPEC JOURNAL``.

It may be killed and restarted at any time: it resumes with its durable names, or with the positions that it stored.
``readings`` describes its journal.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from bench.live_fuzz.control import Control
from bench.live_fuzz.diary import PATIENT
from bench.live_fuzz.journal import Journal, read_journal
from bench.live_fuzz.plan import Missing
from bench.live_fuzz.quotes import SELECTORS
from bench.live_fuzz.readings import Reading, SubscriberSpec, stored_positions
from bench.live_fuzz.sync_subscriber import SyncSubscriber
from penstock.client.client import Client, connect
from penstock.client.subscription import Subscription
from penstock.session.errors import ClientError, RefusedError
from penstock.session.received import Received
from penstock.system.loop import run

__all__ = ["main"]

_CANCEL_S: Final = (0.0, 0.001, 0.01, 0.1)
_OBSERVE_S: Final = 0.25
_CLOSE_S: Final = 5.0


class AsyncSubscriber:
    """Reads all subscriptions of its plan with one asyncio client."""

    def __init__(self, spec: SubscriberSpec, path: Path, journal: Journal, control: Control) -> None:
        self._spec, self._path, self._journal, self._control = spec, path, journal, control
        self._life = sum(line[0] == "life" for line in read_journal(path))
        self._rng = Random(f"{spec.seed}/{spec.plan.name}/{self._life}")

    async def run(self) -> None:
        """Subscribe, and read until the process must leave or everything has arrived."""
        client = await self._connected()
        readings = [
            Reading(number, plan, self._spec.seed, self._journal)
            for number, plan in enumerate(self._spec.plan.subscriptions)
        ]
        async with asyncio.TaskGroup() as group:
            for reading in readings:
                group.create_task(self._follow(client, reading))
        await self._close(client)

    async def _connected(self) -> Client:
        urls = self._spec.urls
        while True:
            first = self._life % len(urls)
            hosts = [url.removeprefix("penstock://") for url in (*urls[first:], *urls[:first])]
            client = connect(f"penstock://{','.join(hosts)}", name=self._spec.plan.name, settings=PATIENT)
            try:
                return await client.open()
            except ClientError:
                await asyncio.sleep(0.2)

    async def _follow(self, client: Client, reading: Reading) -> None:
        missing: Missing = reading.plan.missing
        while True:
            subscription = self._subscribe(client, reading, missing)
            try:
                await self._read(subscription, reading)
            except RefusedError as error:
                reading.write("refused", f"{type(error).__name__}: {error.reason}")
                # A durable name continues with what is there; stored positions are given up.
                missing = "earliest"
                await asyncio.sleep(0.2)
            else:
                return

    def _subscribe(self, client: Client, reading: Reading, missing: Missing) -> Subscription:
        plan = reading.plan
        stored = stored_positions(self._path, reading.number)
        start = stored or plan.start
        reading.began()
        reading.write("ask", start, missing)
        return client.subscribe(
            SELECTORS[plan.selector].text,
            start=start,
            missing=missing,
            durable=plan.durable,
            acknowledge="manual" if plan.keeping in {"manual", "durable-stored"} else "auto",
        )

    async def _read(self, subscription: Subscription, reading: Reading) -> None:
        observed_s = -_OBSERVE_S
        is_confirmed = False
        loop = asyncio.get_running_loop()
        while True:
            messages = await self._next(subscription, reading)
            if messages:
                reading.take(messages, subscription)
                self._acknowledge(subscription, reading, messages)
            if subscription.is_ready and not is_confirmed:
                is_confirmed = True
                reading.write("ready")
            if self._control.is_over or loop.time() - observed_s >= _OBSERVE_S:
                observed_s = loop.time()
                positions = reading.observe(subscription)
                if self._control.is_leaving:
                    return
                if self._control.is_finishing and _has_all(positions, self._control.targets):
                    if reading.plan.keeping in {"manual", "durable-stored"}:
                        subscription.acknowledge_through()
                    reading.write("end", positions)
                    return

    async def _next(self, subscription: Subscription, reading: Reading) -> Sequence[Received]:
        """Read in the style of the plan; a read that takes too long is cancelled, and so are some others."""
        cancels = self._spec.plan.cancels and self._rng.random() < 0.2
        patience_s = self._rng.choice(_CANCEL_S) if cancels else _OBSERVE_S
        try:
            async with asyncio.timeout(patience_s):
                match reading.plan.style:
                    case "batch":
                        return await subscription.batch()
                    case "get":
                        return [await subscription.get()]
                    case "iterate":
                        return [await anext(subscription)]
        except TimeoutError:
            if cancels:
                self._journal.write("cancelled", "read")
            return ()

    def _acknowledge(self, subscription: Subscription, reading: Reading, messages: Sequence[Received]) -> None:
        if reading.plan.keeping == "durable-stored":
            subscription.acknowledge_through()
        elif reading.plan.keeping == "manual" and self._rng.random() < 0.2:
            subscription.acknowledge_through(self._rng.choice((messages[-1], None)))

    async def _close(self, client: Client) -> None:
        if self._spec.plan.cancels and self._control.is_leaving and self._rng.random() < 0.5:
            try:
                async with asyncio.timeout(self._rng.choice(_CANCEL_S)):
                    await client.close()
            except TimeoutError:
                self._journal.write("cancelled", "close")
        async with asyncio.timeout(_CLOSE_S):
            await client.close()
        for number in range(len(self._spec.plan.subscriptions)):
            if self._control.is_leaving:
                self._journal.write("left", number)


def _has_all(positions: dict[str, int], targets: dict[str, int] | None) -> bool:
    return all(positions.get(pubend, -1) > tick for pubend, tick in (targets or {}).items())


def main(arguments: list[str]) -> int:
    """Read until told to finish; returns the exit code."""
    spec = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=SubscriberSpec)
    path = Path(arguments[1])
    journal = Journal(path)
    control = Control()
    try:
        if spec.plan.is_sync:
            SyncSubscriber(spec, path, journal, control).run()
        else:
            subscriber = AsyncSubscriber(spec, path, journal, control)
            journal.write("life", os.getpid())
            run(subscriber.run())
    except BaseException:  # noqa: BLE001 - whatever it is, the judge has to know
        journal.write("crash", traceback.format_exc())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
