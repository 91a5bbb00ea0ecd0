"""Exports the figures of a node to Prometheus; they are read afresh at every scrape, so that nothing counts twice.

The shell's counters come from the node, the broker's from its status; names follow Prometheus' conventions (unit last,
``_total`` for counters). The number of series is bounded, whatever the overlay is: beyond the bound only those furthest
behind are shown, and each pubend's worst. The figures of homes that run beside the broker have the label ``broker``
with the name of the home; its own have no such label.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.live.mechanism_metrics import balancing_metrics, congestion_metrics, token_metrics
from penstock.live.node_status import NodeStatus
from penstock.live.overlay import Home
from penstock.model.tick import Tick, tick_ms
from penstock.protocol.status import BrokerStatus, CandidacyStatus, GuaranteedStatus, PubendStatus, StreamStatus

__all__ = ["StatusSource", "registry_of", "rendered"]

_NODE_COUNTERS: Final = {
    "accepted": "Incoming connections accepted.",
    "turned_away": "Connections and TLS handshakes dropped because the broker was at its limit.",
    "dialled": "Outgoing connections made to neighbours.",
    "dials_failed": "Failed attempts to connect to neighbours.",
    "closed": "Connections that ended.",
    "aborted": "Connections cut because they took too long to close.",
    "frames_in": "Frames received.",
    "bytes_in": "Bytes received.",
    "frames_out": "Frames sent.",
    "bytes_out": "Bytes sent.",
    "writes": "Writes to sockets.",
    "malformed": "Connections closed because the peer broke the protocol.",
    "bugs": "Unexpected exceptions: bugs.",
}
_STORE_COUNTERS: Final = {
    "commits": "Commits made durable.",
    "syncs": "Syncs, each of which makes a group of commits durable.",
    "messages": "Messages in durable commits.",
    "reads": "Reads of the log.",
}
_STORE_GAUGES: Final = {
    "waiting_commits": "Commits waiting to become durable.",
    "waiting_bytes": "Bytes of messages in commits waiting to become durable.",
    "messages_per_sync": "Messages per sync since the start.",
    "full": "Whether the store is full, and commits wait for space.",
    "file_bytes": "Size of the store's files.",
    "damaged_records": "Records of the log that could not be read.",
}
_COUNTS: Final = {
    "published": "Messages received from this broker's publishers.",
    "forwarded": "Best-effort messages sent to neighbours.",
    "delivered": "Messages queued for clients, once per connection.",
    "off_tree": "Best-effort messages dropped because they did not come along the tree.",
    "repeated": "Best-effort messages dropped as duplicates.",
    "publishes_repeated": "Messages that a publisher resent although the pubend had them.",
    "log_reads": "Reads of pubends' logs to answer NACKs.",
    "damaged_records": "Reads that found a damaged record.",
    "history_lost": "Pubends whose store lacked what other brokers remember, when this broker started.",
    "history_lost_late": "Reports of that after the pubend had begun.",
    "memory_implausible": "Ticks that others remember and that lie too far in the future to be believed.",
    "knowledge_off_tree": "Knowledge messages dropped because they did not come along the tree.",
    "knowledge_dropped": "Knowledge messages dropped at a full outbox; NACKs recover them.",
    "nacks_sent": "NACKs sent for this broker's own clients.",
    "nacks_heard": "NACKs received, including this broker's own.",
    "nacks_forwarded": "NACKs passed on towards the pubend.",
    "nacks_suppressed": "NACKs not passed on, because the same ticks were requested just before.",
    "answered_from_cache": "NACKs answered from the cache.",
    "answers_passed_on": "Answers sent to neighbours for their NACKs.",
    "versions_changed": "Knowledge messages that announced other versions of filters.",
    "edge_deliveries": "Messages released by edge streams and catch-ups, wanted or not.",
    "catch_ups": "Subscriptions that began behind the shared stream.",
    "catch_ups_met": "Catch-up streams that reached the shared stream.",
    "catch_ups_paused": "Times a catch-up paused for a client that does not read.",
    "joined_at_once": "Subscriptions that began with the shared stream.",
    "old_silence_doubted": "Knowledge messages whose silence was ignored because an older filter decided it.",
    "lost_ticks": "Ranges of ticks reported to clients as lost.",
    "trims": "Trims of pubends' logs.",
    "hosts_lapsed": "Hosts given up because they did not report within the grace period.",
    "log_lapsed": "Times a log at its size limit dropped messages that a subscriber had not received.",
    "dcqs_sent": "DCQs by which pubends of this broker asked who is congested.",
    "dcqs_passed": "DCQs received for other brokers' pubends.",
    "ucas_raised": "UCAs raised because a stream of this broker's own clients does not keep up.",
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


def registry_of(
    source: StatusSource, *, names: bool = True, homes: bool = True, now_ms: Callable[[], int] = _now_ms
) -> CollectorRegistry:
    """A new registry, which asks the source at every scrape.

    With or without the names of durable subscriptions, and the figures of homes that run beside the broker.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(source, now_ms, names=names, homes=homes))
    return registry


