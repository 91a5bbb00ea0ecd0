"""Exports the figures of a node to Prometheus; they are read afresh at every scrape, so that nothing counts twice.

The shell's counters come from the node, the broker's from its status; names follow Prometheus' conventions (unit last,
``_total`` for counters). The number of series is bounded, whatever the overlay is: beyond the bound only those furthest
behind are shown, and each pubend's worst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.live.mechanism_metrics import balancing_metrics, congestion_metrics, token_metrics
from penstock.live.node_status import NodeStatus
from penstock.model.tick import Tick, tick_ms
from penstock.protocol.status import BrokerStatus, GuaranteedStatus, PubendStatus, StreamStatus

__all__ = ["StatusSource", "registry_of", "rendered"]

_NODE_COUNTERS: Final = {
    "accepted": "Connections that others made.",
    "turned_away": "Connections and TLS handshakes that were cut because there was no room for them.",
    "dialled": "Connections to neighbours that were made.",
    "dials_failed": "Calls to neighbours that failed.",
    "closed": "Connections that ended.",
    "aborted": "Connections that were cut because their end took too long.",
    "frames_in": "Frames received.",
    "bytes_in": "Bytes received.",
    "frames_out": "Frames sent.",
    "bytes_out": "Bytes sent.",
    "writes": "Writes to sockets.",
    "malformed": "Connections ended because they broke the protocol.",
    "bugs": "Exceptions that must not be.",
}
_STORE_COUNTERS: Final = {
    "commits": "Commits that are durable.",
    "syncs": "Groups of commits that became durable by one sync.",
    "messages": "Messages in durable commits.",
    "reads": "Reads of the log.",
}
_STORE_GAUGES: Final = {
    "waiting_commits": "Commits that are not durable yet.",
    "waiting_bytes": "Bytes of messages in commits that are not durable yet.",
    "messages_per_sync": "Messages per sync since the start.",
    "full": "Whether commits wait for space.",
    "file_bytes": "Size of the store's files.",
    "damaged_records": "Records of the log that could not be read.",
}
_COUNTS: Final = {
    "published": "Messages that publishers of this broker brought.",
    "forwarded": "Best-effort messages sent to neighbours.",
    "delivered": "Messages queued for clients, once per connection.",
    "off_tree": "Best-effort messages that came by a way that is not the tree's.",
    "repeated": "Best-effort messages that came again.",
    "publishes_repeated": "Messages that a publisher sent again and the pubend had already.",
    "log_reads": "Reads of pubends' logs for those who asked.",
    "damaged_records": "Reads that met a damaged record.",
    "knowledge_off_tree": "Knowledge messages that came by a way that is not the tree's.",
    "knowledge_dropped": "Knowledge messages dropped at a full outbox; they are asked for again.",
    "nacks_sent": "NACKs sent for this broker's own clients.",
    "nacks_heard": "NACKs that came to this broker, its own included.",
    "nacks_forwarded": "NACKs passed on towards the pubend.",
    "nacks_suppressed": "NACKs not passed on, because the same was asked for just before.",
    "answered_from_cache": "NACKs answered from the cache.",
    "answers_passed_on": "Answers to NACKs passed on to who asked.",
    "versions_changed": "Knowledge messages that told of other versions of filters.",
    "edge_deliveries": "Messages that left edge streams and catch-ups, whoever wanted them.",
    "catch_ups": "Subscriptions that began behind the shared stream.",
    "catch_ups_met": "Catch-up streams that met the shared one.",
    "catch_ups_paused": "Times that a catch-up waited for a client that does not read.",
    "joined_at_once": "Subscriptions that began with the shared stream.",
    "old_silence_doubted": "Knowledge messages whose silence was of an older filter, and not believed.",
    "lost_ticks": "Ranges of ticks reported to clients as lost.",
    "trims": "Trims of pubends' logs.",
    "hosts_lapsed": "Hosts that were given up because they did not report for the grace period.",
    "log_lapsed": "Times that a log at its maximum gave up what somebody had not received.",
    "dcqs_sent": "DCQs by which pubends of this broker asked who is congested.",
    "dcqs_passed": "DCQs of other brokers' pubends that came by.",
    "ucas_raised": "UCAs of this broker: some stream of its own clients does not keep up.",
    "ucas_passed": "UCAs passed on towards the pubend, consolidated.",
    "ucas_heard": "UCAs that reached pubends of this broker.",
}
_SERIES_MAX: Final = 1_000
"""Series shown of one metric, where there is one per pubend and host."""


class StatusSource(Protocol):
    """A node, whose status is exported."""

    def status(self) -> NodeStatus:
        """The node's current status."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def registry_of(source: StatusSource, *, names: bool = True, now_ms: Callable[[], int] = _now_ms) -> CollectorRegistry:
    """A new registry, which asks the source at every scrape; with or without the names of durable subscriptions."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(source, now_ms, names=names))
    return registry


def rendered(registry: CollectorRegistry) -> bytes:
    """The metrics as text for Prometheus."""
    return generate_latest(registry)


class _Collector:
    """Asks the source, and turns its answer into metrics."""

    def __init__(self, source: StatusSource, now_ms: Callable[[], int], *, names: bool) -> None:
        self._source = source
        self._now_ms = now_ms
        self._names = names

    def describe(self) -> list[Metric]:
        """Nothing: which metrics there are depends on the broker, and is found out at every scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics as of now."""
        status = self._source.status()
        node, broker = status.node, status.broker
        yield _gauge("penstock_up", "Whether the broker is serving.", int(status.serving))
        yield _gauge("penstock_uptime_seconds", "Time since the start.", status.uptime_ms / 1_000)
        yield _gauge("penstock_connections", "Connections that are open.", node["open_connections"])
        for key, text in _NODE_COUNTERS.items():
            yield _counter(f"penstock_{key}", text, node[key])
        yield from _broker_metrics(broker)
        guaranteed, now_ms = broker.guaranteed, self._now_ms()
        yield from _guaranteed_metrics(guaranteed)
        yield from _pubend_metrics(guaranteed.pubends, now_ms)
        if self._names:
            yield from _pending_metrics(guaranteed.durables)
            yield _durable_lags(guaranteed.pubends)
        yield from _stream_metrics(guaranteed.streams, now_ms)
        yield from congestion_metrics(broker, series_max=_SERIES_MAX)
        yield from token_metrics(broker)
        yield from balancing_metrics(broker)
        if status.store:
            yield from _store_metrics(status.store)


def _store_metrics(store: Mapping[str, Any]) -> Iterator[Metric]:
    for key, text in _STORE_COUNTERS.items():
        yield _counter(f"penstock_store_{key}", text, store[key])
    for key, text in _STORE_GAUGES.items():
        yield _gauge(f"penstock_store_{key}", text, store[key])
    yield _gauge("penstock_store_last_sync_seconds", "Duration of the last sync.", store["last_sync_ms"] / 1_000)


def _broker_metrics(broker: BrokerStatus) -> Iterator[Metric]:
    yield _gauge("penstock_clients", "Clients that are connected.", broker.clients)
    yield _gauge("penstock_subscriptions", "Subscriptions of this broker's clients.", broker.subscriptions)
    yield _gauge("penstock_outbox_bytes", "Data that waits to be sent.", broker.outbox_bytes)
    yield _gauge("penstock_links", "Links that are up.", len(broker.links))
    yield _gauge("penstock_brokers", "Brokers of the overlay that are known.", len(broker.brokers))
    yield _counter("penstock_refused", "Requests of clients that were refused.", broker.refused)
    for key, value in broker.counts.items():
        yield _counter(f"penstock_{key}", _COUNTS.get(key, f"Count of {key.replace('_', ' ')}."), value)
    dropped = CounterMetricFamily("penstock_dropped", "Data frames dropped at a full outbox.", labels=["to"])
    for kind, value in broker.dropped.items():
        dropped.add_metric([kind], value)
    yield dropped
    filters = GaugeMetricFamily("penstock_filter", "Sizes of the filters of all brokers.", labels=["of"])
    filters.add_metric(["hosts"], broker.filters.hosts)
    filters.add_metric(["entries"], broker.filters.entries)
    filters.add_metric(["own"], broker.filters.own)
    yield filters
    yield from _mechanism_metrics(broker.mechanisms)


def _guaranteed_metrics(guaranteed: GuaranteedStatus) -> Iterator[Metric]:
    yield _gauge("penstock_cache_bytes", "Knowledge kept to answer NACKs.", guaranteed.cache_bytes)
    yield _gauge("penstock_commits_waiting", "Commits that the broker waits for.", guaranteed.commits_waiting)
    held_back = int(bool(guaranteed.held_back))
    yield _gauge("penstock_held_back", "Whether publishers have to wait, for space or for subscribers.", held_back)


def _pending_metrics(durables: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
    text = "Messages that were sent to a durable subscription of a client of this broker, and are not acknowledged."
    family = GaugeMetricFamily("penstock_durable_pending", text, labels=["pubend", "durable"])
    for name, pubends in durables.items():
        for pubend, count in pubends.items():
            family.add_metric([pubend, name], count)
    yield family


def _pubend_metrics(pubends: Mapping[str, PubendStatus], now_ms: int) -> Iterator[Metric]:
    shown = dict(sorted(pubends.items())[:_SERIES_MAX])
    lags = {
        (pubend, host): _behind_s(figures.last_tick, tick)
        for pubend, figures in shown.items()
        for host, tick in figures.hosts.items()
    }
    worst: dict[str, float] = {}
    for (pubend, _), lag_s in lags.items():
        worst[pubend] = max(lag_s, worst.get(pubend, 0.0))
    text = "Bytes of messages in the pubend's log."
    yield _labelled("penstock_pubend_log_bytes", text, {name: each.size_bytes for name, each in shown.items()})
    text = "Time since the last tick that was given out or promised to be silent; below zero if the stream is ahead."
    ages = {name: (now_ms - tick_ms(Tick(each.last_tick))) / 1_000 for name, each in shown.items()}
    yield _labelled("penstock_pubend_last_tick_age_seconds", text, ages)
    text = "Hosts that have reported to the pubend."
    yield _labelled("penstock_pubend_hosts", text, {name: len(each.hosts) for name, each in shown.items()})
    text = "How far the host furthest behind is behind the last tick."
    yield _labelled("penstock_pubend_lag_seconds", text, worst)
    family = GaugeMetricFamily("penstock_host_lag_seconds", "The same of each host.", labels=["pubend", "host"])
    for (pubend, host), lag_s in sorted(lags.items(), key=lambda each: (-each[1], each[0]))[:_SERIES_MAX]:
        family.add_metric([pubend, host], lag_s)
    yield family
    text = "Durable subscriptions that the pubend keeps."
    counts = {name: each.durable_count for name, each in shown.items()}
    yield _labelled("penstock_pubend_durables", text, counts)


def _durable_lags(pubends: Mapping[str, PubendStatus]) -> Metric:
    """Lags of durable subscriptions; a broker names only those furthest behind, so there are not too many."""
    text = "How far what a durable subscription has acknowledged is behind the last tick; silence moves it, too."
    family = GaugeMetricFamily("penstock_durable_lag_seconds", text, labels=["pubend", "durable"])
    lags = [
        (-_behind_s(figures.last_tick, each.tick), pubend, name)
        for pubend, figures in sorted(pubends.items())[:_SERIES_MAX]
        for name, each in figures.durables.items()
    ]
    for lag_s, pubend, name in sorted(lags)[:_SERIES_MAX]:
        family.add_metric([pubend, name], -lag_s)
    return family


def _stream_metrics(streams: Mapping[str, StreamStatus], now_ms: int) -> Iterator[Metric]:
    lags = {name: _behind_s(each.heard, each.horizon) for name, each in streams.items()}
    shown = {name: streams[name] for name in sorted(streams, key=lambda name: (-lags[name], name))[:_SERIES_MAX]}
    text = "How far the doubt horizon of this broker's stream is behind what it has heard of."
    yield _labelled("penstock_stream_lag_seconds", text, {name: lags[name] for name in shown})
    # A broker that hears nothing from a pubend knows of no lag: only the clock shows it.
    text = "Time since the doubt horizon of this broker's stream."
    ages = {name: (now_ms - tick_ms(Tick(each.horizon))) / 1_000 for name, each in shown.items()}
    yield _labelled("penstock_stream_horizon_age_seconds", text, ages)
    text = "Messages beyond the doubt horizon, kept until the gap is closed."
    yield _labelled("penstock_stream_pending_bytes", text, {name: each.pending_bytes for name, each in shown.items()})
    text = "Catch-up streams that run."
    yield _labelled("penstock_stream_catch_ups", text, {name: each.catch_ups for name, each in shown.items()})
    text = "Subscriptions that the shared stream does not serve yet."
    yield _labelled("penstock_stream_subscriptions_behind", text, {name: each.behind for name, each in shown.items()})


def _behind_s(last_tick: int, next_tick: int) -> float:
    """How far a position, the first tick not received yet, is behind the last tick."""
    return max(0, tick_ms(Tick(last_tick)) - tick_ms(Tick(next_tick))) / 1_000


def _labelled(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["pubend"])
    for pubend, value in values.items():
        family.add_metric([pubend], value)
    return family


def _mechanism_metrics(mechanisms: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    family = GaugeMetricFamily("penstock_mechanism", "Figures of the mechanisms.", labels=["mechanism", "figure"])
    for name, figures in mechanisms.items():
        for figure, value in figures.items():
            if isinstance(value, int | float):
                family.add_metric([name, figure], value)
    yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
