"""Guaranteed delivery live: real processes, killed, stopped and cut off while real clients publish and subscribe.

The seed determines the blows and the messages; exact timing is up to the machine, so a run cannot be repeated exactly.
The verdict does not depend on timing: see ``oracle``. After the harm all is repaired and clients publish once more, so
that any late or duplicated message arrives before the last ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import islice
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn

from penstock.lab.delivery.kill9.harm import Harm, links_of
from penstock.lab.delivery.kill9.plan import PLAN, draw_blows
from penstock.lab.delivery.kill9.recovery import Recoveries, Recovery, percentile
from penstock.lab.delivery.kill9.traffic import Traffic, trading
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.links.ending import ending_in_order
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DELIVERY_KILL9"]

_LAST_S: Final = 0.5
"""How long clients publish once more when all is repaired."""
_NOTE_EVERY: Final = 10
"""Seconds between two notes on progress."""
_BROKEN_SHOWN: Final = 10
"""How many wrong sequences to show at most."""
_COLOURS: Final = {"kill": "#ee6677", "stop": "#ccbb44", "cut": "#4477aa", "stall": "#66ccee", "silence": "#aa3377"}


def _run(context: Context) -> Mapping[str, float]:
    context.reporter.stage(f"starting {len(PLAN.pubends)} brokers")
    with ending_in_order(), DemoOverlay(PLAN, detours=True) as overlay:
        return run(_Play(context, overlay).play())


class _Play:
    """One run: its overlay, the blows dealt to it, and the outcome."""

    def __init__(self, context: Context, overlay: DemoOverlay) -> None:
        self._context, self._overlay = context, overlay
        self._rng = Random(context.rng.getrandbits(64))
        self._blows = draw_blows(Random(context.rng.getrandbits(64)), context.number("seconds"))
        self._recoveries = Recoveries()
        self._converged = False

    async def play(self) -> dict[str, float]:
        async with AsyncExitStack() as stack:
            harm = Harm(self._overlay, await links_of(self._overlay, stack), self._recoveries)
            await self._overlay.linked()
            traffic = await stack.enter_async_context(trading(self._overlay, self._on_received))
            # If one task fails, all of them stop.
            async with asyncio.TaskGroup() as group:
                endless = [self._watch(harm, traffic), *(each.read() for each in traffic.subscribers)]
                beside = [group.create_task(each) for each in endless]
                await self._trade(harm, traffic)
                for task in beside:
                    task.cancel()
        self._context.figure(lambda figure: _draw(figure, self._recoveries.done))
        return self._measured(harm, traffic)

    def _on_received(self, host: str, source: str, published_s: float) -> None:
        self._recoveries.on_received(host, source, published_s=published_s, now_s=monotonic())

    async def _trade(self, harm: Harm, traffic: Traffic) -> None:
        seconds, rate = self._context.number("seconds"), self._context.number("rate")
        async with asyncio.TaskGroup() as group:
            group.create_task(harm.strike_all(self._blows))
            group.create_task(traffic.publish(self._rng, rate, seconds))
        try:
            async with asyncio.timeout(self._context.number("settle_seconds")):
                await traffic.settle()
                await traffic.publish(self._rng, rate, _LAST_S)
                await traffic.settle()
                self._converged = True
        except TimeoutError:
            self._context.reporter.note("some messages did not arrive in time, although everything was repaired")

    async def _watch(self, harm: Harm, traffic: Traffic) -> NoReturn:
        """Check that no broker has ended by itself, and report progress."""
        reporter, seconds = self._context.reporter, self._context.number("seconds")
        reporter.stage(f"{len(self._blows)} blows in {seconds:g} s", total=round(seconds))
        turn = 0
        while True:
            await asyncio.sleep(1)
            self._overlay.check()
            turn += 1
            reporter.advance()
            if turn % _NOTE_EVERY == 0:
                reporter.note(
                    f"{turn} s: {harm.kills} kills, {harm.stops} stops, {harm.cuts} cuts; "
                    f"acknowledged {traffic.acked:,}, delivered {traffic.delivered:,}"
                )

    def _measured(self, harm: Harm, traffic: Traffic) -> dict[str, float]:
        verdicts = traffic.verdicts()
        broken = {pair: each for pair, each in verdicts.items() if each.first_difference is not None}
        for pair, verdict in islice(broken.items(), _BROKEN_SHOWN):
            self._context.reporter.note(f"{traffic.describe(*pair)}: {verdict}")
        took_ms = [each.took_s * 1000 for each in self._recoveries.done]
        wrong = verdicts.values()
        return {
            "kills": harm.kills,
            "stops": harm.stops,
            "cuts": harm.cuts,
            "published": traffic.ledger.published,
            "acked": traffic.acked,
            "delivered": traffic.delivered,
            "lost": sum(each.lost for each in wrong),
            "duplicated": sum(each.duplicated for each in wrong),
            "reordered": sum(each.reordered for each in wrong),
            "wrongly_filtered": sum(each.wrongly_filtered for each in wrong) + traffic.strange,
            "chains": len(verdicts),
            "chains_broken": len(broken),
            "unconverged": int(not self._converged),
            "repeated": traffic.repeated,
            "recoveries": len(took_ms),
            "recovery_p50_ms": round(percentile(took_ms, 50), 1),
            "recovery_p99_ms": round(percentile(took_ms, 99), 1),
        }


def _draw(figure: Figure, recoveries: list[Recovery]) -> None:
    """Draw how long each recovery took, by kind of blow."""
    axes = figure.add_subplot()
    first_s = min((each.repaired_s for each in recoveries), default=0.0)
    for kind, colour in _COLOURS.items():
        some = [each for each in recoveries if each.kind == kind]
        axes.scatter([each.repaired_s - first_s for each in some], [each.took_s for each in some], c=colour, label=kind)
    axes.set_xlabel("repaired at, seconds after the first repair")
    axes.set_ylabel("seconds until messages flowed through it again")
    axes.legend(title="after a")


DELIVERY_KILL9: Final = Experiment(
    name="delivery-kill9",
    summary="guaranteed delivery of real processes through kill -9, SIGSTOP and cut links, against an oracle",
    source="our own promise: docs/proof.md",
    parameters=(
        Parameter("seconds", 45.0, "seconds of harm; a kill every 2.5 s", quick=8.0, minimum=1, maximum=250),
        Parameter("rate", 400.0, "messages per second to publish", minimum=4, maximum=5_000),
        Parameter("settle_seconds", 60.0, "seconds until all must have arrived after the harm", minimum=1),
    ),
    published={
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "wrongly_filtered": 0,
        "chains_broken": 0,
        "unconverged": 0,
    },
    run=_run,
)
