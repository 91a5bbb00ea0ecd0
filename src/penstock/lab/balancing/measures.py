"""Metrics of all balancing experiments: convergence, spread, delays, overhead, accuracy, returns.

Definitions from the specification: loads have converged at the first time from which every metric difference stays
within the trigger until the next change of load; an oscillation is a subscriber that moved back to a broker it had
left, with no change of load in between; overhead and accuracy are fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Protocol

from penstock.balancing.estimators import accuracy
from penstock.balancing.metrics import Load
from penstock.balancing.reporting import Estimate
from penstock.lab.balancing.overlay import BalancingOverlay, Sample
from penstock.model.metrics import BALANCED, Metric

__all__ = [
    "Loaded",
    "accuracies",
    "converged_at",
    "mean_delay_ms",
    "oscillations",
    "overhead",
    "returns_in",
    "spread",
    "spreads_at",
    "undisturbed",
]

_NORM_S: Final = 0.1


class Loaded(Protocol):
    """The loads of brokers, simulated or real, at one moment."""

    @property
    def at_s(self) -> float:
        """When the loads were sampled."""

    @property
    def loads(self) -> Mapping[str, Load]:
        """Loads by broker."""


def spread(loads: Iterable[Load], metric: Metric) -> float:
    """The largest difference of a metric between any two loads."""
    values = [load.value(metric, delay_norm_s=_NORM_S) for load in loads]
    return max(values) - min(values) if values else 0.0


def spreads_at(samples: Sequence[Loaded], first_s: float, last_s: float) -> dict[Metric, float]:
    """The mean spread of each metric between two times."""
    chosen = [each for each in samples if first_s <= each.at_s <= last_s]
    return {
        metric: sum(spread(each.loads.values(), metric) for each in chosen) / max(len(chosen), 1) for metric in BALANCED
    }


def converged_at(samples: Sequence[Loaded], trigger: float, first_s: float, last_s: float) -> float:
    """The time from which all differences stay within the trigger until ``last_s``; ``last_s`` if they never do."""
    found, is_within = first_s, True
    for sample in samples:
        if first_s <= sample.at_s <= last_s:
            was_within = is_within
            is_within = max(spread(sample.loads.values(), metric) for metric in BALANCED) <= trigger
            if is_within and not was_within:
                found = sample.at_s
    return found if is_within else last_s


def mean_delay_ms(samples: Sequence[Sample], first_s: float, last_s: float, broker: str = "") -> float:
    """The mean delivery delay between two times: at one broker, or at all, weighted by their subscribers."""
    total = count = 0.0
    for sample in samples:
        if first_s <= sample.at_s <= last_s:
            for name, delay_ms in sample.delay_ms.items():
                if delay_ms and broker in ("", name):
                    weight = max(sample.subscribers[name], 1)
                    total, count = total + weight * delay_ms, count + weight
    return total / count if count else 0.0


def overhead(samples: Sequence[Sample], first_s: float, last_s: float) -> float:
    """Balancing messages as a fraction of all messages between two times."""
    chosen = [each for each in samples if first_s <= each.at_s <= last_s]
    if len(chosen) < 2:
        return 0.0
    control = chosen[-1].control - chosen[0].control
    messages = chosen[-1].messages - chosen[0].messages
    return control / max(control + messages, 1)


def accuracies(estimates: Iterable[Estimate], first_ms: float = 0) -> dict[Metric, float]:
    """The mean accuracy of estimates by metric, for those checked from ``first_ms`` on."""
    chosen = [each for each in estimates if each.at_ms >= first_ms]
    return {
        metric: sum(
            accuracy(
                each.estimated.value(metric, delay_norm_s=_NORM_S), each.actual.value(metric, delay_norm_s=_NORM_S)
            )
            for each in chosen
        )
        / max(len(chosen), 1)
        for metric in BALANCED
    }


def undisturbed(estimates: Iterable[Estimate], changes_ms: Sequence[float]) -> list[Estimate]:
    """Estimates whose load did not change before it was measured: no estimate could foresee that."""
    return [each for each in estimates if not any(each.made_ms < change_ms < each.at_ms for change_ms in changes_ms)]


def oscillations(overlay: BalancingOverlay, changes_s: Sequence[float]) -> int:
    """How often subscribers or publishers returned to a broker they had left, with no change of load in between.

    The first of the changes is when the last subscriber has joined; until then the load changes all the time.
    """
    start_us = overlay.world.clock.now_us - overlay.world.elapsed_ms * 1_000
    moved = [*(member.trail for member in overlay.members), *(each.client.trail for each in overlay.publishers)]
    trails = [[((at_us - start_us) / 1e6, broker) for at_us, broker in trail] for trail in moved]
    return sum(returns_in(trail, changes_s) for trail in trails)


def returns_in(trail: Sequence[tuple[float, str]], changes_s: Sequence[float]) -> int:
    """How often a subscriber with this trail returned to a broker it had left, with no change of load in between."""
    found = 0
    left: dict[str, int] = {}
    for (_, former), (at_s, broker) in pairwise(trail):
        epoch = sum(at_s >= change_s for change_s in changes_s)
        found += epoch > 0 and left.get(broker) == epoch
        left[former] = epoch
    return found
