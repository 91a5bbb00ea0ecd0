"""Detection: is this broker overloaded, and which peers is it out of balance with? ([PADRES] section 3.2).

The result is the broker-action list, largest difference first. A broker acts only where it is the busier side; the
other side sees the rest. Partners that reported a state other than OK are left out (ours): asking them costs two
messages and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.balancing.metrics import Load
from penstock.balancing.pie import Pie
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.model.metrics import BALANCED, UTILISATIONS, Metric

__all__ = ["Action", "Band", "Triggers", "actions", "balanced_with", "band_of", "relief_of"]


class Band(Enum):
    """How busy a broker is."""

    CALM = "calm"
    LOADED = "loaded"
    OVERLOADED = "overloaded"


@dataclass(slots=True, frozen=True)
class Triggers:
    """The differences above which two sides are out of balance."""

    ratio: float
    delay: float
    delay_norm_s: float

    @classmethod
    def local(cls, settings: BalancingSettings) -> Triggers:
        """The triggers between edges."""
        return cls(settings.local_ratio_trigger, settings.local_delay_trigger, settings.delay_norm_s)

    @classmethod
    def of_clusters(cls, settings: BalancingSettings) -> Triggers:
        """The triggers between clusters."""
        return cls(settings.global_ratio_trigger, settings.global_delay_trigger, settings.delay_norm_s)

    def of(self, metric: Metric) -> float:
        """The trigger of one metric."""
        return self.ratio if metric.is_ratio else self.delay

    def difference(self, metric: Metric, one: Load, other: Load) -> float:
        """How far one load is above the other (equation 1 for delays)."""
        return one.value(metric, delay_norm_s=self.delay_norm_s) - other.value(metric, delay_norm_s=self.delay_norm_s)


@dataclass(slots=True, frozen=True)
class Action:
    """A metric to balance, and the partner to balance it with."""

    partner: str
    metric: Metric
    difference: float
    is_overload: bool = False
    """Whether the aim is to get below the overload threshold, not just to balance."""


def band_of(load: Load, settings: BalancingSettings, *, overload: float | None = None) -> Band:
    """How busy a broker with this load is; ``overload`` replaces the higher threshold if given."""
    highest = load.highest()
    if highest > (settings.higher_overload if overload is None else overload):
        return Band.OVERLOADED
    return Band.LOADED if highest > settings.lower_overload else Band.CALM


def relief_of(load: Load, overload: float) -> Metric | None:
    """The metric that relieves an overload: matching delay for input, CPU or memory, else output; None without one."""
    overloaded = {each.relief for each in UTILISATIONS if each.of(load) > overload}
    # From the end of the table: relief by matching delay comes before relief by output.
    return next((each for each in reversed(BALANCED) if each.name in overloaded), None)


def actions(own: Load, peers: Mapping[str, Pie], triggers: Triggers, *, overload: float) -> list[Action]:
    """The broker-action list; above the overload threshold, every action is for getting below it."""
    available = [each for each in peers.values() if each.state is State.OK]
    relief = relief_of(own, overload)
    if relief is not None:
        found = [
            Action(each.broker, relief, triggers.difference(relief, own, each.load), is_overload=True)
            for each in available
        ]
    else:
        found = [
            Action(each.broker, metric, difference)
            for each in available
            for metric in BALANCED
            if (difference := triggers.difference(metric, own, each.load)) > triggers.of(metric)
        ]
    # Differences in different metrics are compared relative to their triggers; then the partner with most room wins.
    return sorted(
        found,
        key=lambda each: (
            -each.difference / triggers.of(each.metric),
            peers[each.partner].load.highest(),
            each.partner,
        ),
    )


def balanced_with(own: Load, peers: Mapping[str, Pie], triggers: Triggers) -> tuple[str, ...]:
    """The peers that this broker is balanced with in every metric."""
    return tuple(
        sorted(
            each.broker
            for each in peers.values()
            if all(abs(triggers.difference(metric, own, each.load)) <= triggers.of(metric) for metric in BALANCED)
        )
    )
