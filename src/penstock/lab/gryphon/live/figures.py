"""Figures computed from the samples of the live experiments, the same as for the simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.lab.gryphon.live.plan import OFFERED_MSG_S, PUBENDS, WIRE_BYTES
from penstock.lab.gryphon.series import Sample, adapt_s, between, mean, mean_rate, rates, smoothed

__all__ = [
    "Outage",
    "Phase",
    "has_caught_up",
    "lag_end_s",
    "outage_figures",
    "phase_figures",
    "published",
    "queue_max_bytes",
]

_STEADY_S: Final = 10.0
"""The last part of a phase, by which it is judged."""
_RESTORED: Final = 0.9
_CAUGHT_UP_S: Final = 1.0
_LAST_S: Final = 3.0


@dataclass(slots=True, frozen=True)
class Phase:
    """A period in which the bottleneck had one bandwidth."""

    first_s: float
    last_s: float
    bytes_s: float


@dataclass(slots=True, frozen=True)
class Outage:
    """The times of a link failure."""

    down_s: float
    up_s: float
    recovered_s: float
    """When the failed host had caught up; the end of the observation if it never had."""
    last_s: float
    """The end of the observation."""
    has_recovered: bool = True


def published(sample: Sample) -> int:
    """Messages published to all pubends."""
    return sum(sample.published)


def queue_max_bytes(samples: Sequence[Sample]) -> int:
    """The most bytes seen waiting in a broker."""
    return max((size for each in samples for size in each.queued_bytes.values()), default=0)


def phase_figures(samples: Sequence[Sample], phases: Sequence[Phase], host: str) -> dict[str, float]:
    """For each phase: how well the bottleneck was used, how soon the rate adapted, how late messages were."""
    points = rates(samples, published)
    found: dict[str, dict[str, float]] = {"utilisation": {}, "adapt_s": {}, "mean_lag_s": {}}
    for number, phase in enumerate(phases, start=1):
        took_s = adapt_s(points, phase.first_s, phase.last_s)
        first_s = min(phase.first_s + took_s, phase.last_s - 2.0)
        rate = mean_rate(samples, lambda each: each.delivered[host], first_s=first_s, last_s=phase.last_s)
        window = between(samples, first_s, phase.last_s)
        found["utilisation"][f"utilisation_{number}"] = rate * WIRE_BYTES / phase.bytes_s
        found["adapt_s"][f"adapt_s_{number}"] = took_s
        found["mean_lag_s"][f"mean_lag_s_{number}"] = mean([each.lag_s[host] for each in window])
    return {**found["utilisation"], **found["adapt_s"], **found["mean_lag_s"]}


def outage_figures(samples: Sequence[Sample], outage: Outage, host: str) -> dict[str, float]:
    """How long the failed host took to recover, and the publication rate before, meanwhile and afterwards."""
    before = mean_rate(samples, published, first_s=outage.down_s - _STEADY_S, last_s=outage.down_s)
    meanwhile = mean_rate(samples, published, first_s=outage.up_s, last_s=outage.recovered_s)
    after = mean_rate(samples, published, first_s=outage.last_s - _STEADY_S, last_s=outage.last_s)
    windows = [max(each.windows_ms[host], default=0) for each in between(samples, outage.up_s, outage.recovered_s)]
    return {
        "recovery_s": outage.recovered_s - outage.up_s,
        "recovered": float(outage.has_recovered),
        "rate_before": before,
        "rate_in_recovery": meanwhile,
        "rate_after": after,
        "restore_s": _restore_s(samples, outage),
        "nack_window_max_ms": max(windows, default=0),
        "min_pubend_share": _least_share(samples, outage),
    }


def has_caught_up(sample: Sample, host: str) -> bool:
    """Whether the slowest edge stream of the host is close to its pubend."""
    return sample.lag_s[host] < _CAUGHT_UP_S


def lag_end_s(samples: Sequence[Sample], last_s: float) -> float:
    """The lag of the worst host at the end of the observation: the median of the last moments."""
    window = between(samples, last_s - _LAST_S, last_s)
    worst = sorted(max(each.lag_s.values(), default=0.0) for each in window)
    return worst[len(worst) // 2] if worst else 0.0


def _restore_s(samples: Sequence[Sample], outage: Outage) -> float:
    """Time from recovery until every pubend has its rate back; the rest of the observation if one never has."""
    longest = 0.0
    for number in range(len(PUBENDS)):
        points = smoothed(rates(samples, lambda each, number=number: each.published[number]), 2.0)  # type: ignore[misc]
        times = [at_s for at_s, rate in points if at_s >= outage.recovered_s and rate >= _RESTORED * OFFERED_MSG_S]
        longest = max(longest, min(times, default=outage.last_s) - outage.recovered_s)
    return longest


def _least_share(samples: Sequence[Sample], outage: Outage) -> float:
    """Messages of the slowest pubend in recovery, as a share of the mean."""
    window = between(samples, outage.up_s, outage.recovered_s)
    if len(window) < 2:
        return 1.0
    counts = [last - first for first, last in zip(window[0].published, window[-1].published, strict=True)]
    return min(counts) / mean(counts) if any(counts) else 1.0
