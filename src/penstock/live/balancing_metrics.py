"""The figures of balancing as Prometheus wants them: loads, state, sessions, migrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.protocol.status import BrokerStatus

__all__ = ["balancing_metrics"]

_GAUGES: Final = {
    "input": ("penstock_balancing_input_ratio", "Input utilisation: rate of publications times matching delay."),
    "output": ("penstock_balancing_output_ratio", "Output utilisation: bytes to clients over output bandwidth."),
    "delay_s": ("penstock_balancing_matching_delay_seconds", "Average matching delay of a publication."),
    "cpu": ("penstock_balancing_cpu_ratio", "CPU utilisation of the broker."),
    "memory": ("penstock_balancing_memory_ratio", "Memory utilisation of the broker."),
}
_COUNTERS: Final = {
    "sessions": ("penstock_balancing_sessions", "Sessions in which this broker offloaded."),
    "fruitless": ("penstock_balancing_fruitless_sessions", "Sessions in which nobody could be moved."),
    "migrations": ("penstock_balancing_migrations", "Subscribers that moved away."),
    "arrivals": ("penstock_balancing_arrivals", "Subscribers that moved here."),
    "timeouts": ("penstock_balancing_timeouts", "Waits for a partner that ended by time."),
    "malformed": ("penstock_balancing_malformed", "Control messages that could not be right."),
}
_STATES: Final = ("OK", "BUSY", "N/A", "STABILIZING")


def balancing_metrics(broker: BrokerStatus) -> Iterator[Metric]:
    """All of one broker's status; nothing if it does not balance itself."""
    found = broker.mechanisms.get("balancing")
    if found is None:
        return
    for key, (name, text) in _GAUGES.items():
        if key in found:
            yield GaugeMetricFamily(name, text, value=found[key])
    state = GaugeMetricFamily("penstock_balancing_state", "1 for the state it is in.", labels=["state"])
    for each in _STATES:
        state.add_metric([each], int(found["state"] == each))
    yield state
    for key, (name, text) in _COUNTERS.items():
        if key in found["counts"]:
            yield CounterMetricFamily(name, text, value=found["counts"][key])
