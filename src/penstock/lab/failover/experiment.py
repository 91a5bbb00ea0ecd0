"""Pubends that move, live: their holders are killed, stopped and cut off, and their database fails over.

There are three candidates, a synchronous pair of PostgreSQL, and two other brokers for all clients: publishers,
subscribers (some of them durable), and members of a work queue who have jobs all the time. Blows come one after the
other, so that each pause has one cause (``pauses`` says what counts). After the last one clients publish once more, so
that any late or duplicated message arrives before the last ones.

The seed determines blows and messages; exact timing is up to the machine, so a run cannot be repeated exactly. The
verdicts on what arrived do not depend on timing: they are those of ``delivery-kill9`` and ``work-kill9``.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from itertools import islice
from math import inf
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.lab.databases import DatabaseServer, database_folder, missing_reason, synchronous_pair
from penstock.lab.delivery.kill9.recovery import percentile
from penstock.lab.delivery.kill9.traffic import Traffic, trading
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.failover.harm import Harm, Watch
from penstock.lab.failover.jobs import Workshop
from penstock.lab.failover.network import DatabaseNetwork
from penstock.lab.failover.pauses import Outcome
from penstock.lab.failover.plan import (
    CANDIDATES,
    KINDS,
    LAYOUT,
    LIMIT_S,
    PLAN,
    Blow,
    Kind,
    draw_blows,
    lease_of,
    pubend_tables,
)
from penstock.lab.failover.servers import Servers
from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.links.ending import ending_in_order
from penstock.model.errors import MisuseError
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FAILOVER_KILL9"]

_LAST_S: Final = 0.5
"""How long clients publish once more when all is repaired."""
_CHECK_S: Final = 0.5
_BROKEN_SHOWN: Final = 10
"""How many wrong sequences, or errors, to show at most."""
_ERROR: Final = "Z error "
"""In a line of a log, after the time."""
_COLOURS: Final[dict[Kind, str]] = {
    "kill": "#ee6677",
    "stop": "#ccbb44",
    "cut": "#4477aa",
    "stall": "#66ccee",
    "silence": "#aa3377",
    "database": "#228833",
    "both": "#222222",
}


def _run(context: Context) -> Mapping[str, float]:
    profile = context.text("profile")
    if profile not in LIMIT_S:
        raise ParameterError(f"profile {profile!r} is none of: {', '.join(LIMIT_S)}")
    logs = context.text("logs")
    if logs and Path(logs).exists() and any(Path(logs).iterdir()):
        raise ParameterError(f"the folder for logs is not empty: {logs}")
    if missing_reason():
        raise MisuseError(missing_reason())
    context.reporter.stage("starting a pair of databases")
    with ending_in_order(), database_folder() as folder, synchronous_pair(folder) as pair, _logs_of(context, pair):
        return run(_Play(context, Servers(*pair)).play())


@contextmanager
def _logs_of(context: Context, pair: Sequence[DatabaseServer]) -> Iterator[None]:
    """Keep the logs of the servers, if that is wanted."""
    folder = Path(context.text("logs"))
    try:
        yield
    finally:
        if context.text("logs"):
            folder.mkdir(parents=True, exist_ok=True)
            for server in pair:
                shutil.copy(server.log_path, folder / f"{server.folder.name}.log")


class _Play:
    """One run: its servers, its overlay, the blows dealt to them, and the outcome."""

    def __init__(self, context: Context, servers: Servers) -> None:
        self._context, self._servers = context, servers
        self._profile = context.text("profile")
        self._rng = Random(context.rng.getrandbits(64))
        lease = lease_of(self._profile)
        blows_rng = Random(context.rng.getrandbits(64))
        self._blows = draw_blows(blows_rng, context.integer("blows"), lease_ms=lease.lease_ms)
        self._watch = Watch()
        self._outcomes: list[Outcome] = []
        self._left = 0
        self._has_converged = False

    async def play(self) -> dict[str, float]:
        reporter = self._context.reporter
        async with AsyncExitStack() as stack:
            network = await stack.enter_async_context(DatabaseNetwork(CANDIDATES, self._servers.ports))
            reporter.stage(f"starting {len(PLAN.pubends)} brokers")
            overlay = self._overlay(network).__enter__()
            # In a thread: to end in order, brokers need the relays, which run here.
            stack.push_async_callback(asyncio.to_thread, overlay.close)
            await overlay.linked()
            harm = Harm(overlay, network, self._servers, self._watch)
            await harm.holders()
            traffic = await stack.enter_async_context(trading(overlay, self._watch.on_received, LAYOUT))
            workshop = await stack.enter_async_context(Workshop(overlay))
            # If one task fails, all of them stop.
            async with asyncio.TaskGroup() as group:
                endless = [self._check(overlay, workshop), *(each.read() for each in traffic.subscribers)]
                beside = [group.create_task(each) for each in endless]
                await self._trade(harm, traffic, workshop)
                for task in beside:
                    task.cancel()
            measured = {
                **self._measured(traffic, workshop),
                "errors": self._errors(overlay),
                **self._paused(),
                "promotion_s_max": round(max(harm.promotions_s, default=0.0), 3),
                "copy_s_max": round(max(harm.copies_s, default=0.0), 3),
            }
        self._context.figure(self._draw)
        return measured

    def _overlay(self, network: DatabaseNetwork) -> DemoOverlay:
        logs = self._context.text("logs")
        folder = Path(logs) if logs else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        return DemoOverlay(
            PLAN, tables=lambda name: pubend_tables(network.url(name), profile=self._profile), folder=folder
        )

    async def _trade(self, harm: Harm, traffic: Traffic, workshop: Workshop) -> None:
        rate, jobs_rate = self._context.number("rate"), self._context.number("jobs_rate")
        patience_s = self._context.number("settle_seconds")
        async with asyncio.TaskGroup() as group:
            publishing = [
                group.create_task(traffic.publish(self._rng, rate, inf)),
                group.create_task(workshop.publish(jobs_rate)),
            ]
            is_well = await self._strike_all(harm, patience_s)
            traffic.enough()
            workshop.enough()
            if not is_well:
                # They may be held back for ever.
                for task in publishing:
                    task.cancel()
        try:
            async with asyncio.timeout(patience_s):
                await traffic.settle()
                await traffic.publish(self._rng, rate, _LAST_S)
                await traffic.settle()
                await workshop.settle()
                self._has_converged = is_well
        except TimeoutError:
            self._context.reporter.note("some messages or jobs did not arrive in time, although all was repaired")
            self._left = await workshop.left()

    async def _strike_all(self, harm: Harm, patience_s: float) -> bool:
        """Deal the blows; returns whether messages flowed again after each."""
        reporter = self._context.reporter
        reporter.stage(f"{len(self._blows)} blows", total=len(self._blows))
        for number, blow in enumerate(self._blows, start=1):
            try:
                async with asyncio.timeout(patience_s):
                    outcome = await harm.strike(blow)
            except TimeoutError:
                reporter.note(f"{number:>3} {_words(blow)}: messages did not flow again within {patience_s:g} s")
                return False
            self._outcomes.append(outcome)
            reporter.advance()
            reporter.note(f"{number:>3} {self._row(outcome)}")
        return True

    async def _check(self, overlay: DemoOverlay, workshop: Workshop) -> None:
        """Check again and again that no broker and no worker has ended by itself."""
        while True:
            await asyncio.sleep(_CHECK_S)
            overlay.check()
            workshop.check()

    def _row(self, outcome: Outcome) -> str:
        """One line of the table of all blows."""
        deliveries = self._watch.deliveries
        now = ", ".join(f"{pubend} {each.name} ({each.epoch})" for pubend, each in outcome.after.items())
        counted, whole = outcome.pause_s(deliveries), outcome.whole_s(deliveries)
        waited = f" of {whole:5.2f} s" if outcome.counts_from_s else " " * 11
        who = outcome.target or "primary"
        return f"{outcome.kind:<8} {who:<7} pause {counted:5.2f} s{waited}; then {now}"

    def _measured(self, traffic: Traffic, workshop: Workshop) -> dict[str, float]:
        verdicts = traffic.verdicts()
        broken = {pair: each for pair, each in verdicts.items() if each.first_difference is not None}
        for pair, verdict in islice(broken.items(), _BROKEN_SHOWN):
            self._context.reporter.note(f"{traffic.describe(*pair)}: {verdict}")
        wrong = verdicts.values()
        work = workshop.verdict()
        return {
            "blows": len(self._outcomes),
            "takeovers": sum(each.takeovers for each in self._outcomes),
            "published": traffic.ledger.published,
            "acked": traffic.acked,
            "delivered": traffic.delivered,
            "lost": sum(each.lost for each in wrong),
            "duplicated": sum(each.duplicated for each in wrong),
            "reordered": sum(each.reordered for each in wrong),
            "wrongly_filtered": sum(each.wrongly_filtered for each in wrong) + traffic.strange,
            "chains": len(verdicts),
            "chains_broken": len(broken),
            "unreplicated": self._watch.unreplicated,
            "unconverged": int(not self._has_converged),
            "repeated": traffic.repeated,
            "jobs": workshop.published,
            "jobs_done": work.done,
            "jobs_in_doubt": work.in_doubt,
            "jobs_lost": len(work.lost) + len(work.strange),
            "jobs_doubled": len(work.doubled),
            "jobs_left": self._left,
            "jobs_unanswered": work.unanswered,
            "jobs_late": work.late,
            "jobs_handed_again": work.repeated,
        }

    def _errors(self, overlay: DemoOverlay) -> int:
        """How many errors brokers have logged: they expect all that happens here."""
        lines = [line for name in PLAN.pubends for line in overlay.log(name).splitlines() if _ERROR in line]
        for line in lines[:_BROKEN_SHOWN]:
            self._context.reporter.note(line)
        return len(lines)

    def _paused(self) -> dict[str, float]:
        deliveries = self._watch.deliveries
        pauses_s = {kind: [each.pause_s(deliveries) for each in self._outcomes if each.kind == kind] for kind in KINDS}
        every_s = [each for some in pauses_s.values() for each in some]
        limit_s = LIMIT_S[self._profile]
        figures: dict[str, float] = {
            "pause_s_limit": limit_s,
            "pause_s_max": round(max(every_s, default=0.0), 3),
            "pauses_too_long": sum(each >= limit_s for each in every_s),
        }
        for kind, some in pauses_s.items():
            figures[f"{kind}_blows"] = len(some)
            figures[f"{kind}_pause_s_p50"] = round(percentile(some, 50), 3)
            figures[f"{kind}_pause_s_max"] = round(max(some, default=0.0), 3)
        return figures

    def _draw(self, figure: Figure) -> None:
        """Draw the pause of each blow, by kind, with the whole time where less counts."""
        deliveries = self._watch.deliveries
        axes = figure.add_subplot()
        for place, kind in enumerate(KINDS):
            some = [each for each in self._outcomes if each.kind == kind]
            # Side by side, so that equal pauses do not hide each other.
            across = [place + (number - (len(some) - 1) / 2) * 0.8 / max(1, len(some)) for number in range(len(some))]
            counted = [each.pause_s(deliveries) for each in some]
            whole = [each.whole_s(deliveries) for each in some]
            axes.scatter(across, whole, facecolors="none", edgecolors="grey", s=40)
            axes.scatter(across, counted, c=_COLOURS[kind], s=40)
        axes.scatter(
            [], [], facecolors="none", edgecolors="grey", label="with the wait for the promotion and for a new standby"
        )
        axes.axhline(LIMIT_S[self._profile], color="black", linestyle=":", label=f"limit, profile {self._profile}")
        counts = Counter(each.kind for each in self._outcomes)
        axes.set_xticks(range(len(KINDS)), [f"{kind}\n{counts[kind]} blows" for kind in KINDS])
        axes.set_ylabel("longest time without a delivery (s)")
        axes.set_ylim(bottom=0)
        axes.legend()


def _words(blow: Blow) -> str:
    return f"{blow.kind} ({blow.pubend}, {blow.pause_s:.2f} s)"


FAILOVER_KILL9: Final = Experiment(
    name="failover-kill9",
    summary="pubends that move: holders killed, stopped and cut off, databases killed; nothing lost, short pauses",
    source="our own promise: docs/high-availability.md",
    parameters=(
        Parameter("blows", 35, "how often something is struck", quick=7, minimum=1, maximum=1_000),
        Parameter("profile", "calm", "how soon others take over: calm or swift"),
        Parameter("rate", 200.0, "messages per second to publish", minimum=4, maximum=5_000),
        Parameter("jobs_rate", 20.0, "jobs per second to publish", minimum=1, maximum=500),
        Parameter("settle_seconds", 60.0, "seconds until messages must flow again after a blow", minimum=1),
        Parameter("logs", "", "an empty folder that gets the logs of brokers and servers"),
    ),
    published={
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "wrongly_filtered": 0,
        "chains_broken": 0,
        "unreplicated": 0,
        "unconverged": 0,
        "errors": 0,
        "jobs_lost": 0,
        "jobs_doubled": 0,
        "jobs_left": 0,
        "jobs_unanswered": 0,
        "pauses_too_long": 0,
    },
    run=_run,
)
