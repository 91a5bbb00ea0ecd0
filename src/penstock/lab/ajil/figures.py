"""Loads of the Ajil experiments, and the figures computed from a run ([Ajil] section 5).

Overshoot is the mean excess over the limit in the epochs of the surge, as a share of the limit. A surge has settled
when the mean of five epochs is at most 2 % over the limit. Utility is the traffic sent divided by the traffic wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from penstock.ajil import Aup
from penstock.ajil.amounts import Floats
from penstock.lab.ajil.world import AjilWorld, Shape
from penstock.lab.frame.experiment import Context
from penstock.lab.frame.parameters import Parameter

__all__ = [
    "BASE",
    "COMMON",
    "LIMIT",
    "PEAK",
    "SOURCE",
    "Run",
    "Wave",
    "aup_of",
    "mean_of",
    "over_seeds",
    "overshoot",
    "recovery_epochs",
    "run_wave",
    "settle_epochs",
    "spread",
]

SOURCE: Final = "[Ajil] section 5"
KB: Final = 1000.0
BASE, LIMIT, PEAK = 400 * KB, 600 * KB, 750 * KB
"""Bytes per second, as in figure 2."""
_SETTLED: Final = 0.02
_SETTLED_OVER: Final = 5

COMMON: Final = (
    Parameter("seeds", 10, "runs, each of its own seed; figures are means", quick=1, minimum=1, maximum=100),
    Parameter("nodes", 100, "nodes", quick=40, minimum=4, maximum=5000),
    Parameter("groups", 100, "multicast groups", quick=40, minimum=4, maximum=20_000),
)


@dataclass(slots=True, frozen=True)
class Wave:
    """The load over time: the surge lasts from epoch ``first`` up to ``last``, in a run of ``epochs``."""

    first: int = 350
    last: int = 700
    epochs: int = 1000
    peak: float = PEAK
    ramp: bool = False
    """Whether the load grows to the peak between ``first`` and ``last`` instead of jumping."""

    def load(self, epoch: int) -> float:
        """Bytes that applications want to send in an epoch."""
        if self.ramp:
            return BASE + (self.peak - BASE) * min(max(epoch - self.first, 0) / (self.last - self.first), 1.0)
        return self.peak if self.first <= epoch < self.last else BASE


@dataclass(slots=True)
class Run:
    """The results of one run."""

    wave: Wave
    traffic: Floats
    """Traffic sent in each epoch, as a share of the limit."""
    wanted: Floats
    """Traffic wanted in each epoch, as a share of the limit."""
    reports: Floats
    """Number of reports in each epoch."""
    packets: float
    """Packets sent in the whole run."""
    channel_utility: Floats
    """Utility of each channel in the surge."""
    group_sent: Floats
    """Bytes that each group sent in the surge."""
    group_wanted: Floats
    """Bytes that each group wanted to send in the surge."""
    node_ms: float
    """Processor milliseconds per node and epoch."""
    world: AjilWorld = field(repr=False)

    @property
    def surge(self) -> Floats:
        """Excess over the limit in each epoch of the surge, as a share of the limit; negative if below."""
        return self.traffic[self.wave.first : self.wave.last] - 1

    @property
    def group_utility(self) -> Floats:
        """Utility of each group in the surge."""
        return self.group_sent / self.group_wanted

    @property
    def utility(self) -> Floats:
        """Utility of each epoch."""
        return self.traffic / self.wanted


def aup_of(**changes: float | str) -> Aup:
    """The experiments' policy, with these fields changed."""
    return Aup(**{"limit_bytes_s": LIMIT, **changes})  # type: ignore[arg-type]


def run_wave(shape: Shape, aup: Aup, wave: Wave, *, seed: int) -> Run:
    """Simulate one run from beginning to end."""
    world = AjilWorld(shape, aup, seed=seed)
    sent, wanted = np.zeros(0), np.zeros(0)
    for epoch in range(wave.epochs):
        if epoch == wave.first:
            world.forget_channels()
        if epoch == wave.last:
            sent, wanted = world.sent_by_channel.copy(), world.wanted_by_channel.copy()
        world.run(wave.load(epoch))
    if wave.epochs <= wave.last:
        sent, wanted = world.sent_by_channel, world.wanted_by_channel
    groups = world.channel_group
    traffic = np.array(world.tape.sent) / LIMIT
    return Run(
        wave,
        traffic,
        np.array(world.tape.wanted) / LIMIT,
        np.array(world.tape.reports, dtype=float),
        packets=float(traffic.sum() * LIMIT / shape.packet_bytes),
        channel_utility=sent / wanted,
        group_sent=np.bincount(groups, weights=sent).astype(np.float64),
        group_wanted=np.bincount(groups, weights=wanted).astype(np.float64),
        node_ms=world.node_seconds * 1000 / (wave.epochs * shape.nodes),
        world=world,
    )


def over_seeds(context: Context, title: str, one: Callable[[int], Run]) -> list[Run]:
    """Run once for each seed."""
    seeds = context.integer("seeds")
    context.reporter.stage(title, total=seeds)
    runs = []
    for number in range(seeds):
        runs.append(one(context.seed * 1000 + number))
        context.reporter.advance()
    return runs


def mean_of(runs: Sequence[Run], figure: Callable[[Run], float], digits: int = 5) -> float:
    """The mean of a figure over runs."""
    return round(float(np.mean([figure(each) for each in runs])), digits)


def overshoot(run: Run) -> float:
    """The mean excess over the limit in the surge."""
    return float(np.maximum(run.surge, 0).mean())


def spread(values: Floats) -> float:
    """The standard deviation of values."""
    return float(values.std())


def settle_epochs(run: Run) -> float:
    """Epochs from the start of the surge until it settles; the length of the surge if it never does."""
    surge = run.surge
    for epoch in range(len(surge) - _SETTLED_OVER + 1):
        if surge[epoch : epoch + _SETTLED_OVER].mean() <= _SETTLED:
            return float(epoch)
    return float(len(surge))


def recovery_epochs(run: Run, utility: float = 0.999) -> float:
    """Epochs from the end of the surge until nearly all wanted traffic is sent again."""
    after = run.utility[run.wave.last :]
    found = np.flatnonzero(after < utility)
    return float(found[-1] + 1) if len(found) else 0.0
