"""STOMP clients live: brokers are processes, and are killed, restarted and paused while receipts are awaited.

Producers send to a queue and a topic, workers share the queue, durable subscribers get all of the topic, and plain
ones what comes while they are connected. All of them are raw sockets in this process that reconnect to any broker. A
RECEIPT is a promise: what was sent is not lost, and what was acknowledged does not come again. The judge (see
``judge``) holds brokers to every one of them.

The seed determines blows and choices; exact timing is up to the machine, so a run cannot be repeated exactly. The
verdict does not depend on timing. After the last blow all is repaired, and producers send once more, so that any late
or repeated message arrives before the last ones.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.client.client import connect
from penstock.lab.demo_overlay import DemoOverlay, free_ports
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.links.ending import ending_in_order
from penstock.lab.stomp.clients import Listener, Producer, StompClient, Watcher, Worker
from penstock.lab.stomp.judge import Ledger, StompVerdict
from penstock.lab.stomp.plan import BROKERS, HOMES, KINDS, PLAN, QUEUE, Blow, Kind, draw_blows, stomp_table
from penstock.session.errors import ClientError
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STOMP_KILL9"]

_PATIENT: Final = ClientSettings(backoff_max_ms=250)
_LAST_S: Final = 0.5
"""How long producers send once more when all is repaired."""
_READY_S: Final = 60.0
_TURN_S: Final = 0.01
_POLL_S: Final = 0.1
_NOTE_EVERY: Final = 10
"""Seconds between two notes on progress."""
_SHOWN: Final = 10
"""How many wrong items, or different errors, to show at most."""
_COLOURS: Final[dict[Kind, str]] = {"client": "#4477aa", "home": "#ee6677", "broker": "#ccbb44", "stop": "#228833"}
_LABELS: Final[dict[Kind, str]] = {
    "client": "a connection is cut off",
    "home": "a broker with a pubend is killed",
    "broker": "another broker is killed",
    "stop": "a broker is paused",
}


def _run(context: Context) -> Mapping[str, float]:
    context.reporter.stage(f"starting {len(BROKERS)} brokers")
    ports: dict[str, int] = {}

    def table(name: str) -> str:
        if not ports:
            taken = [overlay.port(each) for each in BROKERS]
            free = [port for port in free_ports(2 * len(BROKERS)) if port not in taken]
            ports.update(zip(BROKERS, free, strict=False))
        return stomp_table(name, ports[name])

    overlay = DemoOverlay(PLAN, tables=table)
    with ending_in_order(), overlay:
        return run(_Play(context, overlay, list(ports.values())).play())


class _Play:
    """One run: its overlay, its clients, and the blows."""

    def __init__(self, context: Context, overlay: DemoOverlay, ports: list[int]) -> None:
        self._context, self._overlay = context, overlay
        self._ledger = Ledger(QUEUE, [f"watchers-{number}" for number in range(context.integer("watchers"))])
        seeds = Random(context.rng.getrandbits(64))

        def each(what: str) -> Iterator[tuple[str, list[int], Random, Ledger]]:
            for number in range(context.integer(what)):
                yield f"{what}-{number}", ports, Random(seeds.getrandbits(64)), self._ledger

        self._producers = [Producer(*its) for its in each("producers")]
        # Every other worker acknowledges in transactions.
        self._workers = [Worker(*its, has_transactions=place % 2 == 1) for place, its in enumerate(each("workers"))]
        self._watchers = [Watcher(*its) for its in each("watchers")]
        self._listeners = [Listener(*its) for its in each("listeners")]
        self._clients: list[StompClient] = [*self._producers, *self._workers, *self._watchers, *self._listeners]
        self._rng = Random(context.rng.getrandbits(64))
        self._locks = {name: asyncio.Lock() for name in BROKERS}
        self._struck: list[tuple[float, Kind]] = []
        self._receipts: list[tuple[float, int, int]] = []
        """Receipts for SENDs and for ACKs so far, over time."""
        self._began_s = 0.0
        self._left = 0

    async def play(self) -> dict[str, float]:
        await self._overlay.linked()
        # If one task fails, all of them stop.
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(each.run()) for each in self._clients]
            beside.append(group.create_task(self._watch()))
            # A durable subscription is owed what is published once it exists.
            async with asyncio.timeout(_READY_S):
                for each in self._clients:
                    await each.is_ready.wait()
            self._began_s = time.monotonic()
            seconds = self._context.number("seconds")
            self._context.reporter.stage(f"{seconds:g} s under kills", total=round(seconds))
            async with asyncio.TaskGroup() as harm:
                harm.create_task(self._strike_all(seconds))
                harm.create_task(self._produce(seconds))
            has_converged = await self._settle()
            for task in beside:
                task.cancel()
        self._context.figure(self._draw)
        return self._measured(self._ledger.verdict(), has_converged=has_converged)

    async def _produce(self, seconds: float) -> None:
        rate, sent, began_s = self._context.number("rate"), 0, time.monotonic()
        while (passed_s := time.monotonic() - began_s) < seconds:
            due = int(rate * passed_s) - sent
            sent += due
            for place, producer in enumerate(self._producers):
                producer.produce(due // len(self._producers) + (place < due % len(self._producers)))
            await asyncio.sleep(_TURN_S)

    async def _strike_all(self, seconds: float) -> None:
        """Deal blows for so many seconds; returns when all is repaired."""
        blows = draw_blows(self._rng, every_s=self._context.number("blow_every_s"), clients=len(self._clients))
        async with asyncio.TaskGroup() as group:
            for blow in blows:
                if blow.at_s >= seconds:
                    return
                await asyncio.sleep(max(0.0, self._began_s + blow.at_s - time.monotonic()))
                group.create_task(self._strike(blow))

    async def _strike(self, blow: Blow) -> None:
        if blow.kind == "client":
            self._struck.append((time.monotonic(), blow.kind))
            self._clients[int(blow.target)].cut()
            return
        # A broker that is still down is struck as soon as it is back.
        async with self._locks[blow.target]:
            self._struck.append((time.monotonic(), blow.kind))
            if blow.kind == "stop":
                self._overlay.pause(blow.target)
                await asyncio.sleep(blow.pause_s)
                self._overlay.resume(blow.target)
                return
            self._overlay.kill(blow.target)
            await asyncio.sleep(blow.pause_s)
            # In a thread: it takes about a second, and clients must keep running.
            await asyncio.to_thread(self._overlay.start, blow.target)

    async def _settle(self) -> bool:
        """Wait until all is done, have producers send once more, and wait again; False if that takes too long."""
        self._context.reporter.stage("waiting until everything is done")
        try:
            async with asyncio.timeout(self._context.number("settle_seconds")):
                await self._done()
                await self._produce(_LAST_S)
                await self._done()
                return True
        except TimeoutError:
            self._left = await self._left_in_queue()
            self._context.reporter.note("not everything was done in time, although everything was repaired")
            return False

    async def _done(self) -> None:
        while not self._is_quiet() or await self._left_in_queue():
            await asyncio.sleep(_POLL_S)

    def _is_quiet(self) -> bool:
        """Whether clients know of nothing that must still come."""
        are_settled = all(each.is_settled for each in self._producers)
        return (
            are_settled
            and not self._ledger.open
            and all(each.is_answered for each in (*self._workers, *self._watchers))
        )

    async def _left_in_queue(self) -> int:
        """How many messages pubends still have for the queue; some if that cannot be known."""
        left = 0
        for home in HOMES:
            try:
                async with connect(self._overlay.url(home), settings=_PATIENT) as client:
                    pubends = (await client.status()).guaranteed.pubends
            except ClientError:
                return 1
            for pubend in pubends.values():
                group = pubend.groups[QUEUE]
                left += max(group.known, int(group.position <= pubend.last_tick))
        return left

    async def _watch(self) -> None:
        """Check that no broker has ended by itself, and report progress."""
        reporter, ledger = self._context.reporter, self._ledger
        turn = 0
        while True:
            await asyncio.sleep(1)
            self._overlay.check()
            if not self._began_s:
                continue
            turn += 1
            reporter.advance()
            self._receipts.append((time.monotonic(), ledger.receipts, ledger.acks))
            if turn % _NOTE_EVERY == 0:
                kills = Counter(kind for _, kind in self._struck)
                struck = ", ".join(f"{kills[kind]} {kind}" for kind in KINDS)
                reporter.note(
                    f"{turn} s: receipts for {ledger.receipts:,} SENDs, {ledger.acks:,} ACKs; struck: {struck}"
                )

    def _measured(self, verdict: StompVerdict, *, has_converged: bool) -> dict[str, float]:
        ledger = self._ledger
        wrong = {
            "lost": verdict.lost,
            "again": verdict.again,
            "shared": verdict.shared,
            "renamed": verdict.renamed,
            "strange": ledger.strange,
        }
        for what, names in wrong.items():
            if names:
                self._context.reporter.note(f"{what}: {', '.join(names[:_SHOWN])}")
        errors = sum((each.errors for each in self._clients), Counter[str]())
        for reason, count in errors.most_common(_SHOWN):
            self._context.reporter.note(f"{count} times ERROR: {reason}")
        kinds = Counter(kind for _, kind in self._struck)
        return {
            "home_kills": kinds["home"],
            "broker_kills": kinds["broker"],
            "client_cuts": kinds["client"],
            "stops": kinds["stop"],
            "connections": sum(each.connections for each in self._clients),
            "sent": len(ledger.items),
            "send_receipts": ledger.receipts,
            "resent": sum(each.resent for each in self._producers),
            "delivered": ledger.delivered,
            "ack_receipts": ledger.acks,
            "in_doubt": verdict.in_doubt,
            "doubled_without_receipt": verdict.doubled,
            "heard": sum(each.heard for each in self._listeners),
            "errors": errors.total(),
            "bugs": sum(each.bugs for each in self._clients),
            **{what: len(names) for what, names in wrong.items()},
            "reordered": ledger.reordered,
            "left": self._left,
            "unconverged": int(not has_converged),
        }

    def _draw(self, figure: Figure) -> None:
        """Draw receipts over time, with the blows."""
        axes = figure.add_subplot()
        times = [at_s - self._began_s for at_s, _, _ in self._receipts]
        axes.plot(times, [sends for _, sends, _ in self._receipts], color="black", label="receipts for SEND")
        axes.plot(times, [acks for _, _, acks in self._receipts], color="grey", label="receipts for ACK")
        for kind in KINDS:
            for place, at_s in enumerate(each for each, struck in self._struck if struck == kind):
                label = _LABELS[kind] if place == 0 else None
                axes.axvline(at_s - self._began_s, color=_COLOURS[kind], linewidth=1, label=label)
        axes.set(xlabel="time (s)", ylabel="receipts")
        axes.set_xlim(left=0)
        axes.legend()


STOMP_KILL9: Final = Experiment(
    name="stomp-kill9",
    summary="STOMP clients of real processes: what has a receipt is neither lost nor comes again, whatever is killed",
    source="our own promise: docs/proof.md",
    parameters=(
        Parameter("seconds", 120.0, "seconds under kills", quick=8.0, minimum=1, maximum=3_600),
        Parameter("blow_every_s", 2.0, "average seconds between blows", quick=1.0, minimum=0.1),
        Parameter(
            "rate", 400.0, "messages per second, half of them to the queue", quick=200.0, minimum=4, maximum=5_000
        ),
        Parameter("producers", 4, "clients that send", quick=2, minimum=1, maximum=64),
        Parameter("workers", 6, "clients that share the queue", quick=4, minimum=1, maximum=64),
        Parameter("watchers", 2, "durable subscribers to the topic", minimum=1, maximum=64),
        Parameter("listeners", 2, "plain subscribers to the topic", minimum=0, maximum=64),
        Parameter("settle_seconds", 120.0, "seconds until all must be done after the kills", minimum=1),
    ),
    published={
        "lost": 0,
        "again": 0,
        "shared": 0,
        "renamed": 0,
        "strange": 0,
        "reordered": 0,
        "left": 0,
        "unconverged": 0,
        "bugs": 0,
    },
    run=_run,
)
