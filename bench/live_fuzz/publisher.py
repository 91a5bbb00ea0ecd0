"""Runs a publisher process of the live fuzz: ``python -m bench.live_fuzz.publisher SPEC JOURNAL``.

It publishes in all the ways that the client library has, cancels some of its calls, and records what it does. Its
journal has the lines of ``diary``, and ``life``, ``fork``, ``crash`` and ``end``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from bench.live_fuzz.control import Control
from bench.live_fuzz.diary import PATIENT, Diary, PublisherSpec
from bench.live_fuzz.journal import Journal, read_journal
from bench.live_fuzz.quotes import payload_of
from bench.live_fuzz.sync_publisher import SyncPublisher
from penstock.client.client import Client, connect
from penstock.model.message import Message
from penstock.session.errors import ClientError, WouldBlockError
from penstock.system.loop import run

__all__ = ["main"]

_CANCEL_S: Final = (0.0, 0.0, 0.001, 0.02, 0.3)
_MANY_MAX: Final = 20
_LAST_FLUSH_S: Final = 90.0


class AsyncPublisher:
    """Publishes with the asyncio client until it is told to finish."""

    def __init__(self, spec: PublisherSpec, journal: Journal, control: Control, rng: Random) -> None:
        self._spec, self._journal, self._control, self._rng = spec, journal, control, rng

    async def run(self, client: Client | None = None, name: str = "") -> None:
        """Publish with one client after the other; the first may be given."""
        number = 0
        while not self._control.is_over:
            made = client or connect(self._spec.url, name=self._spec.plan.name, settings=PATIENT)
            diary = Diary(self._journal, self._spec.seed, f"{name or self._spec.plan.name}.{number}")
            if await _opened(made):
                # Most clients live through the whole round; the others make room for a successor.
                turns = self._rng.randint(100, 600) if self._spec.plan.cancels and self._rng.random() < 0.5 else None
                await self._publish(made, diary, turns)
                await self._close(made, diary)
            client = None
            number += 1

    async def _publish(self, client: Client, diary: Diary, turns: int | None) -> None:
        kinds = (self._publish_one, self._publish_now, self._publish_many, self._flush, self._ask)
        turn = 0
        while not self._control.is_over and (turns is None or turn < turns):
            turn += 1
            (act,) = self._rng.choices(kinds, weights=(70, 15, 3, 8, 1))
            await act(client, diary)
            await asyncio.sleep(self._rng.expovariate(self._spec.plan.rate))

    async def _publish_one(self, client: Client, diary: Diary) -> None:
        pubend = self._pubend()
        quote = diary.issue(pubend)

        async def publish() -> None:
            await client.publish(quote.attributes(), payload_of(quote.publisher, quote.n), pubend=pubend)

        if await self._maybe_cancelled("publish", publish, diary):
            diary.took(quote, quote)
        else:
            diary.doubt(quote, quote, "cancelled")

    async def _publish_now(self, client: Client, diary: Diary) -> None:
        pubend = self._pubend()
        quote = diary.issue(pubend)
        try:
            client.publish_nowait(quote.attributes(), payload_of(quote.publisher, quote.n), pubend=pubend)
        except WouldBlockError:
            diary.blocked(quote)
        else:
            diary.took(quote, quote)

    async def _publish_many(self, client: Client, diary: Diary) -> None:
        pubend = self._pubend()
        quotes = [diary.issue(pubend) for _ in range(self._rng.randint(2, _MANY_MAX))]
        messages = [Message(quote.attributes(), payload_of(quote.publisher, quote.n)) for quote in quotes]

        async def publish() -> None:
            await client.publish_many(messages, pubend=pubend)

        if await self._maybe_cancelled("publish_many", publish, diary):
            diary.took(quotes[0], quotes[-1])
        else:
            diary.doubt(quotes[0], quotes[-1], "cancelled")

    async def _flush(self, client: Client, diary: Diary) -> None:
        # It has one broker, with guaranteed pubends: nothing can be lost or refused, so any error is a fault.
        if await self._maybe_cancelled("flush", client.flush, diary):
            diary.acked()

    async def _ask(self, client: Client, diary: Diary) -> None:
        async def ask() -> None:
            await client.survey()

        try:
            await self._maybe_cancelled("survey", ask, diary)
        except ClientError as error:
            self._journal.write("unanswered", repr(error))

    async def _close(self, client: Client, diary: Diary) -> None:
        """Close the client; at the end of the round, only after everything is acknowledged."""
        if self._control.is_finishing:
            async with asyncio.timeout(_LAST_FLUSH_S):
                await client.flush()
            diary.acked()
        try:
            if await self._maybe_cancelled("close", client.close, diary):
                diary.acked()
        except ClientError as error:
            # Not everything was acknowledged in time.
            diary.unsure(repr(error))
        await client.close(flush=False)

    async def _maybe_cancelled(self, what: str, call: Callable[[], Awaitable[None]], diary: Diary) -> bool:
        """Make a call, which is sometimes cancelled at a random moment; return whether it completed."""
        if not self._spec.plan.cancels or self._control.is_over or self._rng.random() > 0.15:
            await call()
            return True
        try:
            async with asyncio.timeout(self._rng.choice(_CANCEL_S)):
                await call()
        except TimeoutError:
            diary.cancelled(what)
            return False
        return True

    def _pubend(self) -> str:
        return self._rng.choice(self._spec.plan.pubends) if self._spec.plan.pubends else ""


class NumberedPublisher:
    """Publishes under its own name with numbers that outlive the process, and resends what is in doubt."""

    def __init__(self, spec: PublisherSpec, path: Path, journal: Journal, control: Control) -> None:
        self._spec, self._journal, self._control = spec, journal, control
        self._acked = max((line[3] for line in read_journal(path) if line[0] == "acked"), default=0)

    async def run(self) -> None:
        """Publish, starting with the first message that was not acknowledged to an earlier life."""
        plan = self._spec.plan
        rng = Random(f"{self._spec.seed}/{plan.name}/{self._acked}")
        client = await self._opened_at_last()
        diary = Diary(self._journal, self._spec.seed, f"{plan.name}.n", self._acked)
        while not self._control.is_over:
            quote = diary.issue(plan.pubends[0])
            await client.publish(quote.attributes(), payload_of(quote.publisher, quote.n), pubend=plan.pubends[0])
            diary.took(quote, quote)
            if rng.random() < 0.05:
                await client.flush()
                diary.acked()
            await asyncio.sleep(rng.expovariate(plan.rate))
        async with asyncio.timeout(_LAST_FLUSH_S):
            await client.flush()
        diary.acked()
        await client.close(flush=False)

    async def _opened_at_last(self) -> Client:
        plan = self._spec.plan
        settings = replace(PATIENT, publisher=plan.name.encode(), published=self._acked)
        while True:
            client = connect(self._spec.url, name=plan.name, settings=settings)
            if await _opened(client):
                return client


async def _opened(client: Client) -> bool:
    """Open a client; return whether its broker was reachable."""
    try:
        await client.open()
    except ClientError:
        await asyncio.sleep(0.2)
        return False
    return True


def _run_forked(spec: PublisherSpec, journal: Journal) -> int:
    """Publish from several child processes; return how many of them failed."""
    plan = spec.plan
    client = connect(spec.url, name=plan.name, settings=PATIENT) if spec.fork_first else None
    ends: list[int] = []
    children: list[int] = []
    for number in range(plan.children):
        reading, writing = os.pipe()
        journal.write("fork", number)
        if (child := os.fork()) == 0:
            # Inherited pipe ends would keep the other children from noticing the end of the parent.
            for each in (*ends, writing):
                os.close(each)
            os._exit(_run_child(spec, journal, client, Control(reading), number))
        os.close(reading)
        ends.append(writing)
        children.append(child)
    Control().wait_over()
    for each in ends:
        os.close(each)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


def _run_child(spec: PublisherSpec, journal: Journal, client: Client | None, control: Control, number: int) -> int:
    name = f"{spec.plan.name}.{number}"
    publisher = AsyncPublisher(spec, journal, control, Random(f"{spec.seed}/{name}"))
    return _guarded(journal, lambda: run(publisher.run(client, name)))


def _guarded(journal: Journal, work: Callable[[], object]) -> int:
    try:
        work()
    except BaseException:  # noqa: BLE001 - whatever it is, the judge has to know
        journal.write("crash", traceback.format_exc())
        return 1
    return 0


def main(arguments: list[str]) -> int:
    """Publish until told to finish; returns the exit code."""
    spec = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=PublisherSpec)
    path = Path(arguments[1])
    journal = Journal(path)
    journal.write("life", os.getpid())
    if spec.plan.kind == "forked":
        failed = _run_forked(spec, journal)
    elif spec.plan.kind == "numbered":
        failed = _guarded(journal, lambda: run(NumberedPublisher(spec, path, journal, Control()).run()))
    elif spec.plan.kind == "sync":
        failed = _guarded(journal, SyncPublisher(spec, journal, Control()).run)
    else:
        rng = Random(f"{spec.seed}/{spec.plan.name}")
        failed = _guarded(journal, lambda: run(AsyncPublisher(spec, journal, Control(), rng).run()))
    if not failed:
        journal.write("end")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
