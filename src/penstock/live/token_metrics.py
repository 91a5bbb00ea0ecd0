"""The figures of the wandering token as Prometheus wants them: constants, load, counts ([Token] section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.protocol.status import BrokerStatus

__all__ = ["token_metrics"]

_GAUGES: Final = {
    "members": ("penstock_token_members", "Brokers that the token walks over, as far as they can be reached.", 1.0),
    "k_load": ("penstock_token_load", "Share of its least interval that one round of operations takes.", 1.0),
    "overloaded": ("penstock_token_overloaded", "Whether that is more than all of it.", 1.0),
    "operating": ("penstock_token_operating", "Whether this broker is enabled.", 1.0),
    "op_ms": ("penstock_token_operation_seconds", "Budget of one operation.", 0.001),
    "min_ms": ("penstock_token_interval_min_seconds", "Least time between two operations of a broker.", 0.001),
    "gen_ms": ("penstock_token_timeout_seconds", "Time without a token after which a new one is made.", 0.001),
}
_COUNTERS: Final = {
    "operations": ("penstock_token_operations", "Operations that the token has enabled here."),
    "skips": ("penstock_token_skips", "Visits of the token at which nothing was due."),
    "discards": ("penstock_token_discards", "Tokens discarded here, since there was an older one."),
    "regenerations": ("penstock_token_regenerations", "Tokens made here, since none came for too long."),
    "handovers": ("penstock_token_handovers", "Tokens passed on from here."),
    "unanswered": ("penstock_token_unanswered", "Offers of the token that nobody answered."),
    "overlaps": ("penstock_token_overlaps", "Tokens seen beside another one."),
    "overruns": ("penstock_token_overruns", "Operations that took longer than their budget."),
}


def token_metrics(broker: BrokerStatus) -> Iterator[Metric]:
    """All of one broker's status; nothing if no token walks."""
    found = broker.mechanisms.get("token", {})
    if "k_load" not in found:
        return
    for key, (name, text, scale) in _GAUGES.items():
        yield GaugeMetricFamily(name, text, value=found[key] * scale)
    for key, (name, text) in _COUNTERS.items():
        yield CounterMetricFamily(name, text, value=found[key])
    yield GaugeMetricFamily(
        "penstock_token_clock_faults", "Brokers whose clock differs by too much.", value=len(found["clock_faults"])
    )
