"""The figures of congestion control as Prometheus wants them: rates of pubends, streams of hosts, what waits for links.

Of many streams those furthest behind are shown, so that the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.protocol.status import BrokerStatus, FlowStatus, RateStatus

__all__ = ["congestion_metrics"]

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


def congestion_metrics(broker: BrokerStatus, *, series_max: int) -> Iterator[Metric]:
    """All of one broker's status."""
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
