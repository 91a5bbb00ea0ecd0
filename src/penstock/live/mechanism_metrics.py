"""Exports the figures of balancing, the wandering token ([Token] section 3) and congestion control to Prometheus.

Balancing shows loads, state, sessions and migrations; the token its constants, load and counts; congestion control the
rates of pubends, the streams of hosts and the queues of links. If there are many streams, only those furthest behind
are shown, so that the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.model.metrics import METRICS
from penstock.protocol.status import BalancingStatus, BrokerStatus, FlowStatus, RateStatus

__all__ = ["balancing_metrics", "congestion_metrics", "token_metrics"]

_BALANCING_COUNTERS: Final = {
    "sessions": ("sessions", "Sessions in which this broker offloaded."),
    "fruitless": ("fruitless_sessions", "Sessions in which nobody could be moved."),
    "migrations": ("migrations", "Clients that moved away."),
    "arrivals": ("arrivals", "Clients that moved here."),
    "timeouts": ("timeouts", "Waits for a partner that ended by time."),
    "malformed": ("malformed", "Control messages that could not be right."),
}
"""Counts that are shown, with the ends of their names."""
_BALANCING_STATES: Final = ("OK", "BUSY", "N/A", "STABILIZING")
_TOKEN_GAUGES: Final = {
    "members": ("penstock_token_members", "Brokers that the token walks over, as far as they can be reached.", 1.0),
    "k_load": ("penstock_token_load", "Share of its least interval that one round of operations takes.", 1.0),
    "overloaded": ("penstock_token_overloaded", "Whether that is more than all of it.", 1.0),
    "operating": ("penstock_token_operating", "Whether this broker is enabled.", 1.0),
    "op_ms": ("penstock_token_operation_seconds", "Budget of one operation.", 0.001),
    "min_ms": ("penstock_token_interval_min_seconds", "Least time between two operations of a broker.", 0.001),
    "gen_ms": ("penstock_token_timeout_seconds", "Time without a token after which a new one is made.", 0.001),
}
_TOKEN_COUNTERS: Final = {
    "operations": ("penstock_token_operations", "Operations that the token has enabled here."),
    "skips": ("penstock_token_skips", "Visits of the token at which nothing was due."),
    "discards": ("penstock_token_discards", "Tokens discarded here, since there was an older one."),
    "regenerations": ("penstock_token_regenerations", "Tokens made here, since none came for too long."),
    "handovers": ("penstock_token_handovers", "Tokens passed on from here."),
    "unanswered": ("penstock_token_unanswered", "Offers of the token that nobody answered."),
    "overlaps": ("penstock_token_overlaps", "Tokens seen beside another one."),
    "overruns": ("penstock_token_overruns", "Operations that took longer than their budget."),
}
_PUBEND_GAUGES: Final = {
    "rate_msg_s": ("penstock_pubend_rate", "Messages per second that are published."),
    "allowed_msg_s": ("penstock_pubend_allowed_rate", "Messages per second that may be; absent if nothing limits it."),
    "uca_rate": ("penstock_pubend_uca_horizon_rate", "Horizon rate in the last UCA, the slowest of all hosts."),
}
_PUBEND_COUNTERS: Final = {
    "decreases": ("penstock_pubend_rate_decreases", "Cuts of the rate that is allowed."),
    "increases": ("penstock_pubend_rate_increases", "Rises of the rate that is allowed."),
}
_STREAM_GAUGES: Final = {
    "horizon_rate": ("penstock_stream_horizon_rate", "Ticks per time that the doubt horizon moves, smoothed.", 1.0),
    "lag_ms": ("penstock_stream_query_lag_seconds", "Lag of the doubt horizon when the pubend asked last.", 0.001),
    "nack_window_ms": ("penstock_stream_nack_window_seconds", "How much of a stream may be asked for at once.", 0.001),
    "recovering": ("penstock_stream_recovering", "Whether the stream has to ask for what it had no room for.", 1.0),
}


def balancing_metrics(broker: BrokerStatus) -> Iterator[Metric]:
    """The balancing metrics in a broker's status; none if it does not balance itself.

    At a head they are those of its cluster; what it does with its own clients has names of its own.
    """
    found = broker.balancing
    if found is None:
        return
    yield from _balancing_metrics(found, "penstock_balancing")
    if found.own is not UNSET:
        yield from _balancing_metrics(found.own, "penstock_balancing_own")


def _balancing_metrics(found: BalancingStatus, prefix: str) -> Iterator[Metric]:
    for each in METRICS:
        if each.of(found) is not UNSET:
            series = each.series.replace("penstock_balancing", prefix)
            yield GaugeMetricFamily(series, each.help, value=each.of(found))
    state = GaugeMetricFamily(f"{prefix}_state", "1 for the state it is in.", labels=["state"])
    for name in _BALANCING_STATES:
        state.add_metric([name], int(found.state == name))
    yield state
    for key, (name, text) in _BALANCING_COUNTERS.items():
        if key in found.counts:
            yield CounterMetricFamily(f"{prefix}_{name}", text, value=found.counts[key])


def token_metrics(broker: BrokerStatus) -> Iterator[Metric]:
    """The token metrics in a broker's status; none if there is no token."""
    found = broker.token
    if found is None:
        return
    for key, (name, text, scale) in _TOKEN_GAUGES.items():
        yield GaugeMetricFamily(name, text, value=getattr(found, key) * scale)
    for key, (name, text) in _TOKEN_COUNTERS.items():
        yield CounterMetricFamily(name, text, value=getattr(found, key))
    yield GaugeMetricFamily(
        "penstock_token_clock_faults", "Brokers whose clock differs by too much.", value=len(found.clock_faults)
    )


def congestion_metrics(broker: BrokerStatus, *, series_max: int) -> Iterator[Metric]:
    """The congestion metrics in a broker's status."""
    pubends = dict(sorted(broker.congestion.pubends.items())[:series_max])
    yield from _pubend_metrics(pubends)
    streams = broker.congestion.streams
    furthest = sorted(streams, key=lambda name: (-streams[name].lag_ms, name))[:series_max]
    yield from _stream_metrics({name: streams[name] for name in furthest})
    outboxes = GaugeMetricFamily("penstock_link_outbox_bytes", "Data that waits for a link.", labels=["neighbour"])
    for neighbour, size in sorted(broker.outboxes.items())[:series_max]:
        outboxes.add_metric([neighbour], size)
    yield outboxes


def _pubend_metrics(pubends: Mapping[str, RateStatus]) -> Iterator[Metric]:
    for key, (name, text) in _PUBEND_GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=["pubend"])
        for pubend, each in pubends.items():
            value = getattr(each, key)
            if value is not None:
                gauge.add_metric([pubend], value)
        yield gauge
    limited = GaugeMetricFamily("penstock_pubend_limited", "Whether the pubend is limited.", labels=["pubend"])
    for pubend, each in pubends.items():
        limited.add_metric([pubend], int(each.allowed_msg_s is not None))
    yield limited
    for key, (name, text) in _PUBEND_COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=["pubend"])
        for pubend, each in pubends.items():
            counter.add_metric([pubend], getattr(each, key))
        yield counter


def _stream_metrics(streams: Mapping[str, FlowStatus]) -> Iterator[Metric]:
    for key, (name, text, scale) in _STREAM_GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=["pubend"])
        for pubend, each in streams.items():
            gauge.add_metric([pubend], getattr(each, key) * scale)
        yield gauge
