"""Runs a live sink whose driver and executors are killed again and again, brokers too; nothing is lost or duplicated.

Numbered messages are published to one pubend; a relay on Spark republishes them to a second one, shuffled, so that a
recomputed batch has its rows in another order. In the end the second pubend's log is compared with what was published
to the first. One seed draws what is killed when and in which phase; the machine decides the rest. A driver that gives
up by itself because brokers were away too long is started again, as an operator would do.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.pipeline.experiments.archive_kill9.driver import DriverError
from penstock.pipeline.experiments.sink_kill9.driver import PHASES, Phase, SinkDriver
from penstock.session.received import Received
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PLAN", "SINK_KILL9", "SinkVerdict", "draw_lives", "judge_sink"]

PLAN: Final = OverlayPlan(
    {"pb1": ("in",), "pb2": ("out",), "sb1": ()},
    [("pb1", "sb1"), ("pb2", "sb1")],
    {"heartbeat_ms": 250, "silent_ms": 2_000, "retain_ms": 7_200_000},
)
"""Logs are kept for as long as a run may take: the second pubend's log is the result."""

_PATIENT: Final = ClientSettings(backoff_max_ms=500, close_ms=1_000)
_TURN_S: Final = 0.02
_LIFE_S_MAX: Final = 240.0
_LAST_S_MAX: Final = 600.0
_BROKER_DOWN_S_MAX: Final = 1.0
_GIVEN_UP_MAX: Final = 30
_COLOURS: Final = dict(zip(PHASES, ("#4477aa", "#66ccee", "#228833", "#ee6677", "#aa3377"), strict=True))


@dataclass(slots=True, frozen=True)
class SinkVerdict:
    """How the second pubend's log differs from what was published to the first."""

    relayed: int
    lost: int
    duplicated: int
    strange: int
    """In the second pubend but never published to the first."""


def judge_sink(acked: int, published: int, found: Sequence[int]) -> SinkVerdict:
    """Compare the numbers in the log with 1 to ``published``, the first ``acked`` of which were acknowledged.

    >>> judge_sink(3, 4, [1, 1, 2, 9])
    SinkVerdict(relayed=4, lost=1, duplicated=1, strange=1)
    """
    counts = Counter(found)
    return SinkVerdict(
        relayed=len(found),
        lost=sum(number not in counts for number in range(1, acked + 1)),
        duplicated=len(found) - len(counts),
        strange=sum(count for number, count in counts.items() if not 1 <= number <= published),
    )


def draw_lives(rng: Random, kills: int, executor_kills: int) -> list[tuple[Phase, int]]:
    """Draw the phase in which each life of the driver ends, all equally often, and how many executors die before."""
    phases: list[Phase] = []
    while len(phases) < kills:
        # Backwards, so that short runs include the rarest phases too.
        phases += PHASES[::-1]
    phases = phases[:kills]
    rng.shuffle(phases)
    able = [place for place, phase in enumerate(phases) if phase != "start"] or [0]
    drawn = Counter(able[number % len(able)] for number in range(executor_kills))
    return [(phase, drawn[place]) for place, phase in enumerate(phases)]


def _run(context: Context) -> Mapping[str, float]:
    context.reporter.stage(f"starting {len(PLAN.pubends)} brokers")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        DemoOverlay(PLAN) as overlay,
    ):
        here = ["--broker", overlay.url("sb1"), "--pubend", "in", "--columns", "number long"]
        there = ["--to-broker", overlay.url("pb2"), "--to-pubend", "out"]
        driver = SinkDriver(Path(folder) / "relay", [*here, *there, "--master", context.text("master")])
        try:
            return run(_Play(context, overlay, driver).play())
        finally:
            driver.kill_all()


@dataclass(slots=True)
class _History:
    """Event times for the chart, in seconds since the start."""

    published: list[tuple[float, int]] = field(default_factory=list)
    driver_kills: list[tuple[float, Phase]] = field(default_factory=list)
    executor_kills: list[float] = field(default_factory=list)
    broker_kills: list[float] = field(default_factory=list)
    relayed: list[tuple[float, int]] = field(default_factory=list)


