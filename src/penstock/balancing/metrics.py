"""The load of a broker: utilisation of input and output, matching delay, CPU and memory ([PADRES] section 3.2).

Ir = rate of incoming messages × average matching delay; Or = output bytes used / output bandwidth. Shells and brokers
keep running counts; a meter keeps the recent ones and works on their differences, so that nothing depends on how often
it is asked.

A backlog is not load (ours): a broker draining one sends more, and uses more CPU, than the incoming publications
require. So output and CPU are taken per publication handled, times the publications that came in, as for Ir. This stops
where a backlog might never end: with more than a minute's publications waiting, a broker is as busy as it looks.

The metrics are the rows of the table in ``model/metrics.py``; a load has a field for each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import isfinite
from typing import Final

from penstock.model.metrics import METRICS, UTILISATIONS, Metric

__all__ = ["HostFigures", "Load", "LoadMeter", "Measurement"]

_MEASUREMENTS_MAX: Final = 10_000
_PILE_MS_MAX: Final = 60_000


@dataclass(slots=True, frozen=True)
class Load:
    """How busy a broker or a cluster is: the value of each metric, utilisations as fractions."""

    input: float = 0.0
    output: float = 0.0
    delay_s: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    def highest(self) -> float:
        """The highest utilisation."""
        values: list[float] = [each.of(self) for each in UTILISATIONS]
        return max(values)

    def value(self, metric: Metric, *, delay_norm_s: float) -> float:
        """The value of a metric for comparison; delays are normalised (equation 1)."""
        value: float = metric.of(self)
        return value if metric.is_ratio else value / delay_norm_s

    def is_finite(self) -> bool:
        """Whether all values are finite and not negative."""
        values = [each.of(self) for each in METRICS]
        return all(isfinite(each) and each >= 0 for each in values)


@dataclass(slots=True, frozen=True)
class HostFigures:
    """A shell's figures about the machine; the broker counts what the shell leaves out."""

    cpu: float = 0.0
    """Utilisation since the last report."""
    memory: float = 0.0
    """The share of memory in use."""
    memory_per_subscription: float = 0.0
    messages_in: int | None = None
    """Publications that have reached the machine, including those still waiting."""
    matched: int | None = None
    """Publications that time was spent on."""
    matching_ns: int | None = None


@dataclass(slots=True, frozen=True)
class Measurement:
    """Counts since the broker started, and its current condition."""

    at_ms: int
    messages_in: int
    """Publications that came in."""
    bytes_out: int
    """Bytes sent to clients."""
    matched: int
    """Publications whose matching was timed."""
    matching_ns: int
    """Time spent on matching them."""
    subscriptions: int
    """Subscriptions in the matching engine now."""
    cpu: float = 0.0
    memory: float = 0.0
    memory_per_subscription: float = 0.0
    """The share of memory that one subscription takes."""
    handled: int | None = None
    """Publications that came in and no longer wait; None if nothing ever waits."""


class LoadMeter:
    """Averages measurements over a time window."""

    def __init__(self, *, window_ms: int, output_bandwidth: float) -> None:
        self._window_ms = window_ms
        self.output_bandwidth = output_bandwidth
        """Bytes per second that can be sent to clients."""
        self._kept: deque[Measurement] = deque(maxlen=_MEASUREMENTS_MAX)
        self.rate_msg_s = 0.0
        """Publications coming in, per second."""
        self.bytes_out_s = 0.0
        """Bytes per second to be sent to clients for the publications coming in."""
        self.delay_s = 0.0
        """Average matching delay."""
        self.subscriptions_mean = 0.0
        """Average number of subscriptions over the same window."""
        self.load = Load()

    @property
    def latest(self) -> Measurement | None:
        """The last measurement."""
        return self._kept[-1] if self._kept else None

    @property
    def span_ms(self) -> int:
        """The time that the averages cover."""
        return self._kept[-1].at_ms - self._kept[0].at_ms if self._kept else 0

    def forget(self) -> None:
        """Drop all but the latest measurement: subscribers have moved, so older ones no longer apply."""
        while len(self._kept) > 1:
            self._kept.popleft()

    def add(self, measurement: Measurement) -> bool:
        """Add a measurement; returns whether there is a load. If counts fall, starts over: the shell was restarted."""
        kept = self._kept
        if kept and (measurement.at_ms <= kept[-1].at_ms or measurement.messages_in < kept[-1].messages_in):
            kept.clear()
        kept.append(measurement)
        while len(kept) > 2 and kept[1].at_ms <= measurement.at_ms - self._window_ms:
            kept.popleft()
        if len(kept) < 2:
            return False
        self._average()
        return True

    def _average(self) -> None:
        first, last = self._kept[0], self._kept[-1]
        seconds = (last.at_ms - first.at_ms) / 1000
        demand = _demand(first, last)
        self.rate_msg_s = (last.messages_in - first.messages_in) / seconds
        self.bytes_out_s = max(last.bytes_out - first.bytes_out, 0) / seconds * demand
        if last.matched > first.matched:
            self.delay_s = (last.matching_ns - first.matching_ns) / (last.matched - first.matched) / 1e9
        elif not last.subscriptions:
            self.delay_s = 0.0
        later = list(self._kept)[1:]
        self.subscriptions_mean = sum(each.subscriptions for each in later) / len(later)
        self.load = Load(
            input=self.rate_msg_s * self.delay_s,
            output=self.bytes_out_s / self.output_bandwidth,
            delay_s=self.delay_s,
            # A processor that cannot keep up is busy, and no more than that: Ir tells how far it falls short.
            cpu=sum(each.cpu for each in later) / len(later) * min(demand, 1.0),
            memory=last.memory,
        )


def _demand(first: Measurement, last: Measurement) -> float:
    """Publications that came in per publication handled; below one while a backlog is drained."""
    if first.handled is None or last.handled is None or last.handled <= first.handled:
        return 1.0
    came_in, waiting = last.messages_in - first.messages_in, last.messages_in - last.handled
    demand = came_in / (last.handled - first.handled)
    is_pile = waiting * (last.at_ms - first.at_ms) > came_in * _PILE_MS_MAX
    return max(demand, 1.0) if is_pile else demand
