"""Congestion control live: real brokers over links that are really narrow ([Gryphon] section 5, E1 and E2).

Links are relay processes on loopback or, for root, network namespaces with traffic control. Publishers offer 125
messages a second to each of 4 pubends and wait while they are held back. With ``control=off`` the same overlay shows
what happens without congestion control. Exact timing is up to the machine; after the last limit was lifted, an oracle
outside the brokers judges whether messages were lost, duplicated or reordered.

``lag_end_s`` is the lag of the worst host at the end of the last phase, before limits are lifted: the median of the
last three seconds. Deviation: phases are shorter than the paper's; see ``plan``.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from penstock.congestion import CongestionSettings
from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.gryphon.live.charts import draw_outage, draw_phases
from penstock.lab.gryphon.live.figures import (
    Outage,
    Phase,
    has_caught_up,
    lag_end_s,
    outage_figures,
    phase_figures,
    queue_max_bytes,
)
from penstock.lab.gryphon.live.plan import IB_SB1, IB_SB2, KIB, LINKS, PB_IB, live_plan
from penstock.lab.gryphon.live.traffic import CLIENTS, Traffic, trading
from penstock.lab.gryphon.live.watch import SAMPLE_S, Watch
from penstock.lab.gryphon.series import Sample
from penstock.lab.links.ending import ending_in_order
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.namespaced import NamespacedOverlay
from penstock.lab.links.namespaces import why_no_namespaces
from penstock.lab.links.overlays import Link, LinkedOverlay, RelayedOverlay
from penstock.system.loop import run

__all__ = ["GRYPHON_E1_LIVE", "GRYPHON_E2_LIVE"]

_BUFFER_BYTES: Final = 8 * KIB
"""Bytes that a link holds: an eighth of a second of the narrowest. More would only add delay."""
_NOTE_EVERY_S: Final = 10.0


class _Play(ABC):
    """One run: its overlay, the script, and the outcome."""

    def __init__(self, context: Context, overlay: LinkedOverlay) -> None:
        self.context, self.overlay = context, overlay
        self.watch: Watch
        self.observed: list[Sample] = []
        """Samples taken before publishers stopped and all limits were lifted."""
        self._is_settled = False

    @property
    def how(self) -> str:
        """The kind of control and of links, for the title of the chart."""
        control, profile, links = (self.context.text(name) for name in ("control", "profile", "links"))
        by = f"profile {profile}" if control == "on" else "without control"
        return f"{by}, {'relays' if links == 'relay' else 'namespaces'}"

    @abstractmethod
    async def script(self) -> None:
        """Limit and cut links as the experiment requires."""

    @abstractmethod
    def measured(self) -> dict[str, float]:
        """Compute the figures, and draw the chart."""

    async def play(self) -> dict[str, float]:
        """Run the experiment, and judge the outcome."""
        await self.overlay.linked()
        async with trading(self.overlay) as traffic:
            self.watch = Watch(self.overlay, traffic)
            async with asyncio.TaskGroup() as group:
                reading = [group.create_task(host.read()) for host in traffic.hosts]
                watching = group.create_task(self.watch.watch())
                publishing = group.create_task(traffic.publish())
                await self.script()
                last_s = self.watch.now_s
                self.observed = list(self.watch.samples)
                await self._settle(traffic, publishing)
                for task in (*reading, watching):
                    task.cancel()
            verdicts = traffic.verdicts()
        if not self._is_settled:
            self.context.reporter.note("some messages did not arrive in time, although all limits were lifted")
        return {
            **self.measured(),
            "published": traffic.ledger.published,
            "lost": sum(each.lost for each in verdicts),
            "duplicated": sum(each.duplicated for each in verdicts),
            "reordered": sum(each.reordered for each in verdicts),
            "strange": sum(host.strange for host in traffic.hosts),
            "queue_max_bytes": queue_max_bytes(self.observed),
            "lag_end_s": round(lag_end_s(self.observed, last_s), 3),
        }

    async def _settle(self, traffic: Traffic, publishing: asyncio.Task[None]) -> None:
        """Stop publishing, lift all limits, and wait until all messages have arrived."""
        self.context.reporter.stage("waiting until all has arrived")
        traffic.stop()
        for link in LINKS:
            await self.limit(link, 0)
        try:
            async with asyncio.timeout(self.context.number("settle_seconds")):
                await publishing
            self._is_settled = await traffic.settle(self.context.number("settle_seconds"))
        except TimeoutError:
            publishing.cancel()

    async def limit(self, link: Link, bytes_s: float) -> None:
        """Change the bandwidth of a link."""
        await asyncio.to_thread(self.overlay.limit, link, bytes_s)

    async def stage(self, title: str, seconds: float) -> None:
        """Let some time pass, and report the state now and then."""
        self.context.reporter.stage(title, total=round(seconds))
        end_s, noted_s = time.monotonic() + seconds, time.monotonic()
        while (left_s := end_s - time.monotonic()) > 0:
            await asyncio.sleep(min(1.0, left_s))
            self.context.reporter.advance()
            if time.monotonic() - noted_s >= _NOTE_EVERY_S:
                noted_s += _NOTE_EVERY_S
                self.note()

    def note(self) -> None:
        """Report the current state."""
        samples = self.watch.samples
        if len(samples) > 4:
            old, new = samples[-5], samples[-1]
            rate = (sum(new.published) - sum(old.published)) / (new.at_s - old.at_s)
            lags = ", ".join(f"{host} {lag_s:.1f} s" for host, lag_s in new.lag_s.items())
            waits = max(new.queued_bytes.values()) // KIB
            self.context.reporter.note(
                f"{new.at_s:.0f} s: {rate:.0f} messages/s; lag {lags}; at most {waits:,} KB wait in a broker"
            )


class _Phases(_Play):
    """E2: the bandwidth of the link to one host changes."""

    phases: tuple[Phase, ...] = ()

    async def script(self) -> None:
        await self.stage("no limit", self.context.number("before_seconds"))
        seconds = self.context.number("phase_seconds")
        for kbytes_s in (60, 150, 60):
            first_s = self.watch.now_s
            await self.limit(IB_SB1, kbytes_s * KIB)
            await self.stage(f"IB-SB1 limited to {kbytes_s} KB/s", seconds)
            self.phases = (*self.phases, Phase(first_s, self.watch.now_s, kbytes_s * KIB))

    def measured(self) -> dict[str, float]:
        self.context.figure(lambda figure: draw_phases(figure, self.observed, self.phases, how=self.how))
        figures = phase_figures(self.observed, self.phases, "sb1")
        return {name: round(value, 3) for name, value in figures.items()}


class _Outage(_Play):
    """E1: the link to one host fails for a while, and its backlog must pass a link with little to spare."""

    outage = Outage(0.0, 0.0, 0.0, 0.0)

    async def script(self) -> None:
        number = self.context.number
        await self.limit(PB_IB, 250 * KIB)
        await self.stage("PB-IB limited to 250 KB/s", number("before_seconds"))
        down_s = self.watch.now_s
        await asyncio.to_thread(self.overlay.cut, IB_SB2)
        await self.stage("IB-SB2 is down", number("down_seconds"))
        await asyncio.to_thread(self.overlay.restore, IB_SB2)
        up_s = self.watch.now_s
        recovered_s = await self._recovered(number("recovery_seconds"))
        await self.stage("afterwards", number("after_seconds"))
        has_recovered = recovered_s - up_s < number("recovery_seconds")
        self.outage = Outage(down_s, up_s, recovered_s, self.watch.now_s, has_recovered)

    async def _recovered(self, seconds: float) -> float:
        """Wait until the host has caught up or the time is over, and return when that is."""
        self.context.reporter.stage("SB2 recovers", total=round(seconds))
        end_s, noted_s = self.watch.now_s + seconds, self.watch.now_s
        # The first sample after link-up may still show the time before.
        seen = len(self.watch.samples) + 2
        while self.watch.now_s < end_s:
            await asyncio.sleep(SAMPLE_S / 2)
            if len(self.watch.samples) > seen and has_caught_up(self.watch.samples[-1], "sb2"):
                break
            if self.watch.now_s - noted_s >= _NOTE_EVERY_S:
                noted_s += _NOTE_EVERY_S
                self.note()
        return self.watch.now_s

    def measured(self) -> dict[str, float]:
        self.context.figure(lambda figure: draw_outage(figure, self.observed, self.outage, how=self.how))
        figures = outage_figures(self.observed, self.outage, "sb2")
        return {name: round(value, 3) for name, value in figures.items()}


def _run(context: Context, kind: type[_Play]) -> Mapping[str, float]:
    overlay = _overlay(context)
    context.reporter.stage("starting 4 brokers and 3 links")
    with ending_in_order(), overlay:
        return run(kind(context, overlay).play())


def _overlay(context: Context) -> LinkedOverlay:
    control, links, profile = (context.text(name) for name in ("control", "links", "profile"))
    if control not in ("on", "off"):
        raise ParameterError(f"control is {control!r}, must be on or off")
    CongestionSettings.of_profile(profile)
    plan = live_plan(profile=profile, control=control == "on")
    if links == "relay":
        return RelayedOverlay(plan, LinkLimits(buffer_bytes=_BUFFER_BYTES))
    if links == "netns":
        if why := why_no_namespaces():
            raise ParameterError(f"links=netns is not available on this machine: {why}")
        return NamespacedOverlay(plan, LinkLimits(buffer_bytes=_BUFFER_BYTES), clients=CLIENTS)
    raise ParameterError(f"links is {links!r}, must be relay or netns")


_PARAMETERS: Final = (
    Parameter("control", "on", "whether congestion is controlled: on or off"),
    Parameter("profile", "paper", "the parameters of congestion control: paper or swift"),
    Parameter("links", "relay", "relay processes on loopback (relay) or network namespaces (netns, needs root)"),
)
_SETTLE: Final = Parameter("settle_seconds", 30.0, "seconds until all must have arrived at the end", minimum=1)

GRYPHON_E1_LIVE: Final = Experiment(
    name="gryphon-e1-live",
    summary="real brokers recover from a link failure over a narrow link, without collapse",
    source="[Gryphon] section 5, E1, figure 7; phases shortened",
    parameters=(
        *_PARAMETERS,
        Parameter("before_seconds", 15.0, "seconds before the link fails", quick=3.0, minimum=1),
        Parameter("down_seconds", 30.0, "seconds that it is down", quick=4.0, minimum=1),
        Parameter("recovery_seconds", 60.0, "seconds of recovery, at most", quick=6.0, minimum=1),
        Parameter("after_seconds", 55.0, "seconds afterwards", quick=3.0, minimum=1),
        _SETTLE,
    ),
    published={"lost": 0, "duplicated": 0, "reordered": 0},
    run=lambda context: _run(context, _Outage),
)

GRYPHON_E2_LIVE: Final = Experiment(
    name="gryphon-e2-live",
    summary="real brokers follow a bottleneck of 60, 150 and 60 KB/s with short queues",
    source="[Gryphon] section 5, E2, figures 9 and 10; phases shortened",
    parameters=(
        *_PARAMETERS,
        Parameter("before_seconds", 10.0, "seconds before the first limit", quick=3.0, minimum=1),
        Parameter("phase_seconds", 48.0, "seconds of each phase", quick=4.0, minimum=1),
        _SETTLE,
    ),
    published={"lost": 0, "duplicated": 0, "reordered": 0},
    run=lambda context: _run(context, _Phases),
)