class _Play:
    """One run."""

    def __init__(self, context: Context, overlay: DemoOverlay, driver: SinkDriver) -> None:
        self._context, self._overlay, self._driver = context, overlay, driver
        self._rng = Random(context.rng.getrandbits(64))
        self._harm_rng = Random(context.rng.getrandbits(64))
        self._published = self._given_up = self._missed = 0
        self._kills: Counter[Phase] = Counter()
        self._history = _History()
        self._started_s = time.monotonic()
        self._is_over = asyncio.Event()

    async def play(self) -> dict[str, float]:
        await self._overlay.linked()
        async with connect(self._overlay.url("pb1"), name="publisher", settings=_PATIENT) as publisher:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._publish(publisher))
                harm = group.create_task(self._harm_brokers())
                watch = group.create_task(self._watch())
                await self._lives()
                self._is_over.set()
                await harm
                watch.cancel()
            self._context.reporter.stage("everything is repaired: relaying to the end")
            await self._overlay.linked()
            await publisher.flush()
            acked = publisher.counters.acknowledged
        await self._finish()
        left_over = await self._driver.close()
        found = await self._logged()
        self._history.relayed.append((self._now_s(), len(found)))
        self._context.figure(lambda figure: _draw(figure, self._history))
        return self._measured(judge_sink(acked, self._published, found), acked, left_over)

    async def _publish(self, client: Client) -> None:
        rate, started_s = self._context.number("rate"), time.monotonic()
        while not self._is_over.is_set():
            for _ in range(int((time.monotonic() - started_s) * rate) + 1 - self._published):
                self._published += 1
                await client.publish({"number": self._published}, b"x" * 100, pubend="in")
            await asyncio.sleep(_TURN_S)

    async def _lives(self) -> None:
        kills, executors = self._context.integer("kills"), self._context.integer("executor_kills")
        reporter = self._context.reporter
        reporter.stage(f"{kills} times kill -9 for the driver, {executors} for executors", total=kills)
        for phase, before in draw_lives(self._rng, kills, executors):
            left = before
            while True:
                self._driver.start("--every", f"{self._rng.choice((200, 500, 1000))} milliseconds")
                while left and await self._driver.kill_executor(self._rng, patience_s=_LIFE_S_MAX):
                    left -= 1
                    self._history.executor_kills.append(self._now_s())
                hit = await self._driver.kill_in(phase, self._rng, patience_s=_LIFE_S_MAX)
                if hit and not left:
                    break
                self._on_missed(phase)
            self._kills[phase] += 1
            self._history.driver_kills.append((self._now_s(), phase))
            reporter.advance()
            reporter.note(f"{self._now_s():.0f} s: driver killed ({phase}), {self._published:,} published")

    def _on_missed(self, phase: Phase) -> None:
        code = self._driver.exit_code
        self._given_up, self._missed = self._given_up + (code is not None), self._missed + (code is None)
        why = f"gave up ({self._driver.last_line[:300]})" if code is not None else f"did not come to {phase}"
        self._context.reporter.note(f"{self._now_s():.0f} s: the relay {why}; starting it again")
        if self._given_up + self._missed > _GIVEN_UP_MAX:
            raise DriverError(f"the relay does not get anywhere; it said:\n  {self._driver.log}")

    async def _harm_brokers(self) -> None:
        rng, every_s = self._harm_rng, self._context.number("broker_every_s")
        while not self._is_over.is_set():
            try:
                async with asyncio.timeout(rng.uniform(0.5, 1.5) * every_s):
                    await self._is_over.wait()
            except TimeoutError:
                name = rng.choice(list(PLAN.pubends))
                self._overlay.kill(name)
                self._history.broker_kills.append(self._now_s())
                await asyncio.sleep(rng.uniform(0.0, _BROKER_DOWN_S_MAX))
                # In a thread: it takes about a second, and publishers must not stall.
                await asyncio.to_thread(self._overlay.start, name)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._overlay.check()
            self._history.published.append((self._now_s(), self._published))

    async def _finish(self) -> None:
        """Relay everything up to now, without kills."""
        for _ in range(_GIVEN_UP_MAX):
            self._driver.start("--once")
            code = await self._driver.ended(patience_s=_LAST_S_MAX)
            if code == 0:
                return
            if code is None:
                break
        raise DriverError(f"the relay does not come to its end; it said:\n  {self._driver.log}")

    async def _logged(self) -> list[int]:
        found: list[int] = []
        async with connect(self._overlay.url("pb2"), settings=_PATIENT) as client:
            span = (await client.survey()).spans["out"]
            async for part in client.read("out", span.earliest, span.latest):
                for tick, body in zip(part.ticks, part.bodies, strict=True):
                    number = Received("out", tick, body).attributes["number"]
                    assert isinstance(number, int), f"{number!r} was never published"
                    found.append(number)
        return found

    def _measured(self, verdict: SinkVerdict, acked: int, left_over: int) -> dict[str, float]:
        return {
            "driver_kills": self._kills.total(),
            "executor_kills": len(self._history.executor_kills),
            "broker_kills": len(self._history.broker_kills),
            "published": self._published,
            "acked": acked,
            "relayed": verdict.relayed,
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "strange": verdict.strange,
            **{f"kills_{phase}": self._kills[phase] for phase in PHASES},
            "gave_up": self._given_up,
            "missed": self._missed,
            "processes_left": left_over,
            "seconds": round(self._now_s(), 1),
        }

    def _now_s(self) -> float:
        return time.monotonic() - self._started_s


def _draw(figure: Figure, history: _History) -> None:
    """Plot published messages over time, with the kills."""
    axes = figure.add_subplot()
    axes.plot(*zip(*history.published, strict=True), c="#000000", label="published to the first pubend")
    axes.plot(*zip(*history.relayed, strict=True), "D", c="#ccbb44", label="in the log of the second, at the end")
    shown: set[Phase] = set()
    for at_s, phase in history.driver_kills:
        axes.axvline(at_s, c=_COLOURS[phase], label=None if phase in shown else f"driver killed: {phase}")
        shown.add(phase)
    axes.plot(history.executor_kills, [0] * len(history.executor_kills), "r^", label="executor killed", clip_on=False)
    axes.plot(history.broker_kills, [0] * len(history.broker_kills), "kx", label="broker killed", clip_on=False)
    axes.set_xlabel("seconds")
    axes.set_ylabel("messages")
    axes.set_ylim(bottom=0)
    axes.legend()


SINK_KILL9: Final = Experiment(
    name="sink-kill9",
    summary="the sink's driver and executors killed at any point of their work, and brokers too: all is there once",
    source="our own promise: docs/pipeline-sink.md",
    parameters=(
        Parameter("kills", 10, "kills of the driver", quick=2, minimum=1, maximum=200),
        Parameter("executor_kills", 10, "kills of executors", quick=1, minimum=0, maximum=200),
        Parameter("rate", 300.0, "messages per second to publish", minimum=3, maximum=5_000),
        Parameter("broker_every_s", 30.0, "seconds between kills of brokers", minimum=1),
        Parameter("master", "local-cluster[2,1,768]", "where Spark runs; executors need processes of their own"),
    ),
    published={"lost": 0, "duplicated": 0, "strange": 0},
    run=_run,
)