def rendered(registry: CollectorRegistry) -> bytes:
    """The metrics as text for Prometheus."""
    return generate_latest(registry)


class _Collector:
    """Asks the source, and turns its answer into metrics."""

    def __init__(self, source: StatusSource, now_ms: Callable[[], int], *, names: bool, homes: bool) -> None:
        self._source = source
        self._now_ms = now_ms
        self._names = names
        self._homes = homes

    def describe(self) -> list[Metric]:
        """Nothing: which metrics there are depends on the broker, and is found out at every scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics as of now."""
        status = self._source.status()
        if not self._homes:
            yield from self._node_metrics(status)
            return
        # All samples of one name must stand together.
        found: dict[str, Metric] = {}
        _add(found, self._node_metrics(status), {})
        for name, home in status.broker.homes.items():
            _add(found, self._figures(home, status.stores.get(name, {})), {"broker": name})
        yield from found.values()

    def _node_metrics(self, status: NodeStatus) -> Iterator[Metric]:
        node = status.node
        yield _gauge("penstock_up", "Whether the broker is serving.", int(status.serving))
        yield _gauge("penstock_uptime_seconds", "Time since the start.", status.uptime_ms / 1_000)
        yield _gauge("penstock_connections", "Open connections.", node["open_connections"])
        for key, text in _NODE_COUNTERS.items():
            yield _counter(f"penstock_{key}", text, node[key])
        yield from _candidacy_metrics(status.broker.candidacies)
        yield from self._figures(status.broker, status.store)

    def _figures(self, broker: BrokerStatus, store: Mapping[str, Any]) -> Iterator[Metric]:
        """The figures of a broker or of a home, and of its store if it has one."""
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
        if store:
            yield from _store_metrics(store)


def _add(found: dict[str, Metric], metrics: Iterator[Metric], labels: Mapping[str, str]) -> None:
    """Add metrics to those of the same names, with more labels."""
    for metric in metrics:
        samples = [each._replace(labels={**each.labels, **labels}) for each in metric.samples]
        if metric.name in found:
            found[metric.name].samples += samples
        else:
            metric.samples = samples
            found[metric.name] = metric


def _candidacy_metrics(candidacies: Sequence[CandidacyStatus]) -> Iterator[Metric]:
    text = "Whether this broker runs the home of a pubend that it is a candidate for."
    yield _labelled("penstock_home_holder", text, {each.pubend: int(bool(each.epoch)) for each in candidacies})
    text = "Epoch in which this broker runs the home of a pubend."
    epochs = GaugeMetricFamily("penstock_home_epoch", text, labels=["pubend", "broker"])
    for each in candidacies:
        if each.epoch:
            epochs.add_metric([each.pubend, Home.name_for(each.pubend)], each.epoch)
    yield epochs


