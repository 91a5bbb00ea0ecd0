"""Balancing live: three real edges of different bandwidth, everybody joins the weakest ([PADRES] section 6.2).

Brokers are real processes: one head with the publishers, and three edges. All clients run in this process. Places,
moves and deliveries of subscribers are observed from outside; loads and sessions are reported by the brokers.
``converged_s`` counts from the first subscriber. A difference that exceeds the trigger for no longer than the time over
which loads are averaged is measurement noise: a process that waited for the processor sent less for a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.balancing.metrics import Load
from penstock.balancing.settings import BalancingSettings
from penstock.lab.balancing.charts import dress
from penstock.lab.balancing.live.plan import EDGES, POWERS, live_plan
from penstock.lab.balancing.live.traffic import Traffic, trading
from penstock.lab.balancing.measures import converged_at, spreads_at
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.links.ending import ending_in_order
from penstock.model.metrics import METRICS, OUTPUT
from penstock.protocol.status import BalancingStatus
from penstock.session.errors import ClientError
from penstock.system.loop import run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BALANCING_LIVE", "Market", "Sample", "draw", "load_of", "returns"]

_JOINED: Final = "B1"
_SAMPLE_S: Final = 0.5
_NOTE_EVERY_S: Final = 10.0
_END_SHARE: Final = 0.1
"""The last part of a run, in which the largest difference is measured."""
_TRIGGER: Final = BalancingSettings().local_ratio_trigger
_COLOURS: Final = dict(zip(EDGES, ("#4477aa", "#ee6677", "#228833"), strict=True))


@dataclass(slots=True, frozen=True)
class Sample:
    """The state of the edges at one moment."""

    at_s: float
    loads: Mapping[str, Load]
    subscribers: Mapping[str, int]
    sessions: int
    """Sessions of all edges, so far."""


def load_of(status: BalancingStatus) -> Load:
    """The load of an edge, from its balancing status."""
    return Load(**{each.key: float(each.of(status)) for each in METRICS})


def returns(trails: Iterable[Sequence[str]]) -> int:
    """How often subscribers came back to a broker that they had left.

    >>> returns([["B1", "B3"], ["B1", "B2", "B1", "B3", "B2"]])
    2
    """
    return sum(len(trail) - len(set(trail)) for trail in trails)


class Market:
    """One run: all subscribers join B1, and we watch where brokers move them."""

    def __init__(self, context: Context, overlay: DemoOverlay) -> None:
        self.context, self.overlay = context, overlay
        self.traffic: Traffic
        self.samples: list[Sample] = []
        self.joined_s = 0.0
        """When all subscribers had joined."""
        self._started_s = 0.0

    @property
    def now_s(self) -> float:
        """Seconds since the first subscriber was to join."""
        return time.monotonic() - self._started_s

    async def play(self, is_over: Callable[[Market], bool]) -> dict[str, float]:
        """Run until ``is_over`` returns true, wait for outstanding messages, and judge."""
        await self.overlay.linked()
        async with trading(self.overlay) as traffic:
            self.traffic = traffic
            async with asyncio.TaskGroup() as group:
                publishing = group.create_task(traffic.publish(self.context.rng, self.context.number("rate")))
                self._started_s = time.monotonic()
                watching = group.create_task(self._watch())
                reading = await self._join(group)
                await self._wait(is_over)
                watching.cancel()
                await self._settle(publishing)
                for task in reading:
                    task.cancel()
            return self._measured()

    async def _join(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        count, seconds = self.context.integer("subscribers"), self.context.number("join_seconds")
        self.context.reporter.stage(f"{count} subscribers join {_JOINED}", total=count)
        reading = []
        for number in range(count):
            await asyncio.sleep(max(0.0, number / count * seconds - self.now_s))
            reading.append(group.create_task((await self.traffic.join(_JOINED)).read()))
            self.context.reporter.advance()
        self.joined_s = self.now_s
        return reading

    async def _wait(self, is_over: Callable[[Market], bool]) -> None:
        self.context.reporter.stage("brokers balance themselves")
        noted_s = self.now_s
        while not is_over(self):
            await asyncio.sleep(_SAMPLE_S / 5)
            if self.now_s - noted_s >= _NOTE_EVERY_S and self.samples:
                noted_s += _NOTE_EVERY_S
                last = self.samples[-1]
                told = ", ".join(f"{edge} {last.subscribers[edge]} ({last.loads[edge].output:.2f})" for edge in EDGES)
                self.context.reporter.note(f"{last.at_s:.0f} s, subscribers and output: {told}")

    async def _settle(self, publishing: asyncio.Task[None]) -> None:
        self.context.reporter.stage("waiting until all has arrived")
        self.traffic.stop()
        await publishing
        if not await self.traffic.settle(self.context.number("settle_seconds")):
            self.context.reporter.note("some messages did not arrive in time")

    async def _watch(self) -> None:
        while True:
            self.overlay.check()
            told = dict(zip(EDGES, await asyncio.gather(*map(self._ask, EDGES)), strict=True))
            loads = {edge: load_of(status) for edge, status in told.items()}
            sessions = sum(status.counts["sessions"] for status in told.values())
            self.samples.append(Sample(self.now_s, loads, self.traffic.census(), sessions))
            await asyncio.sleep(_SAMPLE_S - self.now_s % _SAMPLE_S)

    async def _ask(self, edge: str) -> BalancingStatus:
        while True:
            try:
                status = await self.traffic.askers[edge].status()
            except ClientError:
                # The connection was lost; the client reconnects unless the broker is gone.
                self.overlay.check()
                await asyncio.sleep(_SAMPLE_S / 10)
            else:
                assert status.balancing is not None, "every edge takes part in balancing"
                return status.balancing

    def _measured(self) -> dict[str, float]:
        samples, traffic, verdicts = self.samples, self.traffic, self.traffic.verdicts()
        last_s = samples[-1].at_s
        converged_s = converged_at(samples, _TRIGGER, self.joined_s, last_s)
        spreads = spreads_at(samples, last_s * (1 - _END_SHARE), last_s)
        self.context.figure(lambda figure: draw(figure, samples, joined_s=self.joined_s, converged_s=converged_s))
        strange = sum(each.strange for each in traffic.subscribers)
        return {
            "converged_s": round(converged_s, 1),
            "max_difference_end_output": round(spreads[OUTPUT], 3),
            **{f"subscribers_{edge}": count for edge, count in samples[-1].subscribers.items()},
            "sessions": samples[-1].sessions,
            "migrations": traffic.migrations,
            "oscillations": returns(each.trail for each in traffic.subscribers),
            "lost": sum(each.lost for each in verdicts),
            "duplicated": sum(each.duplicated for each in verdicts),
            "reordered": sum(each.reordered for each in verdicts),
            "strange": strange + sum(each.wrongly_filtered for each in verdicts),
            "published": traffic.ledger.published,
            "delivered": traffic.delivered,
        }


def _run(context: Context) -> Mapping[str, float]:
    plan = live_plan(
        subscribers=context.integer("subscribers"),
        rate=context.number("rate"),
        smoothing_ms=context.integer("smoothing_ms"),
    )
    seconds = context.number("seconds")
    context.reporter.stage("starting 4 brokers")
    with ending_in_order(), DemoOverlay(plan) as overlay:
        return run(Market(context, overlay).play(lambda market: market.now_s >= seconds))


def draw(figure: Figure, samples: Sequence[Sample], *, joined_s: float, converged_s: float) -> None:
    """Draw how many subscribers each edge has, and how busy they keep it."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    total, powers = sum(samples[-1].subscribers.values()), sum(POWERS.values())
    for edge, power in POWERS.items():
        _curve(upper, edge, [(each.at_s, each.subscribers[edge]) for each in samples])
        upper.axhline(total * power / powers, color=_COLOURS[edge], linestyle="--", linewidth=0.8)
        _curve(lower, edge, [(each.at_s, each.loads[edge].output) for each in samples])
    upper.plot([], [], color="#555555", linestyle="--", linewidth=0.8, label="share by\nbandwidth")
    lower.axhline(1.0, color="#555555", linestyle="--", linewidth=0.8, label="all that\nit has")
    for axes in (upper, lower):
        axes.axvline(joined_s, color="#555555", linestyle=":", linewidth=1, label=f"all joined\n{joined_s:.0f} s")
        if converged_s < samples[-1].at_s:
            label = f"balanced\n{converged_s:.0f} s"
            axes.axvline(converged_s, color="#aa3377", linestyle=":", linewidth=1, label=label)
    dress(upper, "Real brokers: subscribers of each edge, as figure 6e", "", "subscribers")
    dress(lower, "Output utilisation of each edge, as figure 6b", "time (s)", "output utilization ratio")


def _curve(axes: Axes, edge: str, points: Sequence[tuple[float, float]]) -> None:
    label = f"{edge} (bandwidth {POWERS[edge]})"
    axes.plot(*zip(*points, strict=True), color=_COLOURS[edge], linewidth=1.3, label=label)


BALANCING_LIVE: Final = Experiment(
    name="balancing-live",
    summary="three real edges of different bandwidth share the subscribers that all joined the weakest one",
    source="Cheung and Jacobsen, Middleware 2006, section 6.2; real processes, and shorter",
    parameters=(
        Parameter("subscribers", 300, "subscribers that join B1", quick=60, minimum=7),
        Parameter("seconds", 240.0, "seconds from the first subscriber until publishers stop", quick=30.0, minimum=1),
        Parameter("join_seconds", 40.0, "seconds in which they join", quick=8.0, minimum=0),
        Parameter("rate", 40.0, "quotes per second, of two publishers together", minimum=1),
        Parameter("smoothing_ms", 5_000, "ms over which loads are averaged", quick=2_000, minimum=500),
        Parameter("settle_seconds", 30.0, "seconds until all must have arrived at the end", minimum=1),
    ),
    published={"max_difference_end_output": "at most 0.1"},
    run=_run,
)
