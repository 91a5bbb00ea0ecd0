"""Samples a broker's figures for the lake: its metrics, and the figures that its rooms report.

Rates, lags, queues, UCAs, allowed rates: a counter is sampled as it is, and readers take differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import to_builtins

from penstock.live.metrics import registry_of
from penstock.live.node_status import NodeStatus
from penstock.live.shipping.writer import Sample
from penstock.protocol.status import BrokerStatus

__all__ = ["SAMPLES_MAX", "samples_of"]

SAMPLES_MAX: Final = 10_000
"""Samples taken at a time; the rest are left out, and counted in ``penstock_samples_left_out``."""


_DEPTH_MAX: Final = 3
_STATE_CHARS_MAX: Final = 40
"""A longer text does not count as a state."""


class _Known:
    """Wraps a status that was read before."""

    def __init__(self, status: NodeStatus) -> None:
        self._status = status

    def status(self) -> NodeStatus:
        """The status that was read."""
        return self._status


def samples_of(status: NodeStatus, *, now_ms: int) -> list[Sample]:
    """All figures in a node's status."""
    # Homes ship figures of their own.
    registry = registry_of(_Known(status), homes=False, now_ms=lambda: now_ms)
    found: list[Sample] = [
        (sample.name, sample.labels, float(sample.value)) for family in registry.collect() for sample in family.samples
    ]
    found += _room_samples(status.broker)
    for mechanism, figures in status.broker.mechanisms.items():
        found += _mechanism_samples(mechanism, figures)
    if len(found) > SAMPLES_MAX:
        left_out = len(found) - SAMPLES_MAX
        found[SAMPLES_MAX:] = [("penstock_samples_left_out", {}, float(left_out))]
    return found


def _room_samples(broker: BrokerStatus) -> Iterator[Sample]:
    for pubend, rates in broker.congestion.pubends.items():
        yield from _figures("penstock_congestion", to_builtins(rates), {"pubend": pubend})
    for pubend, flow in broker.congestion.streams.items():
        yield from _figures("penstock_congestion_stream", to_builtins(flow), {"pubend": pubend})
    for name, figures in to_builtins(broker.tracking).items():
        if isinstance(figures, Mapping):
            for label, value in figures.items():
                yield from _figures("penstock_tracking", {name: value}, {"of": str(label)})
        else:
            yield from _figures("penstock_tracking", {name: figures}, {})


def _mechanism_samples(mechanism: str, figures: Mapping[str, Any], path: str = "") -> Iterator[Sample]:
    """Nested figures, which metrics leave out, by their path; and states, each as a figure of 1."""
    for name, value in figures.items():
        labels = {"mechanism": mechanism, "figure": f"{path}{name}"}
        if isinstance(value, Mapping) and path.count(".") < _DEPTH_MAX:
            yield from _mechanism_samples(mechanism, value, f"{path}{name}.")
        elif isinstance(value, str) and 0 < len(value) <= _STATE_CHARS_MAX:
            yield "penstock_mechanism_state", {**labels, "is": value}, 1.0
        elif path and isinstance(value, int | float):
            yield "penstock_mechanism", labels, float(value)


def _figures(prefix: str, figures: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Sample]:
    for name, value in figures.items():
        if isinstance(value, int | float):
            yield f"{prefix}_{name}", labels, float(value)
