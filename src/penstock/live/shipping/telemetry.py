"""Samples of a broker's figures for the lake: those of its metrics, and what its rooms say of themselves.

Rates, lags, queues, UCAs, allowed rates: a figure that only grows is sampled as it is, readers take differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.live.metrics import registry_of
from penstock.live.shipping.writer import Sample

__all__ = ["SAMPLES_MAX", "samples_of"]

SAMPLES_MAX: Final = 10_000
"""Samples of one moment; of more the last ones are left out, and counted in ``penstock_samples_left_out``."""


class _Known:
    """A status that somebody has asked for already."""

    def __init__(self, status: dict[str, Any]) -> None:
        self._status = status

    def status(self) -> dict[str, Any]:
        """How it was."""
        return self._status


def samples_of(status: dict[str, Any], *, now_ms: int) -> list[Sample]:
    """All figures in a node's status."""
    registry = registry_of(_Known(status), now_ms=lambda: now_ms)
    found: list[Sample] = [
        (sample.name, sample.labels, float(sample.value)) for family in registry.collect() for sample in family.samples
    ]
    found += _room_samples(status["broker"])
    if len(found) > SAMPLES_MAX:
        left_out = len(found) - SAMPLES_MAX
        found[SAMPLES_MAX:] = [("penstock_samples_left_out", {}, float(left_out))]
    return found


def _room_samples(broker: Mapping[str, Any]) -> Iterator[Sample]:
    congestion = broker.get("congestion", {})
    for part, prefix in (("pubends", "penstock_congestion"), ("streams", "penstock_congestion_stream")):
        for pubend, figures in congestion.get(part, {}).items():
            yield from _figures(prefix, figures, {"pubend": pubend})
    for name, figures in broker.get("tracking", {}).items():
        if isinstance(figures, Mapping):
            for label, value in figures.items():
                yield from _figures("penstock_tracking", {name: value}, {"of": str(label)})
        else:
            yield from _figures("penstock_tracking", {name: figures}, {})


def _figures(prefix: str, figures: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Sample]:
    for name, value in figures.items():
        if isinstance(value, int | float):
            yield f"{prefix}_{name}", labels, float(value)
