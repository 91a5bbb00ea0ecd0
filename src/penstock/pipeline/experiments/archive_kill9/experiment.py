"""Runs a live archive whose driver is killed again and again, along with brokers; nothing is lost or duplicated.

One seed draws when and in which phase the driver is killed, and which brokers are killed. The machine decides the rest,
so a run cannot be repeated exactly. A driver that gives up by itself because brokers were away too long is started
again, as an operator would do, and does not count as a restart.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import DemoOverlay, OverlayPlan
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.pipeline.experiments.archive_kill9.driver import PHASES, ArchiveDriver, DriverError, Phase
from penstock.pipeline.experiments.archive_kill9.oracle import archived_rows, judge_archive, read_archive
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ARCHIVE_KILL9", "PLAN", "draw_phases"]

PLAN: Final = OverlayPlan(
    {"pb1": ("pb1.a", "pb1.b"), "pb2": ("pb2.a",), "ib1": (), "sb1": ()},
    [("pb1", "ib1"), ("pb2", "ib1"), ("sb1", "ib1"), ("sb1", "pb1")],
    {"heartbeat_ms": 250, "silent_ms": 2_000, "retain_ms": 3_600_000},
)
"""Logs are kept for as long as a run may take, since they do not wait for the archive: it is not a subscriber."""

_PATIENT: Final = ClientSettings(backoff_max_ms=500, close_ms=1_000)
_PAYLOAD: Final = bytes(range(100))
_TURN_S: Final = 0.01
_LIFE_S_MAX: Final = 240.0
_LAST_S_MAX: Final = 600.0
_BROKER_PAUSE_S: Final = (4.0, 10.0)
_BROKER_DOWN_S_MAX: Final = 2.0
_GIVEN_UP_MAX: Final = 60
_OPTIONS: Final = ("--master", "local[2]", "--merge-files", "2")
_COLOURS: Final = {
    "start": "#4477aa",
    "batch": "#66ccee",
    "staging": "#228833",
    "publishing": "#ee6677",
    "merging": "#aa3377",
}


def draw_phases(rng: Random, restarts: int) -> list[Phase]:
    """Draw the phase in which each life ends: all phases equally often, shuffled.

    >>> sorted(draw_phases(Random(1), 6))
    ['batch', 'merging', 'merging', 'publishing', 'staging', 'start']
    """
    phases: list[Phase] = []
    while len(phases) < restarts:
        # Backwards, so that short runs include the rarest phases too.
        phases += PHASES[::-1]
    phases = phases[:restarts]
    rng.shuffle(phases)
    return phases


def _run(context: Context) -> Mapping[str, float]:
    context.reporter.stage(f"starting {len(PLAN.pubends)} brokers")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        DemoOverlay(PLAN) as overlay,
    ):
        driver = ArchiveDriver(Path(folder) / "lake", ["--broker", _brokers(overlay), *_OPTIONS])
        try:
            return run(_Play(context, overlay, driver).play())
        finally:
            driver.kill_all()


def _brokers(overlay: DemoOverlay) -> str:
    return f"{overlay.url('sb1')},{overlay.url('ib1').partition('://')[2]}"


@dataclass(slots=True)
class _History:
    """Event times for the chart, in seconds since the start."""

    published: list[tuple[float, int]] = field(default_factory=list)
    archived: list[tuple[float, int]] = field(default_factory=list)
    driver_kills: list[tuple[float, Phase]] = field(default_factory=list)
    broker_kills: list[float] = field(default_factory=list)


class _Play:
    """One run."""

    def __init__(self, context: Context, overlay: DemoOverlay, driver: ArchiveDriver) -> None:
        self._context, self._overlay, self._driver = context, overlay, driver
        self._rng = Random(context.rng.getrandbits(64))
        self._harm_rng = Random(context.rng.getrandbits(64))
        self._published: dict[str, list[str]] = {pubend: [] for pubends in PLAN.pubends.values() for pubend in pubends}
        self._kills: Counter[Phase] = Counter()
        self._missed = self._given_up = 0
        self._history = _History()
        self._started_s = time.monotonic()
        self._is_over = asyncio.Event()

    async def play(self) -> dict[str, float]:
        await self._overlay.linked()
        async with self._publishers() as publishers:
            async with asyncio.TaskGroup() as group:
                for pubend, client in publishers.items():
                    group.create_task(self._publish(pubend, client))
                harm = group.create_task(self._harm_brokers())
                watch = group.create_task(self._watch())
                await self._lives()
                self._is_over.set()
                await harm
                watch.cancel()
            self._context.reporter.stage("everything is repaired: archiving to the end")
            await self._overlay.linked()
            await asyncio.gather(*(client.flush() for client in publishers.values()))
            acked = {pubend: client.counters.acknowledged for pubend, client in publishers.items()}
            await self._finish(sum(acked.values()))
        left_over = await self._driver.close()
        self._context.figure(lambda figure: _draw(figure, self._history))
        return self._measured(acked, left_over)

    @asynccontextmanager
    async def _publishers(self) -> AsyncIterator[dict[str, Client]]:
        clients: dict[str, Client] = {}
        try:
            for broker, pubends in PLAN.pubends.items():
                for pubend in pubends:
                    clients[pubend] = connect(self._overlay.url(broker), name=f"publisher-{pubend}", settings=_PATIENT)
                    await clients[pubend].open()
            yield clients
        finally:
            for client in clients.values():
                await client.close(flush=False)

    async def _publish(self, pubend: str, client: Client) -> None:
        rate = self._context.number("rate") / len(self._published)
        messages, started_s = self._published[pubend], time.monotonic()
        while not self._is_over.is_set():
            due = int((time.monotonic() - started_s) * rate) + 1 - len(messages)
            for _ in range(due):
                made = await client.publish({"number": len(messages) + 1}, _PAYLOAD, pubend=pubend)
                messages.append(str(made))
            await asyncio.sleep(_TURN_S)

    async def _lives(self) -> None:
        phases = draw_phases(self._rng, self._context.integer("restarts"))
        self._context.reporter.stage(f"{len(phases)} times kill -9 for the archive's driver", total=len(phases))
        for number, phase in enumerate(phases, start=1):
            while not await self._life(phase):
                if self._given_up + self._missed > _GIVEN_UP_MAX:
                    raise DriverError(f"the archive gave up {self._given_up} times; it said:\n  {self._driver.log}")
            self._kills[phase] += 1
            self._history.driver_kills.append((self._now_s(), phase))
            self._context.reporter.advance()
            self._context.reporter.note(
                f"{self._now_s():.0f} s: kill {number} of the driver ({phase}), "
                f"{len(self._history.broker_kills)} of brokers; published {self._total():,}"
            )

    async def _life(self, phase: Phase) -> bool:
        """Run the archive once and kill it in the phase; returns False if it ended otherwise."""
        self._driver.start("--every", f"{self._rng.choice((0.2, 0.5, 1.0))}s")
        hit = await self._driver.kill_in(phase, self._rng, patience_s=_LIFE_S_MAX)
        if not hit:
            code = self._driver.exit_code
            self._given_up, self._missed = self._given_up + (code is not None), self._missed + (code is None)
            why = f"gave up ({self._driver.last_line})" if code is not None else f"did not come to {phase} in time"
            self._context.reporter.note(f"{self._now_s():.0f} s: the archive {why}; starting it again")
        return hit

    async def _harm_brokers(self) -> None:
        rng, names = self._harm_rng, list(PLAN.pubends)
        while not self._is_over.is_set():
            try:
                async with asyncio.timeout(rng.uniform(*_BROKER_PAUSE_S)):
                    await self._is_over.wait()
            except TimeoutError:
                name = rng.choice(names)
                self._overlay.kill(name)
                self._history.broker_kills.append(self._now_s())
                await asyncio.sleep(rng.choice((0.0, rng.uniform(0.0, _BROKER_DOWN_S_MAX))))
                # In a thread: it takes about a second, and publishers must not stall.
                await asyncio.to_thread(self._overlay.start, name)

    async def _watch(self) -> None:
        """Check that no broker has exited by itself, and record progress."""
        known: dict[Path, int] = {}
        while True:
            await asyncio.sleep(1)
            self._overlay.check()
            now_s = self._now_s()
            self._history.published.append((now_s, self._total()))
            self._history.archived.append((now_s, archived_rows(self._driver.lake, known)))

    async def _finish(self, acked: int) -> None:
        """Archive up to now without kills, until all rows are there or no more arrive."""
        before = -1
        for _ in range(_GIVEN_UP_MAX):
            self._driver.start("--once")
            code = await self._driver.ended(patience_s=_LAST_S_MAX)
            if code is None:
                raise DriverError(f"the archive did not end within {_LAST_S_MAX:.0f} s; it said:\n  {self._driver.log}")
            rows = len(read_archive(self._driver.lake))
            if code == 0 and (rows >= acked or rows == before):
                self._history.published.append((self._now_s(), self._total()))
                self._history.archived.append((self._now_s(), rows))
                return
            before = rows if code == 0 else before
        raise DriverError(f"the archive does not come to its end; it said:\n  {self._driver.log}")

    def _measured(self, acked: Mapping[str, int], left_over: int) -> dict[str, float]:
        verdict = judge_archive(self._published, acked, read_archive(self._driver.lake))
        return {
            "restarts": self._kills.total(),
            "published": self._total(),
            "acked": sum(acked.values()),
            "archived": verdict.archived,
            "lost": verdict.lost,
            "duplicated": verdict.duplicated,
            "strange": verdict.strange,
            "broker_kills": len(self._history.broker_kills),
            **{f"kills_{phase}": self._kills[phase] for phase in PHASES},
            "gave_up": self._given_up,
            "missed": self._missed,
            "processes_left": left_over,
            "seconds": round(self._now_s(), 1),
        }

    def _total(self) -> int:
        return sum(map(len, self._published.values()))

    def _now_s(self) -> float:
        return time.monotonic() - self._started_s


def _draw(figure: Figure, history: _History) -> None:
    """Plot rows over time, with the kills."""
    axes = figure.add_subplot()
    for title, points, colour in (
        ("published", history.published, "#000000"),
        ("archived", history.archived, "#ccbb44"),
    ):
        axes.plot([at_s for at_s, _ in points], [rows for _, rows in points], c=colour, label=title)
    shown: set[Phase] = set()
    for at_s, phase in history.driver_kills:
        label = None if phase in shown else f"driver killed: {phase}"
        axes.axvline(at_s, c=_COLOURS[phase], label=label)
        shown.add(phase)
    axes.plot(history.broker_kills, [0] * len(history.broker_kills), "kx", label="broker killed", clip_on=False)
    axes.set_xlabel("seconds")
    axes.set_ylabel("messages")
    axes.legend()


ARCHIVE_KILL9: Final = Experiment(
    name="archive-kill9",
    summary="the archive's driver killed at any point of its work, and brokers too: everything is archived once",
    source="our own promise: docs/pipeline-archive.md",
    parameters=(
        Parameter("restarts", 10, "kills of the archive's driver", quick=2, minimum=1, maximum=200),
        Parameter("rate", 300.0, "messages per second to publish", minimum=3, maximum=5_000),
    ),
    published={"lost": 0, "duplicated": 0, "strange": 0},
    run=_run,
)