def _store_metrics(store: Mapping[str, Any]) -> Iterator[Metric]:
    if "replicas" in store:
        text = "Synchronous standbys that have each commit before it counts."
        yield _gauge("penstock_store_replicas", text, store["replicas"])
    for key, text in _STORE_COUNTERS.items():
        yield _counter(f"penstock_store_{key}", text, store[key])
    for key, text in _STORE_GAUGES.items():
        yield _gauge(f"penstock_store_{key}", text, store[key])
    yield _gauge("penstock_store_last_sync_seconds", "Duration of the last sync.", store["last_sync_ms"] / 1_000)


def _broker_metrics(broker: BrokerStatus) -> Iterator[Metric]:
    yield _gauge("penstock_clients", "Connected clients.", broker.clients)
    yield _gauge("penstock_subscriptions", "Subscriptions of this broker's clients.", broker.subscriptions)
    yield _gauge("penstock_outbox_bytes", "Bytes of data waiting to be sent.", broker.outbox_bytes)
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
    yield _gauge("penstock_commits_waiting", "Commits the broker is waiting for.", guaranteed.commits_waiting)
    held_back = int(bool(guaranteed.held_back))
    yield _gauge(
        "penstock_held_back", "Whether publishers are held back, by a full store or by slow subscribers.", held_back
    )


def _pending_metrics(durables: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
    text = "Messages sent to a durable subscription at this broker and not yet acknowledged."
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
    text = "Lag of the slowest host behind the last tick."
    yield _labelled("penstock_pubend_lag_seconds", text, worst)
    family = GaugeMetricFamily(
        "penstock_host_lag_seconds", "Lag of each host behind the last tick.", labels=["pubend", "host"]
    )
    for (pubend, host), lag_s in sorted(lags.items(), key=lambda each: (-each[1], each[0]))[:_SERIES_MAX]:
        family.add_metric([pubend, host], lag_s)
    yield family
    text = "Durable subscriptions that the pubend keeps."
    counts = {name: each.durable_count for name, each in shown.items()}
    yield _labelled("penstock_pubend_durables", text, counts)
    views = {name: each.last_values for name, each in shown.items() if each.last_values is not None}
    text = "Keys whose last values the pubend keeps beyond its log."
    yield _labelled("penstock_pubend_last_values", text, {name: each.keys for name, each in views.items()})
    text = "Bytes of messages that the pubend keeps beyond its log as last values."
    yield _labelled("penstock_pubend_last_values_bytes", text, {name: each.size_bytes for name, each in views.items()})
    text = "Messages that the pubend should keep as last values and dropped, since there were too many."
    yield _labelled("penstock_pubend_last_values_dropped", text, {name: each.dropped for name, each in views.items()})
    text = "Last values that could not be read when the broker was started."
    yield _labelled("penstock_pubend_last_values_damaged", text, {name: each.damaged for name, each in views.items()})


def _durable_lags(pubends: Mapping[str, PubendStatus]) -> Metric:
    """Lags of durable subscriptions; a broker names only those furthest behind, so there are not too many."""
    text = "Lag of a durable subscription's acknowledgements behind the last tick; silence advances them, too."
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
    text = "Lag of the stream's doubt horizon behind the last tick this broker has heard of."
    yield _labelled("penstock_stream_lag_seconds", text, {name: lags[name] for name in shown})
    # A broker that hears nothing from a pubend knows of no lag: only the clock shows it.
    text = "Time since the doubt horizon of this broker's stream."
    ages = {name: (now_ms - tick_ms(Tick(each.horizon))) / 1_000 for name, each in shown.items()}
    yield _labelled("penstock_stream_horizon_age_seconds", text, ages)
    text = "Messages beyond the doubt horizon, kept until the gap is closed."
    yield _labelled("penstock_stream_pending_bytes", text, {name: each.pending_bytes for name, each in shown.items()})
    text = "Catch-up streams in progress."
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
