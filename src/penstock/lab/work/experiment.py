"""Work queues live: workers and brokers are processes, and one of them is killed again and again while jobs are done.

First a run without kills shows what the machine carries. Then other jobs are done under kills, and a few more when all
is repaired. The judge counts in the files that workers write (see ``judge``), and knows nothing of brokers. The pace is
taken from the first job to the moment when fewer jobs are left than workers could hold, without the times in which the
pubend's broker was down: from its kill until it listens again. ``pace`` says what it is compared with; the share of the
pace without kills is told as well. There must be enough jobs for some kills to fall into that time (``kills_at_work``).
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.client.client import connect
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.links.ending import ending_in_order
from penstock.lab.work.crew import Crew
from penstock.lab.work.judge import WorkVerdict, judge
from penstock.lab.work.pace import Pace, Span, pace_of, quiet_spans
from penstock.lab.work.plan import HOME, KINDS, PLAN, PUBEND, Kill, KillKind, draw_kills
from penstock.lab.work.worker import WORK_MS
from penstock.session.errors import ClientError
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["WORK_KILL9"]

_PATIENT: Final = ClientSettings(backoff_max_ms=250)
_LAST_JOBS: Final = 100
"""Jobs that are published when all is repaired."""
_PAYLOAD: Final = bytes(100)
_POLL_S: Final = 0.1
_NOTE_EVERY_S: Final = 5.0
_SHOWN: Final = 10
"""How many wrong jobs to show at most."""
_COLOURS: Final[dict[KillKind, str]] = {"worker": "#4477aa", "home": "#ee6677", "broker": "#ccbb44"}
_LABELS: Final[dict[KillKind, str]] = {
    "worker": "a worker is killed",
    "home": "the pubend's broker is killed",
    "broker": "another broker is killed",
}


def _run(context: Context) -> Mapping[str, float]:
    context.reporter.stage(f"starting {len(PLAN.pubends)} brokers")
    with ending_in_order(), DemoOverlay(PLAN) as overlay:
        return run(_Play(context, overlay).play())


class _Play:
    """One run: its overlay, its workers, and the kills."""

    def __init__(self, context: Context, overlay: DemoOverlay) -> None:
        self._context, self._overlay = context, overlay
        self._workers = [f"w{number}" for number in range(context.integer("workers"))]
        self._at_once, self._job_s = context.integer("at_once"), context.number("job_ms") / 1_000
        self._kills: Iterator[Kill] = draw_kills(Random(context.rng.getrandbits(64)), len(self._workers))
        self._killed: list[tuple[float, KillKind]] = []
        self._down: list[Span] = []
        """When the pubend's broker was down."""
        self._held_max = 2 * self._at_once * len(self._workers)
        """Most jobs that workers have at a time: when no more are left, some workers may have nothing to do."""
        self._published = 0
        self._left = 0

    async def play(self) -> dict[str, float]:
        await self._overlay.linked()
        calibrated_per_s = await self._calibrate()
        jobs = self._context.integer("jobs")
        with self._crew("kills") as crew:
            began_s = await self._begin(crew, jobs, "under kills")
            # If one task fails, all of them stop.
            async with asyncio.TaskGroup() as group:
                killing = group.create_task(self._kill_while_busy(crew, jobs))
                watching = group.create_task(self._watch(crew))
                await killing
                await self._publish(crew, _LAST_JOBS)
                watching.cancel()
            await self._all_done(crew, self._published)
            verdict = judge(self._published, crew.lives)
        whole = self._busy(crew, jobs)
        quiet = quiet_spans([at_s for at_s, _ in self._killed], whole, down=self._down)
        quiet_per_s = self._pace(crew, quiet).per_s
        pace = self._pace(crew, [whole], machine_per_s=quiet_per_s)
        of_calibrated = self._pace(crew, [whole], machine_per_s=calibrated_per_s)
        struck = sum(whole[0] < at_s <= whole[1] for at_s, _ in self._killed)
        self._context.figure(lambda figure: self._draw(figure, crew.done_s(), began_s, quiet_per_s))
        return {
            **self._judged(verdict),
            "kills_at_work": struck,
            "calibrated_per_s": round(calibrated_per_s, 1),
            "quiet_per_s": round(quiet_per_s, 1),
            "jobs_per_s": round(pace.per_s, 1),
            "down_s": round(sum(end_s - begin_s for begin_s, end_s in self._down), 2),
            "resume_s_max": round(max(self._resumed_s(crew), default=0.0), 2),
            "share": round(pace.share, 3),
            "share_of_calibrated": round(of_calibrated.share, 3),
        }

    async def _calibrate(self) -> float:
        """Do some jobs without kills; returns how many that were per second."""
        jobs = self._context.integer("calibration_jobs")
        with self._crew("calibration") as crew:
            await self._begin(crew, jobs, "without kills")
            await self._all_done(crew, jobs)
            pace = self._pace(crew, [self._busy(crew, jobs)])
        self._context.reporter.note(f"without kills: {pace.per_s:,.0f} jobs/s")
        return pace.per_s

    def _resumed_s(self, crew: Crew) -> list[float]:
        """How long it took each time from when the pubend's broker listened again until a job was done."""
        done_s = crew.done_s()
        firsts = [bisect_left(done_s, end_s) for _, end_s in self._down]
        return [
            done_s[first] - end_s for first, (_, end_s) in zip(firsts, self._down, strict=True) if first < len(done_s)
        ]

    def _crew(self, group: str) -> Crew:
        return Crew(self._overlay, group, f"run = '{group}'", at_once=self._at_once, job_s=self._job_s)

    async def _begin(self, crew: Crew, jobs: int, what: str) -> float:
        """Publish jobs, start workers, and let them begin together; returns when."""
        reporter = self._context.reporter
        reporter.stage(f"publishing {jobs:,} jobs")
        self._published = 0
        async with connect(self._overlay.url(HOME), settings=_PATIENT) as client:
            # Makes the group, which then keeps the log.
            group = client.subscribe(crew.selector, shared=crew.group, work_ms=WORK_MS, prefetch=1, start="earliest")
            await group.ready()
            await group.close()
        await self._publish(crew, jobs)
        reporter.stage(f"starting {len(self._workers)} workers")
        for name in self._workers:
            crew.start(name)
        while not crew.is_ready:
            await asyncio.sleep(_POLL_S)
            crew.look()
        reporter.stage(f"{jobs:,} jobs {what}", total=jobs)
        return crew.go()

    async def _publish(self, crew: Crew, jobs: int) -> None:
        async with connect(self._overlay.url(HOME), settings=_PATIENT) as client:
            for _ in range(jobs):
                await client.publish({"run": crew.group, "number": self._published}, _PAYLOAD, pubend=PUBEND)
                self._published += 1

    async def _kill_while_busy(self, crew: Crew, jobs: int) -> None:
        """Kill as long as there is work for all workers, and at least one process of each kind."""
        every_s = self._context.number("kill_every_s")
        next_s = time.monotonic() + every_s
        while len(self._killed) < len(KINDS) or crew.done < jobs - self._held_max:
            await asyncio.sleep(_POLL_S)
            if time.monotonic() >= next_s:
                next_s += every_s
                await self._strike(crew, next(self._kills))

    async def _strike(self, crew: Crew, kill: Kill) -> None:
        killed_s = time.monotonic()
        self._killed.append((killed_s, kill.kind))
        if kill.kind == "worker":
            crew.kill(kill.target)
            await asyncio.sleep(kill.pause_s)
            crew.start(kill.target)
            return
        self._overlay.kill(kill.target)
        await asyncio.sleep(kill.pause_s)
        # In a thread: it takes about a second, and progress is to be seen meanwhile.
        await asyncio.to_thread(self._overlay.start, kill.target)
        if kill.kind == "home":
            self._down.append((killed_s, time.monotonic()))

    async def _watch(self, crew: Crew) -> None:
        """Check that no process has ended by itself, and report progress."""
        reporter = self._context.reporter
        began_s = noted_s = time.monotonic()
        while True:
            await asyncio.sleep(_POLL_S)
            self._overlay.check()
            reporter.advance(crew.look())
            if time.monotonic() >= noted_s + _NOTE_EVERY_S:
                noted_s += _NOTE_EVERY_S
                kills = Counter(kind for _, kind in self._killed)
                struck = ", ".join(f"{kills[kind]} {kind}" for kind in KINDS)
                reporter.note(f"{noted_s - began_s:.0f} s: {crew.done:,} jobs done; killed: {struck}")

    async def _all_done(self, crew: Crew, jobs: int) -> None:
        """Wait until nothing is left in the group, and workers know that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._context.number("settle_seconds")):
                while await self._is_left(crew, jobs):
                    self._context.reporter.advance(crew.look())
                    await asyncio.sleep(_POLL_S)
                while not crew.is_answered:
                    crew.look()
                    await asyncio.sleep(_POLL_S)
        self._left = await self._left_in(crew)
        crew.look()

    async def _is_left(self, crew: Crew, jobs: int) -> bool:
        """Whether jobs are left; the pubend is asked only if it may be that none is."""
        # What is in doubt may be done although files never tell.
        return crew.done + crew.in_doubt < jobs or await self._left_in(crew) > 0

    async def _left_in(self, crew: Crew) -> int:
        """How many messages the pubend still has for the group; some if that cannot be known."""
        try:
            async with connect(self._overlay.url(HOME), settings=_PATIENT) as client:
                pubend = (await client.status()).guaranteed.pubends[PUBEND]
        except ClientError:
            return 1
        group = pubend.groups[crew.group]
        return max(group.known, int(group.position <= pubend.last_tick))

    def _busy(self, crew: Crew, jobs: int) -> Span:
        """From the first job to the moment when some workers may have nothing to do."""
        done_s = crew.done_s()
        enough = max(1, min(jobs, len(done_s)) - self._held_max)
        return done_s[0], done_s[enough - 1]

    def _pace(self, crew: Crew, spans: Sequence[Span], *, machine_per_s: float = float("inf")) -> Pace:
        done_s = crew.done_s()
        return pace_of(
            done_s,
            spans,
            down=self._down,
            alive=crew.alive(done_s[-1]),
            worker_per_s=self._at_once / self._job_s,
            machine_per_s=machine_per_s,
        )

    def _judged(self, verdict: WorkVerdict) -> dict[str, float]:
        for what in ("lost", "doubled", "strange"):
            if wrong := getattr(verdict, what):
                self._context.reporter.note(f"{what}: {', '.join(map(str, wrong[:_SHOWN]))}")
        kills = Counter(kind for _, kind in self._killed)
        return {
            "worker_kills": kills["worker"],
            "home_kills": kills["home"],
            "broker_kills": kills["broker"],
            "jobs": self._published,
            "done": verdict.done,
            "in_doubt": verdict.in_doubt,
            "unknown": verdict.unknown,
            "excused": verdict.excused,
            "lost": len(verdict.lost) + len(verdict.strange),
            "doubled": len(verdict.doubled),
            "left": self._left,
            "unanswered": verdict.unanswered,
            "repeated": verdict.repeated,
            "late": verdict.late,
        }

    def _draw(self, figure: Figure, done_s: list[float], began_s: float, quiet_per_s: float) -> None:
        """Draw how many jobs were done over time, with the kills."""
        axes = figure.add_subplot()
        times = [each - began_s for each in done_s]
        axes.plot(times, range(1, len(times) + 1), color="black", label="jobs done")
        full_s = len(times) / quiet_per_s if quiet_per_s else 0.0
        axes.plot(
            [0, full_s], [0, len(times)], color="grey", linestyle=":", label="at the pace of the seconds before kills"
        )
        for kind in KINDS:
            for place, at_s in enumerate(each for each, struck in self._killed if struck == kind):
                label = _LABELS[kind] if place == 0 else None
                axes.axvline(at_s - began_s, color=_COLOURS[kind], linewidth=1, label=label)
        for begin_s, end_s in self._down:
            axes.axvspan(begin_s - began_s, end_s - began_s, color=_COLOURS["home"], alpha=0.15)
        axes.set(xlabel="time (s)", ylabel="jobs acknowledged")
        axes.set_xlim(left=0)
        axes.legend()


WORK_KILL9: Final = Experiment(
    name="work-kill9",
    summary="a work queue of real processes: each job is done once, whichever worker or broker is killed",
    source="our own promise: docs/proof.md",
    parameters=(
        Parameter("workers", 8, "worker processes, at four brokers", quick=2, minimum=1, maximum=64),
        Parameter("jobs", 1_000_000, "jobs under kills", quick=3_000, minimum=100),
        Parameter("calibration_jobs", 40_000, "jobs in the run without kills", quick=1_000, minimum=100),
        Parameter("at_once", 50, "jobs that a worker does at the same time", quick=5, minimum=1, maximum=500),
        Parameter("job_ms", 10.0, "milliseconds that a worker sleeps for a job", minimum=0.1),
        Parameter("kill_every_s", 5.0, "seconds between kills", quick=1.0, minimum=0.1),
        Parameter("settle_seconds", 120.0, "seconds until all must be done after the kills", minimum=1),
    ),
    published={"lost": 0, "doubled": 0, "left": 0, "unanswered": 0},
    run=_run,
)
